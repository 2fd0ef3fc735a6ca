//! The disks of hosts, and their faults.

use std::path::Path;

use super::Sim;
use crate::{Disk, DiskFaults};

/// They panic for a name that no host has.
impl Sim {
    /// The disk of a host, to set it up before the run and to look at it after.
    ///
    /// # Examples
    ///
    /// See [`Disk`].
    ///
    /// # Panics
    ///
    /// If there is no such host.
    #[track_caller]
    pub fn disk(&self, host: impl AsRef<str>) -> Disk {
        Disk::new(self.inner.world.clone(), self.index(host))
    }

    /// Sets what the disk of a host does wrong from now on.
    ///
    /// ```
    /// use ws_sim::{DiskFaults, Sim};
    ///
    /// let sim = Sim::new(7);
    /// sim.client("n0", async {
    ///     let error = ws::fs::write("big", [0; 10_000]).await.unwrap_err();
    ///     assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    /// });
    /// sim.set_disk("n0", DiskFaults { capacity: Some(4096), ..DiskFaults::default() });
    /// sim.try_run()?;
    /// # Ok::<(), ws_sim::Failure>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no such host, or if a latency has a `min` above its `max`.
    #[track_caller]
    pub fn set_disk(&self, host: impl AsRef<str>, faults: DiskFaults) {
        let index = self.index(host);
        let mut world = self.inner.world.borrow_mut();
        world.hosts[index].disk.set_faults(faults);
    }

    /// What was not synced is lost, kept or torn. The end of a run does not do this.
    pub(super) fn lose_power(&self, index: usize) {
        self.inner.world.borrow_mut().disk_of(index).crash();
    }

    /// Turns one bit of a file: see [`Disk::rot`].
    ///
    /// # Panics
    ///
    /// If there is no such host, no such file, or if it is empty.
    #[track_caller]
    pub fn rot(&self, host: impl AsRef<str>, path: impl AsRef<Path>) {
        let path = path.as_ref();
        if let Err(error) = self.disk(host).rot(path) {
            panic!("{} cannot rot: {error}", path.display());
        }
    }
}
