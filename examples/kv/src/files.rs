//! Files that a crash does not tear.
//!
//! *Invariant*: after [`replace`] the file has the new bytes, also after a crash. A crash in the
//! middle of it leaves the old file. A record of [`line`] that a crash has torn is known by its
//! sum.
use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// Whether a call waits until the disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// It waits.
    Yes,
    /// It leaves that to the system. A crash may lose it.
    No,
}

/// Makes a folder, unless it is there.
///
/// # Errors
///
/// What the system says.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let parent = folder
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Gives the file of that name in the folder new contents.
///
/// # Errors
///
/// What the system says.
pub fn replace(folder: &Path, name: &str, bytes: &[u8], sync: Fsync) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    if sync == Fsync::Yes {
        file.sync_all()?;
    }
    fs::rename(new, folder.join(name))?;
    if sync == Fsync::Yes {
        // The name, too, has to be on the disk.
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The bytes of a file, if it is there.
///
/// # Errors
///
/// What the system says.
pub fn read(folder: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(folder.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A line with a sum of its text.
pub fn line(text: &str) -> String {
    format!("{:08x} {text}\n", crc32fast::hash(text.as_bytes()))
}

/// The texts of the lines up to the first that is torn, and how many bytes they have.
pub fn lines(bytes: &[u8]) -> (Vec<&str>, usize) {
    let (mut texts, mut length) = (Vec::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = text_of(line) else { break };
        texts.push(text);
        length += line.len();
    }
    (texts, length)
}

fn text_of(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, text) = line.split_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (sum == crc32fast::hash(text.as_bytes())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_ends_the_file() {
        let whole = [line("one"), line("two")].concat();
        let (texts, length) = lines(whole.as_bytes());
        assert_eq!((texts, length), (vec!["one", "two"], whole.len()));
        for cut in line("one").len()..whole.len() {
            let (texts, length) = lines(&whole.as_bytes()[..cut]);
            assert_eq!((texts, length), (vec!["one"], line("one").len()));
        }
        let mut zeros = whole.into_bytes();
        zeros[15..17].fill(0);
        assert_eq!(lines(&zeros).0, ["one"]);
    }
}
