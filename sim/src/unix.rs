//! Unix sockets of simulated hosts: streams, datagrams and packets, by path, abstract name or pair.
//!
//! # How it works
//!
//! Both ends of a Unix socket are on one host, and its kernel does each call at once. So there are
//! no packets, no links and no time here: a write puts bytes into the inbox of the other end. What
//! became ready waits in [`Sockets::take_news`], as in the network.
//!
//! | state | by | a stream | a datagram socket |
//! | --- | --- | --- | --- |
//! | `Idle` | `socket` | can `connect`, `listen` | can send with an address |
//! | `Listening` | `listen` | has a backlog of connected ends | |
//! | `Connected` | `connect`, `accept`, `socketpair` | has or had a peer | can send without one |
//!
//! The path of a socket is a node of its host's disk, which `bind` makes. As in Linux it stays when
//! the socket is closed, until somebody unlinks it; `connect` then answers `ECONNREFUSED`. A crash
//! leaves it if its folder was synced. An abstract name goes with its socket.
//!
//! # The invariant
//!
//! *What is sent is charged*: a message counts against the send buffer of its sender until it is
//! read or dropped. A socket that is writable takes one message at least.
//!
//! # Errors
//!
//! They are those of `net/unix/af_unix.c`, in its order: `sim/tests/unix.rs` compares them with the
//! kernel's. The exact number of bytes that fit is not the kernel's, which counts pages.
//!
//! # Left out
//!
//! Credentials that travel with a message (`SCM_CREDENTIALS`); urgent data; `SO_PEEK_OFF`; files
//! that are nowhere but in messages to themselves, which Linux collects.

mod calls;
mod data;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::Shutdown,
};

use crate::{disk::NodeId, error::os, network::Ready};

/// Bytes that a socket may have sent and that nobody has read: `net.core.wmem_default`.
const SEND_BUFFER: usize = 212_992;
/// What Linux charges for a message beside its bytes, about.
const OVERHEAD: usize = 768;
/// Messages in the inbox of a datagram socket before others than its peer wait:
/// `net.unix.max_dgram_qlen`.
const QUEUE: usize = 10;

pub(crate) type UnixId = u64;

/// An open file, in the table of descriptors.
pub(crate) type FileKey = usize;

/// A path or an abstract name, as an address has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Path(Vec<u8>),
    /// Without the NUL at its begin.
    Abstract(Vec<u8>),
}

/// What a name of a host leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A socket of its disk.
    Node(NodeId),
    /// As in Linux, each kind of socket has abstract names of its own.
    Abstract(Kind, Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Stream,
    Datagram,
    /// `SOCK_SEQPACKET`: connected as a stream, with messages.
    Packets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Listening,
    Connected,
}

#[derive(Debug)]
struct Message {
    sender: UnixId,
    name: Option<Name>,
    bytes: Vec<u8>,
    /// The files whose descriptors travel with it. The table of descriptors counts each.
    rights: Vec<FileKey>,
    /// Bytes of a stream that were read already.
    read: usize,
    charge: usize,
}

#[derive(Debug)]
struct Socket {
    host: usize,
    kind: Kind,
    state: State,
    name: Option<Name>,
    place: Option<Place>,
    peer: Option<UnixId>,
    /// The name of a peer that is gone.
    peer_name: Option<Name>,
    /// Its peer's credentials are those of this process: `SO_PEERCRED`.
    has_credentials: bool,
    /// Its own data in the inboxes of others, in bytes.
    charged: usize,
    send_buffer: usize,
    receive_buffer: usize,
    inbox: VecDeque<Message>,
    backlog: usize,
    /// Connected ends that nobody has accepted, the oldest first.
    waiting: VecDeque<UnixId>,
    error: Option<i32>,
    shut_read: bool,
    shut_write: bool,
    last: Ready,
    news: Ready,
}

impl Socket {
    fn shut(&mut self, how: Shutdown) {
        self.shut_read |= how != Shutdown::Write;
        self.shut_write |= how != Shutdown::Read;
    }

    fn is_datagram(&self) -> bool {
        self.kind == Kind::Datagram
    }
}

/// The Unix sockets of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    all: BTreeMap<UnixId, Socket>,
    next: UnixId,
    /// The open socket of each place that has one.
    places: BTreeMap<(usize, Place), UnixId>,
    /// The last name that `bind` has made up.
    made_up: u32,
    news: Vec<UnixId>,
    /// Files whose descriptors were in messages that nobody will read.
    lost: Vec<FileKey>,
}

impl Sockets {
    fn get(&self, id: UnixId) -> io::Result<&Socket> {
        // After a crash of its host it is gone.
        self.all.get(&id).ok_or_else(|| os(libc::EBADF))
    }

    fn get_mut(&mut self, id: UnixId) -> io::Result<&mut Socket> {
        self.all.get_mut(&id).ok_or_else(|| os(libc::EBADF))
    }

    pub(crate) fn socket(&mut self, host: usize, kind: Kind) -> UnixId {
        self.next += 1;
        let socket = Socket {
            host,
            kind,
            state: State::Idle,
            name: None,
            place: None,
            peer: None,
            peer_name: None,
            has_credentials: false,
            charged: 0,
            send_buffer: SEND_BUFFER,
            receive_buffer: SEND_BUFFER,
            inbox: VecDeque::new(),
            backlog: 0,
            waiting: VecDeque::new(),
            error: None,
            shut_read: false,
            shut_write: false,
            last: Ready::NONE,
            news: Ready::NONE,
        };
        self.all.insert(self.next, socket);
        self.touch(self.next, Ready::NONE);
        self.next
    }

    pub(crate) fn pair(&mut self, host: usize, kind: Kind) -> (UnixId, UnixId) {
        let (a, b) = (self.socket(host, kind), self.socket(host, kind));
        for (id, peer) in [(a, b), (b, a)] {
            self.join(id, peer);
        }
        (a, b)
    }

    /// Makes `id` connected to `peer`.
    fn join(&mut self, id: UnixId, peer: UnixId) {
        if let Some(socket) = self.all.get_mut(&id) {
            (socket.peer, socket.state) = (Some(peer), State::Connected);
            socket.has_credentials = true;
        }
        self.touch(id, Ready::NONE);
    }

    /// As `unix_poll` and `unix_dgram_poll`.
    pub(crate) fn ready(&self, id: UnixId) -> Ready {
        let Some(s) = self.all.get(&id) else {
            return Ready::NONE;
        };
        let mut ready = Ready::NONE;
        ready.set_if(s.error.is_some(), Ready::ERROR);
        let unconnected = !s.is_datagram() && s.state == State::Idle;
        let both = s.shut_read && s.shut_write;
        ready.set_if(both || unconnected, Ready::WRITE_CLOSED);
        ready.set_if(s.shut_read, Ready::READ_CLOSED | Ready::READABLE);
        let some = !s.inbox.is_empty() || !s.waiting.is_empty();
        ready.set_if(some, Ready::READABLE);
        let room = s.state != State::Listening && 4 * s.charged <= s.send_buffer;
        let peer = s.peer.filter(|_| s.is_datagram());
        let held_up = peer.is_some_and(|peer| self.is_full_for(id, peer));
        ready.set_if(room && !held_up, Ready::WRITABLE);
        ready
    }

    /// Whether a datagram has to wait for room in the inbox of its receiver.
    fn is_full_for(&self, sender: UnixId, receiver: UnixId) -> bool {
        let other = self.all.get(&receiver);
        other.is_some_and(|other| other.peer != Some(sender) && other.inbox.len() > QUEUE)
    }

    /// Notes what a socket became ready for. `arrived` is news even if it was so before.
    fn touch(&mut self, id: UnixId, arrived: Ready) {
        let ready = self.ready(id);
        let Some(socket) = self.all.get_mut(&id) else {
            return;
        };
        let new = ready.without(socket.last) | arrived;
        socket.last = ready;
        if new.is_none() {
            return;
        }
        if socket.news.is_none() {
            self.news.push(id);
        }
        socket.news |= new;
    }

    /// Takes the files whose descriptors were lost on their way.
    pub(crate) fn take_lost(&mut self) -> Vec<FileKey> {
        std::mem::take(&mut self.lost)
    }

    /// What sockets became ready for since the last call.
    pub(crate) fn take_news(&mut self) -> Vec<(UnixId, Ready)> {
        let ids = std::mem::take(&mut self.news);
        let news = ids.into_iter().filter_map(|id| {
            let socket = self.all.get_mut(&id)?;
            Some((id, std::mem::take(&mut socket.news)))
        });
        news.collect()
    }

    /// Takes all sockets of a host away. Their paths are its disk's, and files that are in messages
    /// are lost.
    pub(crate) fn crash(&mut self, host: usize) {
        for socket in self.all.values_mut().filter(|socket| socket.host == host) {
            let messages = socket.inbox.drain(..);
            self.lost
                .extend(messages.flat_map(|message| message.rights));
        }
        self.all.retain(|_, socket| socket.host != host);
        self.places.retain(|(of, _), _| *of != host);
    }
}
