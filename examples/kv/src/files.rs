//! Files that a crash does not tear.
//!
//! # How it works
//!
//! A call that changes a file is made of steps: write, sync, rename, sync the folder. Each step is
//! a blocking call of its own, so a crash can come between any two of them.
//!
//! *Invariant*: after [`replace`] the file has the new bytes, also after a crash. A crash in the
//! middle of it leaves the old file or the new one. A record of [`line`] that a crash has torn is
//! known by its sum. What [`read`] gives is on the disk.
//!
//! Rejected: one blocking call for all steps, which is faster. In the simulation such a call has
//! its effects in one moment, and no crash could come between them.
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::task::spawn_blocking;

use crate::bug::Bug;

/// Whether a call waits until the disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// It waits.
    Yes,
    /// It leaves that to the system. A crash may lose it.
    No,
}

/// The steps of [`replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// The bytes are synced before the rename, and the folder after it.
    All,
    /// The folder is not synced: after a crash the old file may be back.
    WithoutFolder,
    /// The bytes are synced at last: a crash may leave the new name without its bytes.
    RenameFirst,
}

impl Steps {
    /// All of them, in the order that this mistake leaves.
    pub fn with(bug: Bug) -> Self {
        match bug {
            Bug::RenamedBeforeSync => Self::RenameFirst,
            _ => Self::All,
        }
    }
}

async fn step<T: Send + 'static>(
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = spawn_blocking(call).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

async fn sync(path: PathBuf) -> io::Result<()> {
    let file = step(move || File::open(path)).await?;
    step(move || file.sync_all()).await
}

/// Makes a folder in a folder that is there, unless it is there itself. Its name and the names in
/// it are on the disk afterwards.
///
/// # Errors
///
/// What the system says.
pub async fn make_folder(folder: &Path) -> io::Result<()> {
    let new = folder.to_owned();
    match step(move || fs::create_dir(new)).await {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let parent = folder
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    sync(parent.unwrap_or(Path::new(".")).to_owned()).await?;
    // A program that was killed may have left names that are not on the disk.
    sync(folder.to_owned()).await
}

/// Gives the file of that name in the folder new contents.
///
/// # Errors
///
/// What the system says.
pub async fn replace(folder: &Path, name: &str, bytes: Vec<u8>, steps: Steps) -> io::Result<()> {
    let (new, old) = (folder.join(format!("{name}.new")), folder.join(name));
    let path = new.clone();
    let file = step(move || File::create(path)).await?;
    let file = step(move || (&file).write_all(&bytes).map(|()| file)).await?;
    if steps == Steps::RenameFirst {
        step(move || fs::rename(new, old)).await?;
        sync(folder.to_owned()).await?;
        return step(move || file.sync_all()).await;
    }
    step(move || file.sync_all()).await?;
    step(move || fs::rename(new, old)).await?;
    if steps == Steps::WithoutFolder {
        return Ok(());
    }
    // The name, too, has to be on the disk.
    sync(folder.to_owned()).await
}

/// Writes to the end of a file that was opened for that.
///
/// # Errors
///
/// What the system says. Nobody knows then how much of it is on the disk.
pub async fn append(file: &Arc<File>, text: String, sync: Fsync) -> io::Result<()> {
    let (to, synced) = (file.clone(), file.clone());
    step(move || (&*to).write_all(text.as_bytes())).await?;
    if sync == Fsync::Yes {
        step(move || synced.sync_data()).await?;
    }
    Ok(())
}

/// Opens a file whose bytes are only added to. It has to be there.
///
/// # Errors
///
/// What the system says.
pub async fn open_to_append(folder: &Path, name: &str) -> io::Result<Arc<File>> {
    let path = folder.join(name);
    let file = step(move || File::options().append(true).open(path)).await?;
    Ok(Arc::new(file))
}

/// Cuts a file to its first bytes, and waits until the disk has it.
///
/// # Errors
///
/// What the system says.
pub async fn cut(file: &Arc<File>, length: u64) -> io::Result<()> {
    let (cut, synced) = (file.clone(), file.clone());
    step(move || cut.set_len(length)).await?;
    step(move || synced.sync_all()).await
}

/// The bytes of a file, if it is there. They are on the disk then: a program that was killed
/// before its sync may have left them in the system's memory alone.
///
/// # Errors
///
/// What the system says.
pub async fn read(folder: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let path = folder.join(name);
    let file = match step(move || File::open(path)).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => Arc::new(opened?),
    };
    let (from, synced) = (file.clone(), file);
    step(move || synced.sync_all()).await?;
    let mut bytes = Vec::new();
    step(move || (&*from).read_to_end(&mut bytes).map(|_| Some(bytes))).await
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
