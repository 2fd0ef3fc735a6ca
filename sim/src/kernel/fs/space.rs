//! What is known of a whole disk: its space, and its limits.
//!
//! A path of the system's is answered by the system.
#![allow(unsafe_code)]

use std::{ffi::CString, io, mem};

use libc::{c_char, c_int, c_long, c_void, statfs as AboutFs, statvfs as AboutVfs};

use super::{
    super::{answer, fails, is_ours, number},
    at, c_path, on_path_or_file,
};
use crate::{disk::Space, error::os, world};

/// Names of a file at most, as in ext4.
const LINKS: c_long = 65_000;

/// What a disk has, or a path of the system's. None is the path of the call.
type Found = Result<Space, Option<CString>>;

/// # Safety
///
/// - The path is null, or ends with NUL and is valid for the time of the call.
unsafe fn find(path: *const c_char) -> io::Result<Found> {
    // SAFETY: by contract.
    let Some(at) = (unsafe { at(libc::AT_FDCWD, path) }) else {
        return Ok(Err(None));
    };
    at.on(|disk, start, path| {
        let found = disk.look(start, path, true)?;
        Ok(found
            .map(|_| disk.space())
            .map_err(|path| Some(c_path(path))))
    })
}

fn of_descriptor(fd: c_int) -> io::Result<Space> {
    on_path_or_file(fd, libc::ENOSYS, |disk, open| {
        disk.node_of(open)?;
        Ok(disk.space())
    })
}

fn as_statfs(space: Space) -> AboutFs {
    // SAFETY: plain data.
    let mut out: AboutFs = unsafe { mem::zeroed() };
    out.f_type = libc::EXT4_SUPER_MAGIC as _;
    (out.f_bsize, out.f_frsize, out.f_namelen) = (4096, 4096, 255);
    (out.f_blocks, out.f_bfree, out.f_bavail) = (space.blocks, space.free, space.free);
    (out.f_files, out.f_ffree) = (space.blocks, space.free);
    out
}

fn as_statvfs(space: Space) -> AboutVfs {
    // SAFETY: plain data.
    let mut out: AboutVfs = unsafe { mem::zeroed() };
    (out.f_bsize, out.f_frsize, out.f_namemax) = (4096, 4096, 255);
    (out.f_blocks, out.f_bfree, out.f_bavail) = (space.blocks, space.free, space.free);
    (out.f_files, out.f_ffree, out.f_favail) = (space.blocks, space.free, space.free);
    out
}

/// The functions that tell the space of a disk: by a path, and by a descriptor.
macro_rules! tells {
    ($($path:ident $fd:ident: $type:ty = $convert:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $path(path: *const c_char, out: *mut $type) -> c_int {
                let system = |path: *const c_char| {
                    let system = super::system!($path: fn(*const c_char, *mut $type) -> c_int);
                    // SAFETY: by the contract of libc.
                    unsafe { system(path, out) }
                };
                // SAFETY: by the contract of libc.
                match unsafe { find(path) } {
                    Ok(Err(None)) => system(path),
                    Ok(Err(Some(path))) => system(path.as_ptr()),
                    Ok(Ok(space)) => {
                        // SAFETY: by the contract of libc.
                        unsafe { out.write($convert(space)) };
                        0
                    }
                    Err(error) => answer(Err(error)),
                }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn $fd(fd: c_int, out: *mut $type) -> c_int {
                if !is_ours(fd) {
                    let system = super::system!($fd: fn(c_int, *mut $type) -> c_int);
                    // SAFETY: by the contract of libc.
                    return unsafe { system(fd, out) };
                }
                // SAFETY: by the contract of libc.
                answer(of_descriptor(fd).map(|space| unsafe { out.write($convert(space)) }))
            }
        )*

        const TELLS: &[*const c_void] = &[$($path as *const c_void, $fd as *const c_void),*];
    };
}

// On 64 bit systems the structures of each pair are one.
tells! {
    statfs fstatfs: AboutFs = as_statfs;
    statfs64 fstatfs64: AboutFs = as_statfs;
    statvfs fstatvfs: AboutVfs = as_statvfs;
    statvfs64 fstatvfs64: AboutVfs = as_statvfs;
}

/// A limit of the disk. `EINVAL` for what is not one of files.
fn limit(name: c_int) -> io::Result<c_long> {
    Ok(match name {
        libc::_PC_LINK_MAX => LINKS,
        libc::_PC_MAX_CANON | libc::_PC_MAX_INPUT | libc::_PC_NAME_MAX => 255,
        libc::_PC_PATH_MAX
        | libc::_PC_PIPE_BUF
        | libc::_PC_REC_MIN_XFER_SIZE
        | libc::_PC_REC_XFER_ALIGN
        | libc::_PC_ALLOC_SIZE_MIN => 4096,
        libc::_PC_CHOWN_RESTRICTED | libc::_PC_NO_TRUNC | libc::_PC_2_SYMLINKS => 1,
        libc::_PC_VDISABLE => 0,
        libc::_PC_FILESIZEBITS => 64,
        // There is none.
        libc::_PC_SYNC_IO
        | libc::_PC_ASYNC_IO
        | libc::_PC_PRIO_IO
        | libc::_PC_SOCK_MAXBUF
        | libc::_PC_REC_INCR_XFER_SIZE
        | libc::_PC_REC_MAX_XFER_SIZE
        | libc::_PC_SYMLINK_MAX => -1,
        _ => return Err(os(libc::EINVAL)),
    })
}

/// Whether a limit is that of any path. Then no file is looked for.
fn is_of_all(name: c_int) -> bool {
    matches!(
        name,
        libc::_PC_MAX_CANON
            | libc::_PC_MAX_INPUT
            | libc::_PC_PATH_MAX
            | libc::_PC_PIPE_BUF
            | libc::_PC_NO_TRUNC
            | libc::_PC_VDISABLE
            | libc::_PC_SYNC_IO
            | libc::_PC_PRIO_IO
            | libc::_PC_SOCK_MAXBUF
            | libc::_PC_REC_INCR_XFER_SIZE
            | libc::_PC_REC_MAX_XFER_SIZE
            | libc::_PC_SYMLINK_MAX
    )
}

fn tell(limit: io::Result<c_long>) -> c_long {
    limit.unwrap_or_else(|error| fails(number(&error)).into())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pathconf(path: *const c_char, name: c_int) -> c_long {
    let system = |path: *const c_char| {
        let system = super::system!(pathconf: fn(*const c_char, c_int) -> c_long);
        // SAFETY: by the contract of libc.
        unsafe { system(path, name) }
    };
    // SAFETY: by the contract of libc.
    let at = unsafe { at(libc::AT_FDCWD, path) };
    if is_of_all(name) && at.is_some_and(|at| !at.path.is_empty()) {
        return tell(limit(name));
    }
    // SAFETY: by the contract of libc.
    match unsafe { find(path) } {
        Ok(Err(None)) => system(path),
        Ok(Err(Some(path))) => system(path.as_ptr()),
        found => tell(found.and_then(|_| limit(name))),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fpathconf(fd: c_int, name: c_int) -> c_long {
    if !is_ours(fd) {
        let system = super::system!(fpathconf: fn(c_int, c_int) -> c_long);
        // SAFETY: it takes no pointers.
        return unsafe { system(fd, name) };
    }
    let is_open = world::with(|world| world.files.of(fd).map(drop));
    let is_open = is_open.unwrap_or_else(|| Err(os(libc::EBADF)));
    tell(is_open.and_then(|()| limit(name)))
}

/// The functions of this file.
pub(super) const PARTS: [&[*const c_void]; 2] = [
    &[pathconf as *const c_void, fpathconf as *const c_void],
    TELLS,
];
