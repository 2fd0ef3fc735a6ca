//! Files: the functions of libc that name one, or take the descriptor of one.
//!
//! Each function reads its arguments, asks the disk of its host (`disk.rs`) with safe values, and
//! writes the answer. The time that the disk takes passes for the caller alone, if it is a
//! `spawn_blocking`, and for its whole host otherwise.
//!
//! | the path leads to | a call that reads | a call that changes |
//! | --- | --- | --- |
//! | the host's disk | asks the disk | asks the disk |
//! | a folder of the system, such as `/proc` | is the system's, with a real descriptor | `EROFS` |
//!
//! After a crash of its host, a call answers `EIO`, and one with a descriptor `EBADF`.
//!
//! A simulated file cannot be mapped into memory: `mmap` answers `ENODEV`. The pages of a map are
//! written by the processor, and no call would tell the disk of it.
#![allow(unsafe_code)]

pub(super) mod about;
pub(super) mod data;
pub(super) mod dir;
mod extended;
mod library;
pub(super) mod names;
pub(super) mod open;
pub(super) mod owners;
mod space;
mod streams;

use std::{
    ffi::{CStr, CString},
    io,
};

use libc::{c_char, c_int, c_void};

use super::{
    files::Kind,
    is_of_system, is_ours,
    system::{call, system},
};
use crate::{
    disk::{NodeId, Open, Store, is_of_descriptor, is_of_groups, leads_out},
    error::os,
    world::{self, World},
};

/// A path that a call in a host was given.
struct At<'a> {
    dir: c_int,
    path: &'a [u8],
}

/// The path of a call, if it is made in a host.
///
/// # Safety
///
/// - The path is null, or ends with NUL and is valid for the time of the call.
unsafe fn at<'a>(dir: c_int, path: *const c_char) -> Option<At<'a>> {
    if path.is_null() || world::current_host().is_none() {
        return None;
    }
    // SAFETY: by contract.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    Some(At { dir, path })
}

impl At<'_> {
    /// Whether it begins at a real descriptor, of a folder of the system.
    fn is_systems(&self) -> bool {
        !self.path.starts_with(b"/") && self.dir != libc::AT_FDCWD && !is_ours(self.dir)
    }

    /// Sees to it that a path from a real descriptor stays in the folder of the system that this
    /// is. `EACCES` for one that may lead out, by its parts, and `ENOENT` for what a host lacks.
    fn stays_in_system(&self) -> io::Result<()> {
        let mut parts = self.path.split(|byte| *byte == b'/');
        if parts.any(|part| matches!(part, b".." | b"cwd" | b"root" | b"map_files")) {
            return Err(os(libc::EACCES));
        }
        let whole = [&path_of(self.dir), self.path].join(&b'/');
        if is_of_groups(self.path) || is_of_descriptor(&whole) {
            return Err(os(libc::ENOENT));
        }
        match leads_out(&whole) {
            true => Err(os(libc::EACCES)),
            false => Ok(()),
        }
    }

    fn start(&self, world: &mut World, host: usize) -> io::Result<NodeId> {
        if self.path.is_empty() {
            return Err(os(libc::ENOENT));
        }
        if self.path.starts_with(b"/") || self.dir == libc::AT_FDCWD {
            return Ok(world.hosts[host].disk.start());
        }
        if self.is_systems() {
            return Err(os(read_only(self.dir)));
        }
        let World { files, hosts, .. } = world;
        match &files.get(self.dir)?.kind {
            Kind::File(open) => hosts[host].disk.folder_of(open),
            _ => Err(os(libc::ENOTDIR)),
        }
    }

    /// Asks the disk of the host that runs.
    fn on<R>(&self, f: impl FnOnce(&mut Store, NodeId, &[u8]) -> io::Result<R>) -> io::Result<R> {
        on_disk(|world, host| {
            let start = self.start(world, host)?;
            f(world.disk_of(host), start, self.path)
        })
    }

    /// The same for two paths.
    fn on_two<R>(
        &self,
        other: &At<'_>,
        f: impl FnOnce(&mut Store, (NodeId, &[u8]), (NodeId, &[u8])) -> io::Result<R>,
    ) -> io::Result<R> {
        on_disk(|world, host| {
            let starts = (self.start(world, host)?, other.start(world, host)?);
            let disk = world.disk_of(host);
            f(disk, (starts.0, self.path), (starts.1, other.path))
        })
    }
}

/// The path of a real descriptor. Empty if there is none.
fn path_of(fd: c_int) -> Vec<u8> {
    let link = c_path(format!("/proc/self/fd/{fd}").into_bytes());
    let mut path = vec![0_u8; libc::PATH_MAX as usize];
    let (dir, place, room) = (libc::AT_FDCWD, path.as_mut_ptr(), path.len());
    // SAFETY: the link ends with NUL, and there is room for as many bytes.
    let len = unsafe { call()(libc::SYS_readlinkat, dir, link.as_ptr(), place, room) };
    path.truncate(usize::try_from(len).unwrap_or(0));
    path
}

fn on_disk<R>(f: impl FnOnce(&mut World, usize) -> io::Result<R>) -> io::Result<R> {
    let done = world::with_host(|world, host| {
        if !world.hosts[host].up {
            return Err(os(libc::EIO));
        }
        let result = f(world, host);
        world.waits_for_disk(host);
        result
    });
    done.unwrap_or_else(|| Err(os(libc::EIO)))
}

/// Calls `f` with the file of a descriptor and its disk. `other`: the error if it is no file.
/// `EBADF` for one that stands for a path alone.
fn on_file<R>(
    fd: c_int,
    other: c_int,
    f: impl FnOnce(&mut Store, &mut Open) -> io::Result<R>,
) -> io::Result<R> {
    on_path_or_file(fd, other, |disk, open| match open.is_path() {
        true => Err(os(libc::EBADF)),
        false => f(disk, open),
    })
}

/// The same for a call that may have a descriptor of a path.
fn on_path_or_file<R>(
    fd: c_int,
    other: c_int,
    f: impl FnOnce(&mut Store, &mut Open) -> io::Result<R>,
) -> io::Result<R> {
    let done = world::with(|world| {
        let host = world.files.get(fd)?.host;
        if !world.hosts[host].up {
            return Err(os(libc::EBADF));
        }
        world.disk_of(host);
        let World { files, hosts, .. } = world;
        let result = match &mut files.get(fd)?.kind {
            Kind::File(open) => f(&mut hosts[host].disk, open),
            _ => Err(os(other)),
        };
        world.waits_for_disk(host);
        result
    });
    done.unwrap_or_else(|| Err(os(libc::EBADF)))
}

/// The error of a change of what a descriptor of the system stands for.
fn read_only(fd: c_int) -> c_int {
    match is_of_system(fd) {
        true => libc::EROFS,
        false => libc::EBADF,
    }
}

/// Whether a descriptor is that of a simulated file, folder, or device.
pub(super) fn is_file(fd: c_int) -> bool {
    is(fd, |kind| matches!(kind, Kind::File(_) | Kind::Random))
}

fn is(fd: c_int, kind: impl FnOnce(&Kind) -> bool) -> bool {
    let is = world::with(|world| world.files.get(fd).is_ok_and(|file| kind(&file.kind)));
    is == Some(true)
}

/// Whether a descriptor is open, and of no file of a disk: nothing of it is kept.
fn has_no_node(fd: c_int) -> bool {
    is(fd, |kind| !matches!(kind, Kind::File(_)))
}

/// A path for a call of the system.
fn c_path(path: Vec<u8>) -> CString {
    CString::new(path).expect("it came without a NUL")
}

/// The functions of this folder, for [`is_linked`](super::is_linked).
pub(super) const PARTS: &[&[*const c_void]] = &[
    about::PART,
    data::PART,
    dir::PART,
    extended::PART,
    names::PART,
    open::PART,
    library::PARTS[0],
    library::PARTS[1],
    owners::PART,
    owners::REFUSED,
    space::PARTS[0],
    space::PARTS[1],
    streams::PART,
];
