//! The table of simulated descriptors.
//!
//! As in the kernel, a descriptor is a number of an open file, and `dup` makes another number of
//! the same file. The flag for nonblocking mode is the file's. When its last number is closed, the
//! file is closed. Numbers are used again, the newest first; but each simulation of the process has
//! [`NUMBERS`] of its own. So a descriptor that outlives its run is no other one's later. It is
//! closed already, and its owner may close it: std aborts the process where that is an error.

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use libc::c_int;
use slab::Slab;

use super::{FIRST, messages::Asks, poll::Watches, sockets::os};
use crate::{
    disk::Open,
    network::{Ready, SocketId},
    unix::UnixId,
    world::World,
};

/// Descriptors of a simulation at most: a million.
const NUMBERS: c_int = 1 << 20;

/// Simulations that have numbers of their own. After them the first numbers are used once more.
const SIMULATIONS: u32 = ((c_int::MAX - FIRST) / NUMBERS) as u32;

/// Simulations of the process so far.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// All descriptors and open files of a simulation.
#[derive(Debug)]
pub(crate) struct Files {
    /// The first number.
    first: c_int,
    descriptors: Slab<Descriptor>,
    pub(super) open: Slab<File>,
    of_socket: BTreeMap<SocketId, usize>,
    of_unix: BTreeMap<UnixId, usize>,
}

#[derive(Debug)]
struct Descriptor {
    file: usize,
    flags: c_int,
}

#[derive(Debug)]
pub(super) struct File {
    pub(super) host: usize,
    pub(super) nonblocking: bool,
    pub(super) kind: Kind,
    /// Options of a UDP socket about its messages.
    pub(super) asks: Asks,
    /// The epoll files that watch it, each with the number by which it was added.
    pub(super) watchers: Vec<(usize, c_int)>,
    numbers: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    Tcp(SocketId),
    Udp(SocketId),
    Unix(UnixId),
    Epoll(Watches),
    /// An eventfd. A semaphore gives its count one by one.
    Event {
        count: u64,
        is_semaphore: bool,
    },
    /// A timerfd. It never fires: in a simulation timers are the runtime's.
    Timer,
    File(Open),
}

impl Kind {
    pub(super) fn socket(&self) -> io::Result<SocketId> {
        match self {
            Self::Tcp(id) | Self::Udp(id) => Ok(*id),
            _ => Err(os(libc::ENOTSOCK)),
        }
    }
}

fn bad() -> io::Error {
    os(libc::EBADF)
}

impl Default for Files {
    fn default() -> Self {
        // Ordering: Relaxed. Each simulation gets another number, and nothing else is shared.
        let begun = BEGUN.fetch_add(1, Relaxed);
        Self {
            first: FIRST + (begun % SIMULATIONS) as c_int * NUMBERS,
            descriptors: Slab::new(),
            open: Slab::new(),
            of_socket: BTreeMap::new(),
            of_unix: BTreeMap::new(),
        }
    }
}

impl Files {
    /// Whether a number is one of this simulation, and not of another one.
    pub(super) fn has(&self, fd: c_int) -> bool {
        (self.first..self.first + NUMBERS).contains(&fd)
    }

    fn place(&self, fd: c_int) -> io::Result<usize> {
        if self.has(fd) {
            Ok((fd - self.first) as usize)
        } else {
            Err(bad())
        }
    }

    /// The file of a descriptor.
    pub(super) fn of(&self, fd: c_int) -> io::Result<usize> {
        let descriptor = self.descriptors.get(self.place(fd)?);
        Ok(descriptor.ok_or_else(bad)?.file)
    }

    pub(super) fn get(&mut self, fd: c_int) -> io::Result<&mut File> {
        let file = self.of(fd)?;
        Ok(&mut self.open[file])
    }

    /// The same, or `EBADF` if it is no file of a disk.
    pub(super) fn file(&mut self, fd: c_int) -> io::Result<&mut Open> {
        match &mut self.get(fd)?.kind {
            Kind::File(open) => Ok(open),
            _ => Err(bad()),
        }
    }

    pub(super) fn flags(&mut self, fd: c_int) -> io::Result<&mut c_int> {
        let place = self.place(fd)?;
        let descriptor = self.descriptors.get_mut(place);
        Ok(&mut descriptor.ok_or_else(bad)?.flags)
    }

    pub(super) fn of_socket(&self, id: SocketId) -> Option<usize> {
        self.of_socket.get(&id).copied()
    }

    /// Whether there are numbers for so many descriptors more: `EMFILE` if not.
    pub(super) fn have_room(&self, count: usize) -> io::Result<()> {
        if self.descriptors.len() + count > NUMBERS as usize {
            return Err(os(libc::EMFILE));
        }
        Ok(())
    }

    /// Opens a file, and gives its number. There has to be [room](Self::have_room).
    pub(super) fn open(&mut self, host: usize, kind: Kind, nonblocking: bool) -> c_int {
        let socket = kind.socket().ok();
        let unix = match &kind {
            Kind::Unix(id) => Some(*id),
            _ => None,
        };
        let file = self.open.insert(File {
            host,
            nonblocking,
            kind,
            asks: Asks::default(),
            watchers: Vec::new(),
            numbers: 0,
        });
        if let Some(id) = socket {
            self.of_socket.insert(id, file);
        }
        if let Some(id) = unix {
            self.of_unix.insert(id, file);
        }
        self.number(file)
    }

    /// Gives a file one more number. There has to be [room](Self::have_room).
    pub(super) fn number(&mut self, file: usize) -> c_int {
        self.open[file].numbers += 1;
        let flags = libc::FD_CLOEXEC;
        self.first + self.descriptors.insert(Descriptor { file, flags }) as c_int
    }
}

impl World {
    /// Closes a number, and the file if it was the last one.
    pub(super) fn close(&mut self, fd: c_int) -> io::Result<()> {
        let place = self.files.place(fd)?;
        let descriptor = self.files.descriptors.try_remove(place).ok_or_else(bad)?;
        let key = descriptor.file;
        let file = &mut self.files.open[key];
        file.numbers -= 1;
        if file.numbers > 0 {
            return Ok(());
        }
        let file = self.files.open.remove(key);
        for (epoll, fd) in file.watchers {
            if let Some(epoll) = self.files.open.get_mut(epoll)
                && let Kind::Epoll(watches) = &mut epoll.kind
            {
                watches.forget((fd, key));
            }
        }
        match file.kind {
            Kind::Tcp(id) | Kind::Udp(id) => {
                self.files.of_socket.remove(&id);
                // After a crash of its host the socket is gone already.
                let _ = self.net.close(id);
            }
            Kind::Unix(id) => {
                self.files.of_unix.remove(&id);
                self.unix.close(id);
            }
            Kind::Epoll(watches) => {
                for (fd, watched) in watches.all() {
                    if let Some(file) = self.files.open.get_mut(watched) {
                        file.watchers.retain(|watcher| *watcher != (key, fd));
                    }
                }
            }
            Kind::File(open) => self.hosts[file.host].disk.close(&open),
            Kind::Event { .. } | Kind::Timer => {}
        }
        Ok(())
    }

    /// Closes all sockets of a host, as the end of its process does. Their numbers stay, for what
    /// still owns them.
    pub(crate) fn close_sockets_of(&mut self, host: usize) {
        let its = self.files.open.iter().filter(|(_, file)| file.host == host);
        for (_, file) in its {
            match file.kind {
                // After a crash of its host the socket is gone already.
                Kind::Tcp(id) | Kind::Udp(id) => drop(self.net.close(id)),
                Kind::Unix(id) => self.unix.close(id),
                _ => {}
            }
        }
    }

    /// What a file is ready for, as bits of epoll.
    pub(super) fn readiness(&self, file: usize) -> u32 {
        match &self.files.open[file].kind {
            Kind::Tcp(id) | Kind::Udp(id) => bits(self.net.readiness(*id)),
            Kind::Unix(id) => bits(self.unix.ready(*id)),
            Kind::Epoll(watches) => {
                let mut queued = watches.queued();
                let is_ready = queued.any(|(file, wants)| self.readiness(file) & wants != 0);
                if is_ready { libc::EPOLLIN as u32 } else { 0 }
            }
            // There is room for one more at least.
            Kind::Event { count, .. } => {
                let readable = if *count > 0 { libc::EPOLLIN } else { 0 };
                let writable = if *count < u64::MAX - 1 {
                    libc::EPOLLOUT
                } else {
                    0
                };
                (readable | writable) as u32
            }
            Kind::Timer => 0,
            Kind::File(_) => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
        }
    }

    /// Tells the epoll files what sockets became ready for.
    pub(crate) fn spread_news(&mut self) {
        for (socket, ready) in self.net.take_news() {
            if let Some(file) = self.files.of_socket(socket) {
                self.edge(file, bits(ready));
            }
        }
        for (socket, ready) in self.unix.take_news() {
            if let Some(&file) = self.files.of_unix.get(&socket) {
                self.edge(file, bits(ready));
            }
        }
    }

    /// Tells the epoll files that watch `file` what it became ready for.
    pub(super) fn edge(&mut self, file: usize, ready: u32) {
        for place in 0..self.files.open[file].watchers.len() {
            let (epoll, fd) = self.files.open[file].watchers[place];
            let File { host, kind, .. } = &mut self.files.open[epoll];
            let Kind::Epoll(watches) = kind else { continue };
            if watches.note((fd, file), ready) {
                self.hosts[*host].edges += 1;
                self.edge(epoll, libc::EPOLLIN as u32);
            }
        }
    }
}

/// As epoll says it.
fn bits(ready: Ready) -> u32 {
    let table = [
        (Ready::READABLE, libc::EPOLLIN | libc::EPOLLRDNORM),
        (Ready::WRITABLE, libc::EPOLLOUT | libc::EPOLLWRNORM),
        (Ready::READ_CLOSED, libc::EPOLLRDHUP),
        (Ready::WRITE_CLOSED, libc::EPOLLHUP),
        (Ready::ERROR, libc::EPOLLERR),
    ];
    let set = table.iter().filter(|(one, _)| ready.contains(*one));
    set.fold(0, |all, (_, bits)| all | *bits as u32)
}
