//! How names are made, changed and removed.
#![allow(unsafe_code)]

use std::{io, ptr};

use libc::{c_char, c_int, c_uint, c_void, dev_t, mode_t, off_t, size_t, ssize_t};

use super::{
    super::{
        answer, fails, is_ours, number,
        system::call,
        transferred,
        unsupported::{FILES, in_host},
    },
    at, c_path, on_path_or_file,
    open::{give, own_descriptor},
};
use crate::error::os;

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(dir, path) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_mkdirat, dir, path, mode) as c_int };
    };
    answer(at.on(|disk, start, path| disk.make_folder(start, path, mode & 0o1777)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { mkdirat(libc::AT_FDCWD, path, mode) }
}

/// Makes a file or the file of a socket. Pipes and devices are refused.
#[unsafe(no_mangle)]
unsafe extern "C" fn mknodat(dir: c_int, path: *const c_char, mode: mode_t, of: dev_t) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(dir, path) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_mknodat, dir, path, mode, of) as c_int };
    };
    let is_socket = match mode & libc::S_IFMT {
        0 | libc::S_IFREG => false,
        libc::S_IFSOCK => true,
        libc::S_IFIFO | libc::S_IFCHR | libc::S_IFBLK => {
            in_host("mknod", FILES);
            return fails(libc::ENOSYS);
        }
        libc::S_IFDIR => return fails(libc::EPERM),
        _ => return fails(libc::EINVAL),
    };
    answer(at.on(|disk, start, path| disk.make_file(start, path, mode & 0o7777, is_socket)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mknod(path: *const c_char, mode: mode_t, of: dev_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { mknodat(libc::AT_FDCWD, path, mode, of) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn umask(mask: mode_t) -> mode_t {
    let old = crate::world::with_host(|world, host| world.disk_of(host).set_umask(mask));
    // SAFETY: it takes no pointers.
    old.unwrap_or_else(|| unsafe { call()(libc::SYS_umask, mask) as mode_t })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(dir, path) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_unlinkat, dir, path, flags) as c_int };
    };
    answer(at.on(|disk, start, path| match flags {
        0 => disk.unlink(start, path),
        libc::AT_REMOVEDIR => disk.remove_folder(start, path),
        _ => Err(os(libc::EINVAL)),
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: by the contract of libc.
    let (Some(old), Some(new)) = (unsafe { (at(from_dir, from), at(to_dir, to)) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_renameat2, from_dir, from, to_dir, to, flags) as c_int };
    };
    answer(old.on_two(&new, |disk, from, to| disk.rename(from, to, flags)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { renameat2(from_dir, from, to_dir, to, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: by the contract of libc.
    let (Some(old), Some(new)) = (unsafe { (at(from_dir, from), at(to_dir, to)) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_linkat, from_dir, from, to_dir, to, flags) as c_int };
    };
    if flags & !(libc::AT_SYMLINK_FOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return fails(libc::EINVAL);
    }
    let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
    let open = match old.path {
        b"" if flags & libc::AT_EMPTY_PATH != 0 => Some(from_dir).filter(|fd| is_ours(*fd)),
        path if follow => own_descriptor(path),
        _ => None,
    };
    if let Some(fd) = open {
        let node = on_path_or_file(fd, libc::EXDEV, |disk, open| disk.linkable(open));
        return answer(
            node.and_then(|node| new.on(|disk, start, path| disk.link_node(node, start, path))),
        );
    }
    answer(old.on_two(&new, |disk, from, to| disk.link(from, to, follow)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int {
    // SAFETY: by the contract of libc.
    let (Some(to), Some(at)) = (unsafe { (at(libc::AT_FDCWD, target), at(dir, path)) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_symlinkat, target, dir, path) as c_int };
    };
    if to.path.len() >= libc::PATH_MAX as usize {
        return fails(libc::ENAMETOOLONG);
    }
    answer(at.on(|disk, start, path| disk.symlink(to.path, start, path)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { symlinkat(target, libc::AT_FDCWD, path) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate(path: *const c_char, len: off_t) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(libc::AT_FDCWD, path) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_truncate, path, len) as c_int };
    };
    answer(at.on(|disk, start, path| disk.truncate(start, path, len)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate64(path: *const c_char, len: off_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { truncate(path, len) }
}

// --- where a name leads to ---

#[unsafe(no_mangle)]
unsafe extern "C" fn readlinkat(
    dir: c_int,
    path: *const c_char,
    out: *mut c_char,
    size: size_t,
) -> ssize_t {
    let system = |dir: c_int, path: *const c_char| {
        // SAFETY: by the contract of libc.
        unsafe { call()(libc::SYS_readlinkat, dir, path, out, size) as ssize_t }
    };
    // SAFETY: by the contract of libc.
    let at = match unsafe { at(dir, path) } {
        Some(_) if size == 0 => return fails(libc::EINVAL) as ssize_t,
        Some(at) if !at.is_systems() => at,
        Some(at) => match at.stays_in_system() {
            Ok(()) => return system(dir, path),
            Err(error) => return transferred(Err(error)),
        },
        None => return system(dir, path),
    };
    let target = at.on(|disk, start, path| {
        let found = disk.look(start, path, false)?;
        found
            .map(|node| disk.target(node).map(<[u8]>::to_vec))
            .map_or_else(|path| Ok(Err(c_path(path))), |target| target.map(Ok))
    });
    match target {
        Ok(Ok(target)) => {
            let len = target.len().min(size);
            // SAFETY: by the contract of libc.
            unsafe { ptr::copy_nonoverlapping(target.as_ptr(), out.cast(), len) };
            len as ssize_t
        }
        Ok(Err(path)) => system(libc::AT_FDCWD, path.as_ptr()),
        Err(error) => transferred(Err(error)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readlink(path: *const c_char, out: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: by the contract of libc.
    unsafe { readlinkat(libc::AT_FDCWD, path, out, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char {
    let system = |path: *const c_char| {
        let realpath = super::system!(realpath: fn(*const c_char, *mut c_char) -> *mut c_char);
        // SAFETY: by the contract of libc.
        unsafe { realpath(path, out) }
    };
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(libc::AT_FDCWD, path) }) else {
        return system(path);
    };
    match at.on(|disk, start, path| disk.real_path(start, path)) {
        // SAFETY: by the contract of libc there is room for the longest path.
        Ok(Ok(path)) => unsafe { give(out, c_path(path).as_bytes_with_nul()) },
        Ok(Err(path)) => system(c_path(path).as_ptr()),
        Err(error) => {
            fails(number(&error));
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn faccessat(dir: c_int, path: *const c_char, how: c_int, flags: c_int) -> c_int {
    let system = |dir: c_int, path: *const c_char| {
        // The call of this name takes no flags.
        let system = super::system!(faccessat: fn(c_int, *const c_char, c_int, c_int) -> c_int);
        // SAFETY: by the contract of libc.
        unsafe { system(dir, path, how, flags) }
    };
    // SAFETY: by the contract of libc.
    let at = match unsafe { at(dir, path) } {
        Some(at) if !at.is_systems() => at,
        Some(at) => match at.stays_in_system() {
            Ok(()) => return system(dir, path),
            Err(error) => return answer(Err(error)),
        },
        None => return system(dir, path),
    };
    let known = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EACCESS | libc::AT_EMPTY_PATH;
    if how & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 || flags & !known != 0 {
        return fails(libc::EINVAL);
    }
    let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    let found = at.on(|disk, start, path| match disk.look(start, path, follow)? {
        Ok(node) => disk.may_access(node, how).map(|()| None),
        Err(_) if how & libc::W_OK != 0 => Err(os(libc::EROFS)),
        Err(path) => Ok(Some(c_path(path))),
    });
    match found {
        Ok(Some(path)) => system(libc::AT_FDCWD, path.as_ptr()),
        found => answer(found.map(drop)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, how: c_int) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { faccessat(libc::AT_FDCWD, path, how, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fchmodat(
    dir: c_int,
    path: *const c_char,
    mode: mode_t,
    flags: c_int,
) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(dir, path) }) else {
        let system = super::system!(fchmodat: fn(c_int, *const c_char, mode_t, c_int) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(dir, path, mode, flags) };
    };
    answer(at.on(|disk, start, path| {
        match flags & !libc::AT_SYMLINK_NOFOLLOW {
            0 if flags == 0 => {}
            0 => return Err::<(), io::Error>(os(libc::EOPNOTSUPP)),
            _ => return Err(os(libc::EINVAL)),
        }
        let found = disk.look(start, path, true)?;
        disk.set_mode(found.map_err(|_| os(libc::EROFS))?, mode);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chmod(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { fchmodat(libc::AT_FDCWD, path, mode, 0) }
}

/// The functions of this file.
pub(super) const PART: &[*const c_void] = &[
    mkdir as *const c_void,
    mkdirat as *const c_void,
    mknod as *const c_void,
    mknodat as *const c_void,
    umask as *const c_void,
    unlink as *const c_void,
    unlinkat as *const c_void,
    rmdir as *const c_void,
    rename as *const c_void,
    renameat as *const c_void,
    renameat2 as *const c_void,
    link as *const c_void,
    linkat as *const c_void,
    symlink as *const c_void,
    symlinkat as *const c_void,
    truncate as *const c_void,
    truncate64 as *const c_void,
    readlink as *const c_void,
    readlinkat as *const c_void,
    realpath as *const c_void,
    access as *const c_void,
    faccessat as *const c_void,
    chmod as *const c_void,
    fchmodat as *const c_void,
];
