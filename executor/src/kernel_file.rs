//! Files in which Linux tells something of the machine: short, and without a length.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Most such files are shorter than this.
const USUAL: usize = 4096;
/// None is longer.
const LONGEST: u64 = 1 << 20;

/// Reads one. `std::fs::read_to_string` asks for the length first, which is zero, and then reads a
/// few bytes at a time: twice as many system calls. A name that is not UTF-8, of a control group
/// for example, does not take the rest of the file with it.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = Vec::with_capacity(USUAL);
    let file = File::open(path)?;
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_leaves_the_other_lines() {
        let path = std::env::temp_dir().join(format!("ws-kernel-file-{}", std::process::id()));
        std::fs::write(&path, b"5:pids:/s1\xff\n4:cpu:/job\n").unwrap();
        let text = read(&path).unwrap();
        assert!(text.lines().any(|line| line == "4:cpu:/job"), "{text}");
        std::fs::remove_file(path).unwrap();
    }
}
