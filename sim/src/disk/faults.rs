//! What can go wrong with a disk.

use std::io;

use super::store::{Kind, NodeId, Store};
use crate::{error::os, network::Latency};

/// What a disk does to the calls of its host. Chances are in parts per million.
///
/// The default has no faults and no end. A call takes 10 us, and a sync 0.2 to 2 ms.
///
/// ```
/// use ws_sim::{DiskFaults, network::Latency};
///
/// let slow = DiskFaults { sync_latency: Latency::Constant(50_000_000), ..DiskFaults::default() };
/// assert_eq!(slow.capacity, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFaults {
    /// How long a call takes that reads, writes, or looks for a name.
    pub latency: Latency,
    /// How long a call takes that waits for the platter, such as `fsync`.
    pub sync_latency: Latency,
    /// Bytes that fit on the disk. Then a write gets `ENOSPC`. They are taken in pages of 4,096,
    /// by contents of files alone. `None` is no limit; but `fallocate` gets `ENOSPC` if the disk
    /// would have more than 1 GiB, since it takes so much memory.
    pub capacity: Option<u64>,
    /// The chance that a read fails with `EIO`.
    pub read_error_ppm: u32,
    /// The chance that a write fails with `EIO`. Nothing of it is written then.
    pub write_error_ppm: u32,
    /// The chance that a sync fails with `EIO`. As in Linux, what it did not write is not dirty any
    /// more: programs read it, the next sync does not write it, and a crash loses it.
    pub sync_error_ppm: u32,
    /// The chance that a crash tears a sector that was not synced: its first bytes are new.
    /// Without it, a crash loses or keeps each sector of 512 bytes as a whole.
    pub tear_ppm: u32,
    /// Whether a sync of a file makes its names durable too, as ext4 and XFS do. At first it is
    /// false: POSIX promises it for a sync of the folder alone.
    pub sync_keeps_names: bool,
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self {
            latency: Latency::Constant(10_000),
            sync_latency: Latency::Uniform {
                min: 200_000,
                max: 2_000_000,
            },
            capacity: None,
            read_error_ppm: 0,
            write_error_ppm: 0,
            sync_error_ppm: 0,
            tear_ppm: 0,
            sync_keeps_names: false,
        }
    }
}

impl Store {
    pub(crate) fn faults(&self) -> DiskFaults {
        self.faults
    }

    #[track_caller]
    pub(crate) fn set_faults(&mut self, faults: DiskFaults) {
        faults.latency.check();
        faults.sync_latency.check();
        self.faults = faults;
    }

    /// Takes no time and never fails by chance, until the faults that this gives are set again.
    pub(super) fn be_quiet(&mut self) -> DiskFaults {
        let quiet = DiskFaults {
            latency: Latency::Constant(0),
            sync_latency: Latency::Constant(0),
            capacity: self.faults.capacity,
            tear_ppm: self.faults.tear_ppm,
            ..DiskFaults::default()
        };
        std::mem::replace(&mut self.faults, quiet)
    }

    /// A call takes its time.
    pub(super) fn takes_time(&mut self, latency: Latency) {
        let time = self.dice.draw(|rng| latency.draw(rng));
        self.cost = self.cost.saturating_add(time);
    }

    /// The time that calls have taken since it was asked for last.
    pub(crate) fn take_cost(&mut self) -> u64 {
        std::mem::take(&mut self.cost)
    }

    /// Fails with `EIO` by chance.
    pub(super) fn may_fail(&mut self, ppm: u32) -> io::Result<()> {
        if self.dice.chance(ppm) {
            return Err(os(libc::EIO));
        }
        Ok(())
    }

    /// Turns one bit of a file. `EINVAL` if it has none.
    pub(super) fn rot(&mut self, node: NodeId) -> io::Result<()> {
        let node = self.nodes.get_mut(&node).expect("a path led to it");
        let Kind::File(contents) = &mut node.kind else {
            return Err(os(libc::EISDIR));
        };
        self.used -= contents.pages();
        let has_bits = contents.rot(&mut self.dice);
        self.used += contents.pages();
        if has_bits {
            Ok(())
        } else {
            Err(os(libc::EINVAL))
        }
    }
}
