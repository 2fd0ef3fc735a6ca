//! How folders are listed.
//!
//! A `DIR` is a pointer that nobody but libc looks into. One of a simulated folder points to a
//! [`Stream`], with the lowest bit set: libc's are aligned, so the bit tells them apart.
//!
//! The entries are those of the first read, in the order of their names.
#![allow(unsafe_code)]

use std::{mem, ptr};

use libc::{DIR, c_char, c_int, c_long, c_void, dirent64};

use super::{
    super::{descriptors::close, fails, is_ours, number},
    c_path, on_file,
    open::openat,
};
use crate::disk::Entry;

struct Stream {
    fd: c_int,
    entries: Option<Vec<Entry>>,
    next: usize,
    /// What the last read gave.
    given: dirent64,
}

/// The stream of a `DIR`, if it is a simulated one.
///
/// # Safety
///
/// - It is a `DIR` that is not closed, and no other reference to its stream is alive.
unsafe fn stream<'a>(dir: *mut DIR) -> Option<&'a mut Stream> {
    let is_ours = dir.addr() & 1 == 1;
    let stream = dir.map_addr(|addr| addr & !1).cast::<Stream>();
    // SAFETY: by contract, and the bit is set for streams alone.
    is_ours.then(|| unsafe { &mut *stream })
}

fn new(fd: c_int) -> *mut DIR {
    // SAFETY: plain data.
    let given = unsafe { mem::zeroed() };
    let stream = Box::new(Stream {
        fd,
        entries: None,
        next: 0,
        given,
    });
    Box::into_raw(stream)
        .cast::<DIR>()
        .map_addr(|addr| addr | 1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    let system = |path: *const c_char| {
        let opendir = super::system!(opendir: fn(*const c_char) -> *mut DIR);
        // SAFETY: by the contract of libc.
        unsafe { opendir(path) }
    };
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { super::at(libc::AT_FDCWD, path) }) else {
        return system(path);
    };
    let found = at.on(|disk, start, path| disk.look(start, path, true));
    match found {
        Ok(Err(path)) => return system(c_path(path).as_ptr()),
        Ok(Ok(_)) => {}
        Err(error) => {
            fails(number(&error));
            return ptr::null_mut();
        }
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: by the contract of libc.
    let fd = unsafe { openat(libc::AT_FDCWD, path, flags, 0) };
    if fd < 0 { ptr::null_mut() } else { new(fd) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopendir(fd: c_int) -> *mut DIR {
    if !is_ours(fd) {
        let fdopendir = super::system!(fdopendir: fn(c_int) -> *mut DIR);
        // SAFETY: it takes no pointers.
        return unsafe { fdopendir(fd) };
    }
    match on_file(fd, libc::ENOTDIR, |disk, open| disk.folder_of(open)) {
        Ok(_) => new(fd),
        Err(error) => {
            fails(number(&error));
            ptr::null_mut()
        }
    }
}

impl Stream {
    /// The next entry, in `given`. Null at the end.
    fn read(&mut self) -> *mut dirent64 {
        if self.entries.is_none() {
            match on_file(self.fd, libc::ENOTDIR, |disk, open| disk.entries(open)) {
                Ok(entries) => self.entries = Some(entries),
                Err(error) => {
                    fails(number(&error));
                    return ptr::null_mut();
                }
            }
        }
        let entries = self.entries.as_deref().unwrap_or_default();
        let Some((node, kind, name)) = entries.get(self.next) else {
            return ptr::null_mut();
        };
        self.next += 1;
        self.given.d_ino = *node;
        self.given.d_off = self.next as i64;
        self.given.d_reclen = size_of::<dirent64>() as u16;
        // The types of `stat` are these, shifted.
        self.given.d_type = (kind >> 12) as u8;
        self.given.d_name = [0; 256];
        for (place, byte) in self.given.d_name.iter_mut().zip(name) {
            *place = *byte as c_char;
        }
        &raw mut self.given
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readdir64(dir: *mut DIR) -> *mut dirent64 {
    // SAFETY: by the contract of libc.
    match unsafe { stream(dir) } {
        Some(stream) => stream.read(),
        None => {
            let readdir = super::system!(readdir64: fn(*mut DIR) -> *mut dirent64);
            // SAFETY: by the contract of libc.
            unsafe { readdir(dir) }
        }
    }
}

/// On 64 bit systems its structure is that of `readdir64`.
#[unsafe(no_mangle)]
unsafe extern "C" fn readdir(dir: *mut DIR) -> *mut dirent64 {
    // SAFETY: by the contract of libc.
    unsafe { readdir64(dir) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readdir64_r(
    dir: *mut DIR,
    entry: *mut dirent64,
    out: *mut *mut dirent64,
) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(stream) = (unsafe { stream(dir) }) else {
        let readdir = super::system!(
            readdir64_r: fn(*mut DIR, *mut dirent64, *mut *mut dirent64) -> c_int
        );
        // SAFETY: by the contract of libc.
        return unsafe { readdir(dir, entry, out) };
    };
    let next = stream.read();
    // SAFETY: by the contract of libc, and what was read is valid.
    unsafe {
        if next.is_null() {
            *out = ptr::null_mut();
        } else {
            ptr::copy_nonoverlapping(next, entry, 1);
            *out = entry;
        }
    }
    0
}

/// On 64 bit systems it is `readdir64_r`.
#[unsafe(no_mangle)]
unsafe extern "C" fn readdir_r(
    dir: *mut DIR,
    entry: *mut dirent64,
    out: *mut *mut dirent64,
) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { readdir64_r(dir, entry, out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn telldir(dir: *mut DIR) -> c_long {
    // SAFETY: by the contract of libc.
    match unsafe { stream(dir) } {
        Some(stream) => stream.next as c_long,
        None => {
            let telldir = super::system!(telldir: fn(*mut DIR) -> c_long);
            // SAFETY: by the contract of libc.
            unsafe { telldir(dir) }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn seekdir(dir: *mut DIR, place: c_long) {
    // SAFETY: by the contract of libc.
    match unsafe { stream(dir) } {
        Some(stream) => stream.next = usize::try_from(place).unwrap_or(0),
        None => {
            let seekdir = super::system!(seekdir: fn(*mut DIR, c_long) -> ());
            // SAFETY: by the contract of libc.
            unsafe { seekdir(dir, place) };
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rewinddir(dir: *mut DIR) {
    // SAFETY: by the contract of libc.
    match unsafe { stream(dir) } {
        Some(stream) => (stream.entries, stream.next) = (None, 0),
        None => {
            let rewinddir = super::system!(rewinddir: fn(*mut DIR) -> ());
            // SAFETY: by the contract of libc.
            unsafe { rewinddir(dir) };
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dirfd(dir: *mut DIR) -> c_int {
    // SAFETY: by the contract of libc.
    match unsafe { stream(dir) } {
        Some(stream) => stream.fd,
        None => {
            let dirfd = super::system!(dirfd: fn(*mut DIR) -> c_int);
            // SAFETY: by the contract of libc.
            unsafe { dirfd(dir) }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closedir(dir: *mut DIR) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(stream) = (unsafe { stream(dir) }) else {
        let closedir = super::system!(closedir: fn(*mut DIR) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { closedir(dir) };
    };
    let fd = stream.fd;
    // SAFETY: `new` made it with a box, and by the contract of libc nobody uses it any more.
    drop(unsafe { Box::from_raw(ptr::from_mut(stream)) });
    // SAFETY: the descriptor was the stream's.
    unsafe { close(fd) }
}

/// The functions of this file.
pub(super) const PART: &[*const c_void] = &[
    opendir as *const c_void,
    fdopendir as *const c_void,
    readdir as *const c_void,
    readdir64 as *const c_void,
    readdir64_r as *const c_void,
    readdir_r as *const c_void,
    telldir as *const c_void,
    seekdir as *const c_void,
    rewinddir as *const c_void,
    dirfd as *const c_void,
    closedir as *const c_void,
];
