//! Locks of whole files: `flock`.
//!
//! A lock is an open file's. Its copies by `dup` share it. It ends with the last of them.

use std::io;

use libc::c_int;

use super::{open::Open, store::Store};
use crate::error::os;

/// The open files that have a lock, and whether it excludes others.
pub(super) type Holders = Vec<(u64, bool)>;

impl Store {
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
