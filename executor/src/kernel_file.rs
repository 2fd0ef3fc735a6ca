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
/// few bytes at a time: twice as many system calls.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::with_capacity(USUAL);
    let file = File::open(path)?;
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}
