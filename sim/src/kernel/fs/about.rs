//! What is known of files: `stat` and its kin, and what changes it.
#![allow(unsafe_code)]

use std::{ffi::CString, io, mem, ptr};

use libc::{c_char, c_int, c_uint, c_void, mode_t, stat64, statx, statx_timestamp, timespec};

use super::{
    super::{answer, clock, fails, files::Kind, is_ours, system::call},
    At, at, c_path, has_no_node, is, on_file, on_path_or_file,
};
use crate::{
    disk::About,
    error::os,
    world::{self, World},
};

const SECOND: i128 = 1_000_000_000;

/// The major number of the device that a disk is. The minor one is its host's.
const DEVICE: c_uint = 259;

/// What is known of what a descriptor stands for, and the number of its host.
fn of_descriptor(fd: c_int) -> io::Result<(About, usize)> {
    let found = world::with(|world| {
        let World { files, hosts, .. } = world;
        let file = files.get(fd)?;
        let host = &hosts[file.host];
        match &file.kind {
            Kind::File(_) if !host.up => Err(os(libc::EBADF)),
            Kind::File(open) => Ok((host.disk.about_open(open)?, file.host)),
            Kind::Tcp(_) | Kind::Udp(_) | Kind::Unix(_) => {
                Ok((About::other(libc::S_IFSOCK | 0o777), file.host))
            }
            Kind::Pipe(_) => Ok((About::other(libc::S_IFIFO | 0o600), file.host)),
            Kind::Random => Ok((About::other(libc::S_IFCHR | 0o666), file.host)),
            _ => Ok((About::other(0), file.host)),
        }
    });
    found.unwrap_or_else(|| Err(os(libc::EBADF)))
}

/// What a `stat` is told, or a path of the system's.
pub(super) type Found = Result<(About, usize), Option<CString>>;

/// # Safety
///
/// - The path is null, or ends with NUL and is valid for the time of the call.
pub(super) unsafe fn find(dir: c_int, path: *const c_char, flags: c_int) -> io::Result<Found> {
    const KNOWN: c_int = libc::AT_SYMLINK_NOFOLLOW
        | libc::AT_NO_AUTOMOUNT
        | libc::AT_EMPTY_PATH
        | libc::AT_STATX_FORCE_SYNC
        | libc::AT_STATX_DONT_SYNC;

    if world::current_host().is_some() && flags & !KNOWN != 0 {
        return Err(os(libc::EINVAL));
    }
    // SAFETY: by contract.
    let is_empty = flags & libc::AT_EMPTY_PATH != 0 && (path.is_null() || unsafe { *path } == 0);
    if is_empty && dir != libc::AT_FDCWD {
        return if is_ours(dir) {
            of_descriptor(dir).map(Ok)
        } else {
            Ok(Err(None))
        };
    }
    // SAFETY: by contract.
    let at = match unsafe { at(dir, path) } {
        // Of the current folder.
        Some(At { dir, .. }) if is_empty => At { dir, path: b"." },
        Some(at) if !at.is_systems() => at,
        Some(at) => return at.stays_in_system().map(|()| Err(None)),
        None => return Ok(Err(None)),
    };
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    let host = world::current_host().unwrap_or(0);
    at.on(|disk, start, path| {
        Ok(match disk.look(start, path, follow)? {
            Ok(node) => Ok((disk.about(node), host)),
            Err(path) => Err(Some(c_path(path))),
        })
    })
}

fn seconds(time: i128) -> (i64, i64) {
    (
        time.div_euclid(SECOND) as i64,
        time.rem_euclid(SECOND) as i64,
    )
}

fn as_stat((about, host): (About, usize)) -> stat64 {
    // SAFETY: plain data.
    let mut out: stat64 = unsafe { mem::zeroed() };
    out.st_dev = libc::makedev(DEVICE, host as c_uint);
    out.st_ino = about.node;
    out.st_nlink = libc::nlink_t::from(about.links);
    out.st_mode = about.mode;
    out.st_size = about.len as i64;
    out.st_blksize = 4096;
    out.st_blocks = about.blocks as i64;
    (out.st_atime, out.st_atime_nsec) = seconds(about.times.accessed);
    (out.st_mtime, out.st_mtime_nsec) = seconds(about.times.modified);
    (out.st_ctime, out.st_ctime_nsec) = seconds(about.times.changed);
    out
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstatat64(
    dir: c_int,
    path: *const c_char,
    out: *mut stat64,
    flags: c_int,
) -> c_int {
    // SAFETY: by the contract of libc.
    let found = unsafe { find(dir, path, flags) };
    let system = |dir: c_int, path: *const c_char| {
        // SAFETY: by the contract of libc. The kernel's structure is this one.
        unsafe { call()(libc::SYS_newfstatat, dir, path, out, flags) as c_int }
    };
    match found {
        Ok(Err(None)) => system(dir, path),
        Ok(Err(Some(path))) => system(libc::AT_FDCWD, path.as_ptr()),
        Ok(Ok(about)) => {
            // SAFETY: by the contract of libc.
            unsafe { ptr::write(out, as_stat(about)) };
            0
        }
        Err(error) => answer(Err(error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstatat(
    dir: c_int,
    path: *const c_char,
    out: *mut stat64,
    flags: c_int,
) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fstatat64(dir, path, out, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn stat(path: *const c_char, out: *mut stat64) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fstatat64(libc::AT_FDCWD, path, out, 0) }
}

#[unsafe(export_name = "stat64")]
unsafe extern "C" fn stat_64(path: *const c_char, out: *mut stat64) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fstatat64(libc::AT_FDCWD, path, out, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lstat(path: *const c_char, out: *mut stat64) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fstatat64(libc::AT_FDCWD, path, out, libc::AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lstat64(path: *const c_char, out: *mut stat64) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { lstat(path, out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat(fd: c_int, out: *mut stat64) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fstatat64(fd, c"".as_ptr(), out, libc::AT_EMPTY_PATH) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstat64(fd: c_int, out: *mut stat64) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fstat(fd, out) }
}

fn as_statx((about, host): (About, usize)) -> statx {
    let time = |time: i128| {
        let (tv_sec, nanos) = seconds(time);
        // SAFETY: plain data.
        let mut out: statx_timestamp = unsafe { mem::zeroed() };
        (out.tv_sec, out.tv_nsec) = (tv_sec, nanos as u32);
        out
    };
    // SAFETY: plain data.
    let mut out: statx = unsafe { mem::zeroed() };
    out.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    out.stx_blksize = 4096;
    out.stx_nlink = about.links;
    out.stx_mode = about.mode as u16;
    out.stx_ino = about.node;
    out.stx_size = about.len;
    out.stx_blocks = about.blocks;
    out.stx_atime = time(about.times.accessed);
    out.stx_btime = time(about.times.born);
    out.stx_ctime = time(about.times.changed);
    out.stx_mtime = time(about.times.modified);
    (out.stx_dev_major, out.stx_dev_minor) = (DEVICE, host as u32);
    out
}

#[unsafe(export_name = "statx")]
unsafe extern "C" fn stat_x(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    out: *mut statx,
) -> c_int {
    /// A bit that no answer has yet.
    const RESERVED: c_uint = 1 << 31;
    const SYNCS: c_int = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;

    let is_wrong = mask & RESERVED != 0 || flags & SYNCS == SYNCS;
    if is_wrong && world::current_host().is_some() {
        return fails(libc::EINVAL);
    }
    // SAFETY: by the contract of libc.
    let found = unsafe { find(dir, path, flags) };
    let system = |dir: c_int, path: *const c_char| {
        // SAFETY: by the contract of libc.
        unsafe { call()(libc::SYS_statx, dir, path, flags, mask, out) as c_int }
    };
    match found {
        Ok(Err(None)) => system(dir, path),
        Ok(Err(Some(path))) => system(libc::AT_FDCWD, path.as_ptr()),
        Ok(Ok(about)) => {
            // SAFETY: by the contract of libc.
            unsafe { ptr::write(out, as_statx(about)) };
            0
        }
        Err(error) => answer(Err(error)),
    }
}

// --- changes ---

#[unsafe(no_mangle)]
unsafe extern "C" fn fchmod(fd: c_int, mode: mode_t) -> c_int {
    if !is_ours(fd) && world::current_host().is_some() {
        return fails(super::read_only(fd));
    }
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_fchmod, fd, mode) as c_int };
    }
    if has_no_node(fd) {
        return 0;
    }
    answer(on_file(fd, libc::EINVAL, |disk, open| {
        let node = disk.node_of(open)?;
        disk.set_mode(node, mode);
        Ok(())
    }))
}

/// Times as `utimensat` takes them: each a time, `UTIME_NOW` or `UTIME_OMIT`. Null is now.
///
/// # Safety
///
/// - It is null, or there are two.
unsafe fn times(times: *const timespec) -> io::Result<[Option<i128>; 2]> {
    let now = || clock::shown(libc::CLOCK_REALTIME).map(i128::from);
    if times.is_null() {
        return Ok([now(), now()]);
    }
    // SAFETY: by contract.
    let times = unsafe { ptr::read(times.cast::<[timespec; 2]>()) };
    let mut out = [None; 2];
    for (out, time) in out.iter_mut().zip(times) {
        *out = match time.tv_nsec {
            libc::UTIME_NOW => now(),
            libc::UTIME_OMIT => None,
            nanos @ 0..1_000_000_000 => Some(i128::from(time.tv_sec) * SECOND + i128::from(nanos)),
            _ => return Err(os(libc::EINVAL)),
        };
    }
    Ok(out)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn futimens(fd: c_int, new: *const timespec) -> c_int {
    if !is_ours(fd) && world::current_host().is_some() {
        return fails(super::read_only(fd));
    }
    if !is_ours(fd) {
        let path = ptr::null::<c_char>();
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_utimensat, fd, path, new, 0) as c_int };
    }
    if is(fd, Kind::is_path) {
        return fails(libc::EBADF);
    }
    // SAFETY: by the contract of libc.
    answer(unsafe { times(new) }.and_then(|times| set_times(fd, times)))
}

/// Sets the times of a descriptor's file, or of the path that it stands for.
fn set_times(fd: c_int, [accessed, modified]: [Option<i128>; 2]) -> io::Result<()> {
    if has_no_node(fd) {
        return Ok(());
    }
    on_path_or_file(fd, libc::EINVAL, |disk, open| {
        let node = disk.node_of(open)?;
        disk.set_times(node, accessed, modified);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn utimensat(
    dir: c_int,
    path: *const c_char,
    new: *const timespec,
    flags: c_int,
) -> c_int {
    if path.is_null() && world::current_host().is_some() {
        return fails(libc::EINVAL);
    }
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(dir, path) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_utimensat, dir, path, new, flags) as c_int };
    };
    // SAFETY: by the contract of libc it is null, or there are two.
    let new_times = unsafe { new.cast::<[timespec; 2]>().as_ref() };
    if new_times.is_some_and(|both| both.iter().all(|one| one.tv_nsec == libc::UTIME_OMIT)) {
        // As in Linux, nothing else is looked at.
        return 0;
    }
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return fails(libc::EINVAL);
    }
    // SAFETY: by the contract of libc.
    let times = unsafe { times(new) };
    if at.path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 && is_ours(dir) {
        return answer(times.and_then(|times| set_times(dir, times)));
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    answer(at.on(|disk, start, path| {
        let node = disk.look(start, path, follow)?;
        let node = node.map_err(|_| os(libc::EROFS))?;
        let [accessed, modified] = times?;
        disk.set_times(node, accessed, modified);
        Ok(())
    }))
}

/// The functions of this file.
pub(super) const PART: &[*const c_void] = &[
    stat as *const c_void,
    stat_64 as *const c_void,
    lstat as *const c_void,
    lstat64 as *const c_void,
    fstat as *const c_void,
    fstat64 as *const c_void,
    fstatat as *const c_void,
    fstatat64 as *const c_void,
    stat_x as *const c_void,
    fchmod as *const c_void,
    futimens as *const c_void,
    utimensat as *const c_void,
];
