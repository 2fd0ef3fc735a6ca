//! The disks of hosts: files that a crash may lose.
//!
//! # How it works
//!
//! Each host has a disk of its own, a tree of nodes in memory (`Store`). The functions of libc
//! that name a file or take its descriptor ask it (`kernel/fs`). So `std::fs`, `ws::fs` and
//! libraries work on it unchanged. The disk is empty at first, but for three things:
//!
//! - the folder [`HOME`], in which relative paths begin;
//! - `/run`, and `/tmp` or the folder that `TMPDIR` names;
//! - the folders of the system: `/bin`, `/dev`, `/etc`, `/lib`, `/proc`, `/sbin`, `/sys`, `/usr`.
//!   They are the machine's, and can only be read (`EROFS`). Devices can be written. What of
//!   them leads to other files is refused (`EACCES`): `/dev/shm`, `/dev/mqueue`, and the links
//!   `cwd` and `root` below `/proc`.
//!
//! The program's own executable can be read at its path as well, for backtraces. No other path
//! leads to the machine's files. Programs are root: permissions are kept, and refuse nothing.
//!
//! # What a crash leaves
//!
//! Programs see a cache. The platter has less:
//!
//! | made durable by | what |
//! | --- | --- |
//! | `fsync`, `fdatasync` of a file, `O_SYNC` | its bytes and its length, not its name |
//! | `fsync` of a folder | the changes of its names, and all changes of names before those |
//! | `sync`, `syncfs` | everything |
//! | 30 simulated seconds | what is older |
//!
//! The rest is drawn by the seed. Of the changes of names a crash keeps the first ones, in the
//! order in which they were made: none, all, or some. A rename is one change, so it is atomic. Of
//! each file it keeps for each dirty sector of 512 bytes the new content, the old one, or one that
//! was written in between; and the new length, the old one, or one in between (`contents.rs`). The
//! bytes of a file and its name are independent: the new name may be there, and the bytes not.
//! Permissions and times are durable at once.
//!
//! A call has its effect when it begins, and its latency comes after it. So a crash may come when a
//! file is durable and its program does not know it. All calls of one closure of `spawn_blocking`
//! have their effects at once, and so have all calls of one poll: no crash comes between them. A
//! crash comes between the calls of a program that makes each one by `ws::fs` or `tokio::fs`.
//!
//! *Invariant*: nothing here has `unsafe`, and nothing depends on more than the calls, the seed and
//! the simulated time.
//!
//! # Rejected
//!
//! - Real files in a folder of the machine for each host: what was synced cannot be asked for, and
//!   the times, the space and the leftovers are the machine's.
//! - The machine's files below the host's, as an overlay: a file that an earlier program left in
//!   the current folder would change the run.
//! - A sync of a file that makes its name durable, as in ext4: POSIX does not promise it, and
//!   programs that rely on it are not found. [`DiskFaults::sync_keeps_names`] gives it.

mod contents;
mod dice;
mod faults;
mod locks;
mod log;
mod names;
mod open;
mod store;
mod walk;

use std::{
    cell::RefCell,
    ffi::OsString,
    fmt, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    rc::Rc,
};

pub use self::faults::DiskFaults;
pub(crate) use self::{
    locks::Range,
    names::{About, Entry, Space},
    open::{Open, Opened, Seek},
    store::{NodeId, Store},
    walk::{is_of_descriptor, is_of_groups, leads_out},
};
use crate::{error::os, world::World};

/// The folder in which a host's program begins.
pub(crate) const HOME: &str = "/home/host";

/// The disk of a host, as a test sees it: to set it up, and to look at it.
///
/// Its calls take no simulated time, and never fail by chance. Relative paths begin in
/// [`path`](Self::path). Clones are the same disk. A program that runs on the host needs none: it
/// uses `std::fs` or `ws::fs`.
///
/// # Examples
///
/// ```
/// use ws_sim::Sim;
///
/// let sim = Sim::new(7);
/// sim.client("n0", async {
///     let text = ws::fs::read_to_string("config/name").await?;
///     ws::fs::write("answer", text + ", world").await
/// });
/// let disk = sim.disk("n0");
/// disk.write("config/name", "hello")?;
/// sim.try_run()?;
/// assert_eq!(disk.read("answer")?, b"hello, world");
/// assert_eq!(disk.files().len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Disk {
    world: Rc<RefCell<World>>,
    host: usize,
}

impl Disk {
    pub(crate) fn new(world: Rc<RefCell<World>>, host: usize) -> Self {
        Self { world, host }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Store) -> R) -> R {
        let mut world = self.world.borrow_mut();
        let disk = world.disk_of(self.host);
        let faults = disk.be_quiet();
        let result = f(disk);
        disk.set_faults(faults);
        result
    }

    /// The folder in which the host's program begins. It is empty at first.
    ///
    /// ```
    /// let sim = ws_sim::Sim::new(7);
    /// sim.host("n0", || async {});
    /// assert!(sim.disk("n0").path().is_absolute());
    /// ```
    pub fn path(&self) -> &Path {
        Path::new(HOME)
    }

    /// Reads a file, as programs see it: with what was not synced.
    ///
    /// # Errors
    ///
    /// As [`std::fs::read`], also if the file is larger than the memory. The system's files cannot
    /// be read so (`EROFS`).
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let path = self.path().join(path);
        self.with(|disk| disk.read_whole(path.as_os_str().as_bytes()))
    }

    /// Writes a file that is durable at once, and the folders that it is in. What the host's
    /// program has not synced stays so. But if the program has renamed something from or to one of
    /// these names, that rename becomes durable as well.
    ///
    /// # Errors
    ///
    /// If a file stands where a folder is needed, if there is no room, and in folders of the
    /// system.
    pub fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let path = self.path().join(path);
        let folder = path
            .parent()
            .map_or(b"/".as_slice(), |path| path.as_os_str().as_bytes());
        self.with(|disk| {
            disk.make_folders(folder)?;
            disk.write_whole(path.as_os_str().as_bytes(), bytes.as_ref())
        })
    }

    /// The paths of all files and links, in their order.
    pub fn files(&self) -> Vec<PathBuf> {
        let files = self.with(|disk| disk.files());
        files
            .into_iter()
            .map(|path| OsString::from_vec(path).into())
            .collect()
    }

    /// Turns one bit of a file, which the seed draws, as a worn disk does. Programs read it at
    /// once, and it stays after a crash.
    ///
    /// # Errors
    ///
    /// If there is no such file, or if it is empty (`EINVAL`).
    pub fn rot(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = self.path().join(path);
        self.with(|disk| {
            let found = disk.look(disk.start(), path.as_os_str().as_bytes(), true)?;
            disk.rot(found.map_err(|_| os(libc::EROFS))?)
        })
    }
}

impl Store {
    /// Reads a file at once, for a test.
    fn read_whole(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        let mut open = self.open_for_test(path, libc::O_RDONLY)?;
        let len = self.about_open(&open)?.len as usize;
        let mut bytes = Vec::new();
        let read = match bytes.try_reserve_exact(len) {
            Ok(()) => {
                bytes.resize(len, 0);
                self.read(&mut open, &mut bytes, Some(0))
            }
            Err(_) => Err(io::ErrorKind::OutOfMemory.into()),
        };
        self.close(&open);
        read.map(|_| bytes)
    }

    /// Writes a file at once, for a test.
    fn write_whole(&mut self, path: &[u8], bytes: &[u8]) -> io::Result<()> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let mut open = self.open_for_test(path, flags)?;
        let written = self.write(&mut open, bytes, Some(0));
        let synced = self.sync(&open);
        self.close(&open);
        let names = self.names_of_path(path)?;
        self.commit_names(&names);
        synced?;
        if written? < bytes.len() {
            return Err(os(libc::ENOSPC));
        }
        Ok(())
    }

    fn open_for_test(&mut self, path: &[u8], flags: libc::c_int) -> io::Result<Open> {
        match self.open(self.start(), path, flags, 0o644)? {
            Opened::Here(open) => Ok(open),
            Opened::System(_) | Opened::Device(_) => Err(os(libc::EROFS)),
        }
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Disk");
        out.field("host", &self.host).finish_non_exhaustive()
    }
}
