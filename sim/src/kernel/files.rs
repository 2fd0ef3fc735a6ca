//! The table of simulated descriptors.
//!
//! As in the kernel, a descriptor is a number of an open file, and `dup` makes another number of
//! the same file. The flag for nonblocking mode is the file's. When its last number is closed, the
//! file is closed. Numbers are used again, the newest first; but each simulation of a thread has
//! [`NUMBERS`] of its own. So a descriptor that outlives its run is no other one's later. It is
//! closed already, and its owner may close it: std aborts the process where that is an error.
//!
//! Rejected: numbers of its own for each simulation of the process. A map with descriptors as keys
//! would have another order in a run alone than among those of [`check()`](crate::check()), where
//! each run has a thread of its own. The price: a descriptor that a static hands from the run of
//! one thread to that of another may be another one there.

use std::{cell::Cell, collections::BTreeMap, io};

use libc::c_int;
use slab::Slab;

use super::{FIRST, kept::Kept, messages::Asks, poll::Watches, timers::Timer};
use crate::{
    disk::Open,
    error::os,
    network::{Ready, SocketId},
    pipe::End,
    unix::{FileKey, UnixId},
    world::World,
};

/// Descriptors of a simulation at most: a million.
const NUMBERS: c_int = 1 << 20;

/// Simulations that have numbers of their own. After them the first numbers are used once more.
const SIMULATIONS: u32 = ((c_int::MAX - FIRST) / NUMBERS) as u32;

thread_local! {
    /// Simulations of this thread so far.
    static BEGUN: Cell<u32> = const { Cell::new(0) };
}

/// All descriptors and open files of a simulation.
#[derive(Debug)]
pub(crate) struct Files {
    /// The first number.
    first: c_int,
    descriptors: Slab<Descriptor>,
    pub(super) open: Slab<File>,
    of_socket: BTreeMap<SocketId, usize>,
    of_unix: BTreeMap<UnixId, usize>,
    of_pipe: BTreeMap<End, usize>,
    /// The cookie that a socket got last.
    cookies: u64,
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
    /// Options that have no effect.
    pub(super) kept: Kept,
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
    /// A timerfd.
    Timer(Timer),
    Pipe(End),
    File(Open),
    /// `/dev/random` or `/dev/urandom`.
    Random,
}

impl Kind {
    /// Whether it is a file that was opened with `O_PATH`.
    pub(super) fn is_path(&self) -> bool {
        matches!(self, Self::File(open) if open.is_path())
    }

    pub(super) fn socket(&self) -> io::Result<SocketId> {
        match self {
            Self::Tcp(id) | Self::Udp(id) => Ok(*id),
            _ if self.is_path() => Err(bad()),
            _ => Err(os(libc::ENOTSOCK)),
        }
    }
}

fn bad() -> io::Error {
    os(libc::EBADF)
}

impl Default for Files {
    fn default() -> Self {
        let begun = BEGUN.get();
        BEGUN.set((begun + 1) % SIMULATIONS);
        Self {
            first: FIRST + begun as c_int * NUMBERS,
            descriptors: Slab::new(),
            open: Slab::new(),
            of_socket: BTreeMap::new(),
            of_unix: BTreeMap::new(),
            of_pipe: BTreeMap::new(),
            cookies: 0,
        }
    }
}

impl Files {
    /// Whether a number is one of this simulation, and not of another one.
    pub(super) fn has(&self, fd: c_int) -> bool {
        (self.first..self.first + NUMBERS).contains(&fd)
    }

    /// The cookie of a socket, which it gets when it is asked for.
    pub(super) fn cookie(&mut self, fd: c_int) -> io::Result<u64> {
        let next = self.cookies + 1;
        let cookie = &mut self.get(fd)?.kept.cookie;
        if *cookie != 0 {
            return Ok(*cookie);
        }
        *cookie = next;
        self.cookies = next;
        Ok(next)
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

    /// The same, or `EBADF` if it stands for a path alone. Most calls use the file itself.
    pub(super) fn used(&mut self, fd: c_int) -> io::Result<&mut File> {
        let file = self.get(fd)?;
        if file.kind.is_path() {
            return Err(bad());
        }
        Ok(file)
    }

    /// The same, or `EBADF` if it is no file of a disk.
    pub(super) fn file(&mut self, fd: c_int) -> io::Result<&mut Open> {
        match &mut self.used(fd)?.kind {
            Kind::File(open) => Ok(open),
            _ => Err(bad()),
        }
    }

    /// The numbers of a host's descriptors.
    pub(super) fn numbers_of(&self, host: usize) -> Vec<c_int> {
        let its = |one: &Descriptor| self.open[one.file].host == host;
        let all = self.descriptors.iter();
        let all = all.filter(|(_, one)| its(one));
        all.map(|(place, _)| self.first + place as c_int).collect()
    }

    pub(super) fn flags(&mut self, fd: c_int) -> io::Result<&mut c_int> {
        let place = self.place(fd)?;
        let descriptor = self.descriptors.get_mut(place);
        Ok(&mut descriptor.ok_or_else(bad)?.flags)
    }

    /// Files of a host that are open.
    #[cfg(test)]
    pub(super) fn of_host(&self, host: usize) -> usize {
        let files = self.open.iter();
        files.filter(|(_, file)| file.host == host).count()
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

    /// Opens a file, and gives its number. There has to be [room](Self::have_room). Of the flags
    /// `O_NONBLOCK` and `O_CLOEXEC` are looked at. Those of other calls are the same bits.
    pub(super) fn open(&mut self, host: usize, kind: Kind, flags: c_int) -> c_int {
        let socket = kind.socket().ok();
        let unix = match &kind {
            Kind::Unix(id) => Some(*id),
            _ => None,
        };
        let pipe = match &kind {
            Kind::Pipe(end) => Some(*end),
            _ => None,
        };
        let file = self.open.insert(File {
            host,
            nonblocking: flags & libc::O_NONBLOCK != 0,
            kind,
            asks: Asks::default(),
            kept: Kept::default(),
            watchers: Vec::new(),
            numbers: 0,
        });
        if let Some(id) = socket {
            self.of_socket.insert(id, file);
        }
        if let Some(id) = unix {
            self.of_unix.insert(id, file);
        }
        if let Some(end) = pipe {
            self.of_pipe.insert(end, file);
        }
        self.number(file, flags & libc::O_CLOEXEC != 0)
    }

    /// Gives a file one more number. There has to be [room](Self::have_room).
    pub(super) fn number(&mut self, file: usize, closes_on_exec: bool) -> c_int {
        self.open[file].numbers += 1;
        let flags = if closes_on_exec { libc::FD_CLOEXEC } else { 0 };
        self.first + self.descriptors.insert(Descriptor { file, flags }) as c_int
    }
}

impl World {
    /// Closes a number, and the file if it was the last one.
    pub(super) fn close(&mut self, fd: c_int) -> io::Result<()> {
        let place = self.files.place(fd)?;
        let descriptor = self.files.descriptors.try_remove(place).ok_or_else(bad)?;
        self.release([descriptor.file]);
        Ok(())
    }

    /// Counts a descriptor less of each of these files, and closes those that have none left. So it
    /// goes on with those whose descriptors were in messages to a socket that this has closed.
    pub(super) fn release(&mut self, files: impl IntoIterator<Item = FileKey>) {
        let mut files = files.into_iter();
        let mut lost = Vec::new();
        loop {
            lost.append(&mut self.unix.take_lost());
            let Some(key) = files.next().or_else(|| lost.pop()) else {
                return;
            };
            let file = &mut self.files.open[key];
            file.numbers -= 1;
            if file.numbers == 0 {
                self.close_file(key);
            }
        }
    }

    /// Counts a descriptor more of each of these files, which is on its way in a message.
    pub(super) fn hold(&mut self, files: &[FileKey]) {
        for key in files {
            self.files.open[*key].numbers += 1;
        }
    }

    fn close_file(&mut self, key: FileKey) {
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
            Kind::Pipe(end) => {
                self.files.of_pipe.remove(&end);
                self.pipes.close(end);
            }
            Kind::Timer(timer) => {
                if let Some(alarm) = timer.alarm {
                    self.net.cancel_alarm(alarm);
                }
            }
            Kind::Event { .. } | Kind::Random => {}
        }
    }

    /// Takes a host's sockets away, and nobody is told. Its timers never ring again: their files
    /// may outlive the crash, if no destructor runs.
    pub(crate) fn crash(&mut self, host: usize) {
        self.hosts[host].up = false;
        self.net.crash(self.hosts[host].id);
        self.unix.crash(host);
        self.release([]);
        self.disarm(host);
    }

    /// Closes all sockets and files of a host, and disarms its timers, as the end of its process
    /// does. Their numbers stay, for what still owns them.
    pub(crate) fn end_process_of(&mut self, host: usize) {
        self.net.kill_program(self.hosts[host].id);
        let its = self.files.open.iter_mut();
        for (_, file) in its.filter(|(_, file)| file.host == host) {
            match &mut file.kind {
                // After a crash of its host the socket is gone already.
                Kind::Tcp(id) | Kind::Udp(id) => drop(self.net.close(*id)),
                Kind::Unix(id) => self.unix.close(*id),
                _ => {}
            }
        }
        self.disarm(host);
        self.hosts[host].disk.end_program();
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
            Kind::Timer(timer) => {
                let is_due = timer.is_due(self.shown(self.files.open[file].host));
                if is_due { libc::EPOLLIN as u32 } else { 0 }
            }
            Kind::Pipe(end) => bits(self.pipes.ready(*end)),
            Kind::File(_) | Kind::Random => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
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
        for (end, ready) in self.pipes.take_news() {
            if let Some(&file) = self.files.of_pipe.get(&end) {
                self.edge(file, bits(ready));
            }
        }
        for file in self.net.take_alarms() {
            self.rings(file);
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
