//! A file in memory, for good.
//!
//! Debug information is large, and a walk touches little of it. So the files of programs and
//! libraries are mapped and not read. A mapping stays until the process ends: what was found in it
//! is kept for the next walk. It costs addresses, and no memory that the system could not take
//! back.
//!
//! If somebody shortens a file that is mapped, a read of it ends the process. These are the files
//! whose code runs here, so it would end anyhow, as soon as it ran code that is gone.
#![expect(unsafe_code, reason = "mmap has no face in std")]

use std::{fs::File, os::fd::AsRawFd, ptr, slice};

/// None: it is empty, or the system refuses.
pub(super) fn map(file: &File) -> Option<&'static [u8]> {
    let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
    let access = libc::PROT_READ;
    let flags = libc::MAP_PRIVATE;
    // SAFETY: a new mapping, at an address that the system chooses. It fails if it is empty.
    let start = unsafe { libc::mmap(ptr::null_mut(), length, access, flags, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is of that length, readable, and is never undone. Nobody writes to it:
    // see the module's head.
    Some(unsafe { slice::from_raw_parts(start.cast(), length) })
}
