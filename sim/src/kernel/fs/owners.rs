//! What disks do not keep: owners, extended attributes, pipes and devices; and times as older calls
//! set them.
//!
//! | call | in a host |
//! | --- | --- |
//! | `chown` and its kin | has no effect on a file of the disk: all files are root's |
//! | `utime`, `utimes` and their kin | are `utimensat` with other structures |
//! | extended attributes | `EOPNOTSUPP`, as on a file system that has none |
//! | `mkfifo`, `mknod`, `chroot`, `mkstemp` and their kin | `ENOSYS` |
//!
//! *Invariant*: none of them reaches the machine's files from inside a host.
#![allow(unsafe_code)]

use std::{io, ptr};

use libc::{
    c_char, c_int, c_void, dev_t, gid_t, mode_t, size_t, ssize_t, timespec, timeval, uid_t, utimbuf,
};

use super::{
    super::{answer, fails, sockets::os, system::call},
    about::{find, futimens, utimensat},
};
use crate::world;

// --- owners ---

#[unsafe(no_mangle)]
unsafe extern "C" fn fchownat(
    dir: c_int,
    path: *const c_char,
    owner: uid_t,
    group: gid_t,
    flags: c_int,
) -> c_int {
    // SAFETY: by the contract of libc.
    match unsafe { find(dir, path, flags) } {
        Ok(Ok(_)) => 0,
        Ok(Err(None)) if world::current_host().is_none() => {
            // SAFETY: by the contract of libc.
            unsafe { call()(libc::SYS_fchownat, dir, path, owner, group, flags) as c_int }
        }
        Ok(Err(_)) => fails(libc::EROFS),
        Err(error) => answer(Err(error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fchownat(libc::AT_FDCWD, path, owner, group, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lchown(path: *const c_char, owner: uid_t, group: gid_t) -> c_int {
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: by the contract of libc.
    unsafe { fchownat(libc::AT_FDCWD, path, owner, group, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fchown(fd: c_int, owner: uid_t, group: gid_t) -> c_int {
    // SAFETY: the path is empty.
    unsafe { fchownat(fd, c"".as_ptr(), owner, group, libc::AT_EMPTY_PATH) }
}

// --- times ---

/// Two times as `utimensat` takes them.
///
/// # Safety
///
/// - It is null, or there are two.
unsafe fn precise(times: *const timeval) -> io::Result<Option<[timespec; 2]>> {
    if times.is_null() {
        return Ok(None);
    }
    // SAFETY: by contract.
    let times = unsafe { ptr::read(times.cast::<[timeval; 2]>()) };
    if times
        .iter()
        .any(|time| !(0..1_000_000).contains(&time.tv_usec))
    {
        return Err(os(libc::EINVAL));
    }
    Ok(Some(times.map(|time| timespec {
        tv_sec: time.tv_sec,
        tv_nsec: time.tv_usec * 1000,
    })))
}

/// # Safety
///
/// - As libc's `utimes`.
unsafe fn set(dir: c_int, path: *const c_char, times: *const timeval, flags: c_int) -> c_int {
    // SAFETY: by contract.
    match unsafe { precise(times) } {
        // SAFETY: by contract.
        Ok(None) => unsafe { utimensat(dir, path, ptr::null(), flags) },
        // SAFETY: by contract, and there are two.
        Ok(Some(times)) => unsafe { utimensat(dir, path, times.as_ptr(), flags) },
        Err(error) => answer(Err(error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn futimesat(dir: c_int, path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { set(dir, path, times, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utimes(path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { set(libc::AT_FDCWD, path, times, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lutimes(path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { set(libc::AT_FDCWD, path, times, libc::AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn futimes(fd: c_int, times: *const timeval) -> c_int {
    // SAFETY: by the contract of libc.
    match unsafe { precise(times) } {
        // SAFETY: null is the current time.
        Ok(None) => unsafe { futimens(fd, ptr::null()) },
        // SAFETY: there are two.
        Ok(Some(times)) => unsafe { futimens(fd, times.as_ptr()) },
        Err(error) => answer(Err(error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utime(path: *const c_char, times: *const utimbuf) -> c_int {
    // SAFETY: by the contract of libc.
    let both = unsafe { times.as_ref() }
        .map(|times| [times.actime, times.modtime].map(|tv_sec| timeval { tv_sec, tv_usec: 0 }));
    let both = both.as_ref().map_or(ptr::null(), |both| both.as_ptr());
    // SAFETY: by the contract of libc, and it is null or there are two.
    unsafe { utimes(path, both) }
}

// --- what a host does not have ---

/// Functions that fail in a host, and are the system's outside of one.
macro_rules! refused {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty = $error:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $answer {
                if world::current_host().is_some() {
                    return fails($error) as $answer;
                }
                let system = super::system!($name: fn($($type),*) -> $answer);
                // SAFETY: by the contract of libc.
                unsafe { system($($argument),*) }
            }
        )*

        /// The functions that are refused.
        pub(super) const REFUSED: &[*const c_void] = &[$($name as *const c_void),*];
    };
}

refused! {
    mkfifo(path: *const c_char, mode: mode_t) -> c_int = libc::ENOSYS;
    mkfifoat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int = libc::ENOSYS;
    mknod(path: *const c_char, mode: mode_t, of: dev_t) -> c_int = libc::ENOSYS;
    mknodat(dir: c_int, path: *const c_char, mode: mode_t, of: dev_t) -> c_int = libc::ENOSYS;
    chroot(path: *const c_char) -> c_int = libc::ENOSYS;
    mkstemp(path: *mut c_char) -> c_int = libc::ENOSYS;
    mkstemp64(path: *mut c_char) -> c_int = libc::ENOSYS;
    mkostemp(path: *mut c_char, flags: c_int) -> c_int = libc::ENOSYS;
    setxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t,
        flags: c_int) -> c_int = libc::EOPNOTSUPP;
    lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t,
        flags: c_int) -> c_int = libc::EOPNOTSUPP;
    fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, size: size_t,
        flags: c_int) -> c_int = libc::EOPNOTSUPP;
    removexattr(path: *const c_char, name: *const c_char) -> c_int = libc::EOPNOTSUPP;
    lremovexattr(path: *const c_char, name: *const c_char) -> c_int = libc::EOPNOTSUPP;
    fremovexattr(fd: c_int, name: *const c_char) -> c_int = libc::EOPNOTSUPP;
    getxattr(path: *const c_char, name: *const c_char, value: *mut c_void,
        size: size_t) -> ssize_t = libc::EOPNOTSUPP;
    lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void,
        size: size_t) -> ssize_t = libc::EOPNOTSUPP;
    fgetxattr(fd: c_int, name: *const c_char, value: *mut c_void,
        size: size_t) -> ssize_t = libc::EOPNOTSUPP;
    listxattr(path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t = libc::EOPNOTSUPP;
    llistxattr(path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t = libc::EOPNOTSUPP;
    flistxattr(fd: c_int, list: *mut c_char, size: size_t) -> ssize_t = libc::EOPNOTSUPP;
}

/// The functions of this file.
pub(super) const PART: &[*const c_void] = &[
    chown as *const c_void,
    lchown as *const c_void,
    fchown as *const c_void,
    fchownat as *const c_void,
    utime as *const c_void,
    utimes as *const c_void,
    lutimes as *const c_void,
    futimes as *const c_void,
    futimesat as *const c_void,
];
