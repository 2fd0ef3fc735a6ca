//! Functions of the C library that name a file and make several system calls for it.
//!
//! Inside of libc these calls do not come through the seam. So each function is here once more, on
//! top of the seam's own functions:
//!
//! | function | in a host |
//! | --- | --- |
//! | `remove` | `unlinkat` |
//! | `mkstemp`, `mkdtemp` and their kin | new names by the seed, and `openat` or `mkdirat` |
//! | `euidaccess`, `eaccess` | `faccessat` |
//! | `ftok` | `stat` |
//! | `glob` | libc's, which is given the seam's functions for folders and `stat` |
//!
//! *Invariant*: none of them reaches the machine's files from inside a host.
#![allow(unsafe_code)]

use std::{ffi::CStr, io, mem, ptr, slice};

use libc::{DIR, c_char, c_int, c_void, dirent64, size_t, stat64};

use super::super::{clock::getrandom, fails};
use crate::world;

#[unsafe(no_mangle)]
unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    if world::current_host().is_none() {
        let system = super::system!(remove: fn(*const c_char) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(path) };
    }
    // SAFETY: by the contract of libc.
    unsafe {
        let removed = libc::unlink(path);
        if removed < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EISDIR) {
            return libc::rmdir(path);
        }
        removed
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn euidaccess(path: *const c_char, how: c_int) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { libc::faccessat(libc::AT_FDCWD, path, how, libc::AT_EACCESS) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn eaccess(path: *const c_char, how: c_int) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { euidaccess(path, how) }
}

// --- new names ---

/// What a template has for its random part.
const RANDOM: &[u8] = b"XXXXXX";

/// Names that are tried.
const TRIES: usize = 10_000;

/// Gives a template names until `make` does not fail with `EEXIST`.
///
/// # Safety
///
/// - As libc's `mkstemps`.
unsafe fn new_name(template: *mut c_char, after: c_int, make: impl Fn() -> c_int) -> c_int {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    // SAFETY: by contract.
    let len = unsafe { CStr::from_ptr(template) }.count_bytes();
    let start = usize::try_from(after)
        .ok()
        .and_then(|after| len.checked_sub(after + RANDOM.len()));
    let Some(start) = start else {
        return fails(libc::EINVAL);
    };
    let place = || {
        // SAFETY: by contract it may be written, and so much of it is there.
        unsafe { slice::from_raw_parts_mut(template.add(start).cast::<u8>(), RANDOM.len()) }
    };
    if place() != RANDOM {
        return fails(libc::EINVAL);
    }
    for _ in 0..TRIES {
        let mut random = [0_u8; RANDOM.len()];
        // SAFETY: there is room for so many.
        unsafe { getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
        for (letter, random) in place().iter_mut().zip(random) {
            *letter = LETTERS[usize::from(random) % LETTERS.len()];
        }
        let made = make();
        if made >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EEXIST) {
            return made;
        }
    }
    fails(libc::EEXIST)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkostemps(path: *mut c_char, after: c_int, flags: c_int) -> c_int {
    if world::current_host().is_none() {
        let system = super::system!(mkostemps: fn(*mut c_char, c_int, c_int) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(path, after, flags) };
    }
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    // SAFETY: by the contract of libc.
    unsafe {
        new_name(path, after, || {
            super::open::openat(libc::AT_FDCWD, path, flags, 0o600)
        })
    }
}

/// The other names of a function that makes a temporary file.
macro_rules! temporary {
    ($($name:ident($($argument:ident),*) = $after:expr, $flags:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(path: *mut c_char $(, $argument: c_int)*) -> c_int {
                // SAFETY: by the contract of libc.
                unsafe { mkostemps(path, $after, $flags) }
            }
        )*

        const TEMPORARY: &[*const c_void] = &[$($name as *const c_void),*];
    };
}

temporary! {
    mkstemp() = 0, 0;
    mkstemp64() = 0, 0;
    mkostemp(flags) = 0, flags;
    mkostemp64(flags) = 0, flags;
    mkstemps(after) = after, 0;
    mkstemps64(after) = after, 0;
    mkostemps64(after, flags) = after, flags;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdtemp(path: *mut c_char) -> *mut c_char {
    if world::current_host().is_none() {
        let system = super::system!(mkdtemp: fn(*mut c_char) -> *mut c_char);
        // SAFETY: by the contract of libc.
        return unsafe { system(path) };
    }
    // SAFETY: by the contract of libc.
    let made = unsafe { new_name(path, 0, || libc::mkdir(path, 0o700)) };
    if made < 0 { ptr::null_mut() } else { path }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mktemp(path: *mut c_char) -> *mut c_char {
    if world::current_host().is_none() {
        let system = super::system!(mktemp: fn(*mut c_char) -> *mut c_char);
        // SAFETY: by the contract of libc.
        return unsafe { system(path) };
    }
    let is_free = || {
        // SAFETY: by the contract of libc.
        match unsafe { libc::access(path, libc::F_OK) } {
            0 => fails(libc::EEXIST),
            _ => 0,
        }
    };
    // SAFETY: by the contract of libc. The empty name says that there is none.
    unsafe {
        if new_name(path, 0, is_free) < 0 {
            *path = 0;
        }
    }
    path
}

// --- paths ---

#[unsafe(no_mangle)]
unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: by the contract of libc.
    unsafe { libc::realpath(path, ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn get_current_dir_name() -> *mut c_char {
    // SAFETY: the place is a new one.
    unsafe { libc::getcwd(ptr::null_mut(), 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getwd(out: *mut c_char) -> *mut c_char {
    // SAFETY: by the contract of libc there is room for the longest path.
    unsafe { libc::getcwd(out, libc::PATH_MAX as size_t) }
}

/// A key of a file, for calls of System V: a part of its number, of its disk and of `project`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftok(path: *const c_char, project: c_int) -> c_int {
    // SAFETY: plain data.
    let mut about: stat64 = unsafe { mem::zeroed() };
    // SAFETY: by the contract of libc; there is room for it.
    if unsafe { libc::stat64(path, &raw mut about) } < 0 {
        return -1;
    }
    let (node, disk) = (about.st_ino as u32 & 0xffff, about.st_dev as u32 & 0xff);
    (node | disk << 16 | project.cast_unsigned() << 24).cast_signed()
}

// --- patterns ---

/// glibc's `glob_t`, with the functions that the type of the package `libc` does not name.
#[repr(C)]
struct Glob {
    count: size_t,
    paths: *mut *mut c_char,
    offset: size_t,
    flags: c_int,
    close: Option<unsafe extern "C" fn(*mut DIR)>,
    read: Option<unsafe extern "C" fn(*mut DIR) -> *mut dirent64>,
    open: Option<unsafe extern "C" fn(*const c_char) -> *mut DIR>,
    link_stat: Option<unsafe extern "C" fn(*const c_char, *mut stat64) -> c_int>,
    stat: Option<unsafe extern "C" fn(*const c_char, *mut stat64) -> c_int>,
}

const _: () = assert!(mem::size_of::<Glob>() == mem::size_of::<libc::glob_t>());

/// Whether `glob` uses the functions of its `glob_t`.
const GLOB_ALTDIRFUNC: c_int = 1 << 9;

type GlobError = unsafe extern "C" fn(*const c_char, c_int) -> c_int;

unsafe extern "C" fn close_folder(dir: *mut DIR) {
    // SAFETY: `glob` opened it by `opendir`.
    unsafe { libc::closedir(dir) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn glob(
    pattern: *const c_char,
    flags: c_int,
    error: Option<GlobError>,
    out: *mut Glob,
) -> c_int {
    let system = super::system!(
        glob: fn(*const c_char, c_int, Option<GlobError>, *mut Glob) -> c_int
    );
    if world::current_host().is_none() || flags & GLOB_ALTDIRFUNC != 0 {
        // SAFETY: by the contract of libc.
        return unsafe { system(pattern, flags, error, out) };
    }
    // SAFETY: by the contract of libc. On 64 bit systems there is one type of `stat`.
    unsafe {
        (*out).close = Some(close_folder);
        (*out).read = Some(libc::readdir64);
        (*out).open = Some(libc::opendir);
        (*out).link_stat = Some(libc::lstat64);
        (*out).stat = Some(libc::stat64);
        system(pattern, flags | GLOB_ALTDIRFUNC, error, out)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn glob64(
    pattern: *const c_char,
    flags: c_int,
    error: Option<GlobError>,
    out: *mut Glob,
) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { glob(pattern, flags, error, out) }
}

/// The functions of this file.
pub(super) const PARTS: [&[*const c_void]; 2] = [
    &[
        remove as *const c_void,
        euidaccess as *const c_void,
        eaccess as *const c_void,
        mkostemps as *const c_void,
        mkdtemp as *const c_void,
        mktemp as *const c_void,
        canonicalize_file_name as *const c_void,
        get_current_dir_name as *const c_void,
        getwd as *const c_void,
        ftok as *const c_void,
        glob as *const c_void,
        glob64 as *const c_void,
    ],
    TEMPORARY,
];
