//! Streams of the C library: `fopen` and its kin.
//!
//! libc's own stream makes system calls of its own, which do not know simulated descriptors. So one
//! of a simulated file is made by `fopencookie`, with the seam's `read`, `write`, `lseek` and
//! `close`. The table `OPEN` has its cookie, for `fileno`.
//!
//! *Invariant*: no two streams of the process have the same cookie. Descriptors alone would be the
//! same: each thread with a simulation has the same numbers.
//!
//! | call | in a host |
//! | --- | --- |
//! | `fopen`, `tmpfile` | opens by the seam's `openat`; a file of the system is libc's stream |
//! | `fdopen` | the same, with a descriptor that is there |
//! | `freopen` | refused: a stream cannot change what it reads from |
#![allow(unsafe_code)]

use std::{
    collections::BTreeMap,
    ffi::CStr,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use libc::{FILE, c_char, c_int, c_void, size_t, ssize_t};

use super::{
    super::{fails, is_ours, unsupported::in_host},
    open::openat,
};
use crate::world;

/// The streams of all threads that are open.
static OPEN: Mutex<Streams> = Mutex::new(Streams {
    cookies: BTreeMap::new(),
    made: 0,
});

struct Streams {
    /// The cookie of each stream, by its address.
    cookies: BTreeMap<usize, usize>,
    /// Cookies so far.
    made: usize,
}

impl Streams {
    /// A cookie for a stream of this descriptor: its lower half is the descriptor.
    fn cookie(&mut self, fd: c_int) -> usize {
        self.made += 1;
        self.made << c_int::BITS | fd as usize
    }
}

fn open_streams() -> MutexGuard<'static, Streams> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions of a cookie, as libc has them.
#[repr(C)]
struct Functions {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// The descriptor that a cookie is.
fn fd_of(cookie: *mut c_void) -> c_int {
    cookie.addr() as c_int // its lower half
}

unsafe extern "C" fn read(cookie: *mut c_void, out: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: by the contract of `fopencookie`.
    unsafe { libc::read(fd_of(cookie), out.cast(), len) }
}

/// It answers zero if it fails, as `fopencookie` wants it.
unsafe extern "C" fn write(cookie: *mut c_void, from: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: by the contract of `fopencookie`.
    unsafe { libc::write(fd_of(cookie), from.cast(), len) }.max(0)
}

unsafe extern "C" fn seek(cookie: *mut c_void, place: *mut i64, from: c_int) -> c_int {
    // SAFETY: by the contract of `fopencookie`.
    unsafe {
        match libc::lseek(fd_of(cookie), *place, from) {
            -1 => -1,
            found => {
                *place = found;
                0
            }
        }
    }
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    let mut streams = open_streams();
    streams.cookies.retain(|_, open| *open != cookie.addr());
    drop(streams);
    // SAFETY: the descriptor is the stream's.
    unsafe { libc::close(fd_of(cookie)) }
}

/// The flags of `open` that a mode stands for.
fn flags_of(mode: &[u8]) -> Option<c_int> {
    let (first, rest) = mode.split_first()?;
    let (only, more) = match first {
        b'r' => (libc::O_RDONLY, 0),
        b'w' => (libc::O_WRONLY, libc::O_CREAT | libc::O_TRUNC),
        b'a' => (libc::O_WRONLY, libc::O_CREAT | libc::O_APPEND),
        _ => return None,
    };
    let has = |letter, flag| if rest.contains(&letter) { flag } else { 0 };
    let access = if rest.contains(&b'+') {
        libc::O_RDWR
    } else {
        only
    };
    Some(access | more | has(b'x', libc::O_EXCL) | has(b'e', libc::O_CLOEXEC))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    if world::current_host().is_none() {
        let system = super::system!(fopen: fn(*const c_char, *const c_char) -> *mut FILE);
        // SAFETY: by the contract of libc.
        return unsafe { system(path, mode) };
    }
    // SAFETY: by the contract of libc.
    let Some(flags) = flags_of(unsafe { CStr::from_ptr(mode) }.to_bytes()) else {
        fails(libc::EINVAL);
        return ptr::null_mut();
    };
    // SAFETY: by the contract of libc.
    unsafe { stream(openat(libc::AT_FDCWD, path, flags, 0o666), mode) }
}

/// A stream of a descriptor that was opened for it. Null if it was not opened.
///
/// # Safety
///
/// - The mode ends with NUL.
unsafe fn stream(fd: c_int, mode: *const c_char) -> *mut FILE {
    if fd < 0 {
        return ptr::null_mut();
    }
    // SAFETY: by contract, and nobody else has the descriptor.
    unsafe {
        let stream = fdopen(fd, mode);
        if stream.is_null() {
            libc::close(fd);
        }
        stream
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: by the contract of libc.
    unsafe { fopen(path, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if !is_ours(fd) {
        let system = super::system!(fdopen: fn(c_int, *const c_char) -> *mut FILE);
        // SAFETY: by the contract of libc.
        return unsafe { system(fd, mode) };
    }
    // SAFETY: by the contract of libc. The functions take the descriptor that the cookie is.
    unsafe {
        if libc::fcntl(fd, libc::F_GETFD) < 0 {
            return ptr::null_mut();
        }
        let functions = Functions {
            read,
            write,
            seek,
            close,
        };
        let cookie = open_streams().cookie(fd);
        let stream = fopencookie(ptr::without_provenance_mut(cookie), mode, functions);
        if !stream.is_null() {
            open_streams().cookies.insert(stream.addr(), cookie);
        }
        stream
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tmpfile() -> *mut FILE {
    if world::current_host().is_none() {
        let system = super::system!(tmpfile: fn() -> *mut FILE);
        // SAFETY: it takes nothing.
        return unsafe { system() };
    }
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_EXCL;
    // SAFETY: the texts end with NUL.
    unsafe {
        let fd = openat(libc::AT_FDCWD, c"/tmp".as_ptr(), flags, 0o600);
        stream(fd, c"w+".as_ptr())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tmpfile64() -> *mut FILE {
    // SAFETY: it takes nothing.
    unsafe { tmpfile() }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> *mut FILE {
    if in_host("freopen", "close the stream, and open another one by fopen") {
        fails(libc::ENOSYS);
        return ptr::null_mut();
    }
    let system = super::system!(
        freopen: fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE
    );
    // SAFETY: by the contract of libc.
    unsafe { system(path, mode, file) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> *mut FILE {
    // SAFETY: by the contract of libc.
    unsafe { freopen(path, mode, file) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fileno(file: *mut FILE) -> c_int {
    if let Some(cookie) = open_streams().cookies.get(&file.addr()) {
        return *cookie as c_int;
    }
    let system = super::system!(fileno: fn(*mut FILE) -> c_int);
    // SAFETY: by the contract of libc.
    unsafe { system(file) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fileno_unlocked(file: *mut FILE) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fileno(file) }
}

/// The functions of this file.
pub(super) const PART: &[*const c_void] = &[
    fopen as *const c_void,
    fopen64 as *const c_void,
    fdopen as *const c_void,
    tmpfile as *const c_void,
    tmpfile64 as *const c_void,
    freopen as *const c_void,
    freopen64 as *const c_void,
    fileno as *const c_void,
    fileno_unlocked as *const c_void,
];

#[cfg(test)]
mod tests {
    use super::*;

    // A stream of the system may have the same address later.
    #[test]
    fn a_stream_that_is_closed_is_forgotten() {
        let sim = crate::Sim::new(1);
        sim.client("host", async {
            // SAFETY: the texts end with NUL, and the stream is closed once.
            unsafe {
                let stream = fopen(c"f".as_ptr(), c"w".as_ptr());
                let cookie = open_streams().cookies.get(&stream.addr()).copied();
                let is_known = |cookie| open_streams().cookies.values().any(|one| *one == cookie);
                let cookie = cookie.expect("it is open");
                assert!(is_known(cookie));
                assert_eq!(libc::fclose(stream), 0);
                assert!(!is_known(cookie));
            }
        });
        sim.try_run().unwrap();
    }
}
