//! What disks do not keep: owners, extended attributes, pipes and devices; and times as older calls
//! set them.
//!
//! | call | in a host |
//! | --- | --- |
//! | `chown` and its kin | has no effect on a file of the disk: all files are root's |
//! | `utime`, `utimes` and their kin | are `utimensat` with other structures |
//! | extended attributes | `EOPNOTSUPP`, as on a file system that has none |
//! | pipes with a name, devices, mounts, `chroot` | `ENOSYS`, and a message |
//! | memory, semaphores and queues with a name | the same |
//! | `ftw`, `fts_open`, `scandir`, `wordexp`, `tempnam` | the same |
//!
//! *Invariant*: none of them reaches the machine's files from inside a host.
#![allow(unsafe_code)]

use std::{io, ptr};

use libc::{
    c_char, c_int, c_uint, c_ulong, c_void, gid_t, mode_t, size_t, ssize_t, timespec, timeval,
    uid_t, utimbuf,
};

use super::{
    super::{
        answer, fails,
        system::call,
        unsupported::{FILES, refused},
    },
    about::{find, futimens, utimensat},
};
use crate::{error::os, world};

// --- owners ---

#[unsafe(no_mangle)]
unsafe extern "C" fn fchownat(
    dir: c_int,
    path: *const c_char,
    owner: uid_t,
    group: gid_t,
    flags: c_int,
) -> c_int {
    if world::current_host().is_some()
        && flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0
    {
        return fails(libc::EINVAL);
    }
    // SAFETY: by the contract of libc.
    match unsafe { find(dir, path, flags) } {
        Ok(Ok(_)) => 0,
        Ok(Err(None)) if world::current_host().is_none() => {
            // SAFETY: by the contract of libc.
            unsafe { call()(libc::SYS_fchownat, dir, path, owner, group, flags) as c_int }
        }
        Ok(Err(None)) => fails(super::read_only(dir)),
        Ok(Err(Some(_))) => fails(libc::EROFS),
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

refused! {
    REFUSED, FILES;
    mkfifo(path: *const c_char, mode: mode_t) -> c_int = libc::ENOSYS;
    mkfifoat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int = libc::ENOSYS;
    chroot(path: *const c_char) -> c_int = libc::ENOSYS;
    mount(of: *const c_char, at: *const c_char, kind: *const c_char, flags: c_ulong,
        data: *const c_void) -> c_int = libc::ENOSYS;
    umount(at: *const c_char) -> c_int = libc::ENOSYS;
    umount2(at: *const c_char, flags: c_int) -> c_int = libc::ENOSYS;
    swapon(path: *const c_char, flags: c_int) -> c_int = libc::ENOSYS;
    swapoff(path: *const c_char) -> c_int = libc::ENOSYS;
    acct(path: *const c_char) -> c_int = libc::ENOSYS;
    quotactl(command: c_int, of: *const c_char, id: c_int, data: *mut c_char) -> c_int
        = libc::ENOSYS;
    name_to_handle_at(dir: c_int, path: *const c_char, handle: *mut c_void, mount: *mut c_int,
        flags: c_int) -> c_int = libc::EOPNOTSUPP;
    open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int = libc::ENOSYS;
    fsopen(kind: *const c_char, flags: c_uint) -> c_int = libc::ENOSYS;
    fspick(dir: c_int, path: *const c_char, flags: c_uint) -> c_int = libc::ENOSYS;
    open_tree(dir: c_int, path: *const c_char, flags: c_uint) -> c_int = libc::ENOSYS;
    shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int = libc::ENOSYS;
    shm_unlink(name: *const c_char) -> c_int = libc::ENOSYS;
    sem_open(name: *const c_char, flags: c_int, mode: mode_t, value: c_uint) -> *mut c_void
        = libc::ENOSYS;
    sem_unlink(name: *const c_char) -> c_int = libc::ENOSYS;
    mq_open(name: *const c_char, flags: c_int, mode: mode_t, about: *mut c_void) -> c_int
        = libc::ENOSYS;
    mq_unlink(name: *const c_char) -> c_int = libc::ENOSYS;
    ftw(path: *const c_char, visit: *const c_void, fds: c_int) -> c_int = libc::ENOSYS;
    ftw64(path: *const c_char, visit: *const c_void, fds: c_int) -> c_int = libc::ENOSYS;
    nftw(path: *const c_char, visit: *const c_void, fds: c_int, flags: c_int) -> c_int
        = libc::ENOSYS;
    nftw64(path: *const c_char, visit: *const c_void, fds: c_int, flags: c_int) -> c_int
        = libc::ENOSYS;
    fts_open(paths: *const *mut c_char, flags: c_int, compare: *const c_void) -> *mut c_void
        = libc::ENOSYS;
    fts64_open(paths: *const *mut c_char, flags: c_int, compare: *const c_void) -> *mut c_void
        = libc::ENOSYS;
    scandir(path: *const c_char, list: *mut c_void, filter: *const c_void,
        compare: *const c_void) -> c_int = libc::ENOSYS;
    scandir64(path: *const c_char, list: *mut c_void, filter: *const c_void,
        compare: *const c_void) -> c_int = libc::ENOSYS;
    scandirat(dir: c_int, path: *const c_char, list: *mut c_void, filter: *const c_void,
        compare: *const c_void) -> c_int = libc::ENOSYS;
    scandirat64(dir: c_int, path: *const c_char, list: *mut c_void, filter: *const c_void,
        compare: *const c_void) -> c_int = libc::ENOSYS;
    wordexp(text: *const c_char, out: *mut c_void, flags: c_int) -> c_int = libc::ENOSYS;
    setmntent(path: *const c_char, mode: *const c_char) -> *mut c_void = libc::ENOSYS;
    tempnam(dir: *const c_char, start: *const c_char) -> *mut c_char = libc::ENOSYS;
    tmpnam(out: *mut c_char) -> *mut c_char = libc::ENOSYS;
    tmpnam_r(out: *mut c_char) -> *mut c_char = libc::ENOSYS;
    lchmod(path: *const c_char, mode: mode_t) -> c_int = libc::EOPNOTSUPP;
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
