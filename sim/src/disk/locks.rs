//! Locks of whole files, by `flock`, and of ranges, by `fcntl`.
//!
//! A lock by `flock` is an open file's. Its copies by `dup` share it. It ends with the last of
//! them.
//!
//! A lock of a range is the process's. A host is one process, so nobody else has one: a call is
//! checked, and has no effect.

use std::io;

use libc::c_int;

use super::{open::Open, store::Store};
use crate::error::os;

/// The open files that have a lock, and whether it excludes others.
pub(super) type Holders = Vec<(u64, bool)>;

/// A lock of a range as a program asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) kind: c_int,
    pub(crate) from: c_int,
    pub(crate) start: i64,
    pub(crate) len: i64,
}

impl Store {
    /// Whether a range may be locked. `asks`: only looks for the lock of another process.
    pub(crate) fn lock_range(&self, open: &Open, range: Range, asks: bool) -> io::Result<()> {
        self.is_usable(open)?;
        if asks && !matches!(range.kind, libc::F_RDLCK | libc::F_WRLCK) {
            return Err(os(libc::EINVAL));
        }
        let base = match range.from {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => open.at as i64,
            libc::SEEK_END => self.about(open.node).len as i64,
            _ => return Err(os(libc::EINVAL)),
        };
        let start = base
            .checked_add(range.start)
            .ok_or_else(|| os(libc::EOVERFLOW))?;
        let end = start
            .checked_add(range.len - i64::from(range.len > 0))
            .ok_or_else(|| os(libc::EOVERFLOW))?;
        if start < 0 || end < 0 {
            return Err(os(libc::EINVAL));
        }
        let may = match range.kind {
            libc::F_RDLCK => asks || open.reads(),
            libc::F_WRLCK => asks || open.writes(),
            libc::F_UNLCK => true,
            _ => return Err(os(libc::EINVAL)),
        };
        if may { Ok(()) } else { Err(os(libc::EBADF)) }
    }

    /// Takes a lock, changes it, or gives it up. `EWOULDBLOCK` if another one has it.
    pub(crate) fn lock(&mut self, open: &Open, command: c_int) -> io::Result<()> {
        self.is_usable(open)?;
        let holders = self.locks.entry(open.node).or_default();
        let is_exclusive = match command & !libc::LOCK_NB {
            libc::LOCK_UN => {
                holders.retain(|(holder, _)| *holder != open.id);
                return Ok(());
            }
            libc::LOCK_SH => false,
            libc::LOCK_EX => true,
            _ => return Err(os(libc::EINVAL)),
        };
        // As in Linux, a change gives the old lock up first.
        holders.retain(|(holder, _)| *holder != open.id);
        if holders
            .iter()
            .any(|(_, exclusive)| is_exclusive || *exclusive)
        {
            return Err(os(libc::EWOULDBLOCK));
        }
        holders.push((open.id, is_exclusive));
        Ok(())
    }

    pub(super) fn unlock_all(&mut self, open: &Open) {
        if let Some(holders) = self.locks.get_mut(&open.node) {
            holders.retain(|(holder, _)| *holder != open.id);
            if holders.is_empty() {
                self.locks.remove(&open.node);
            }
        }
    }
}
