//! Names, connections and their ends.

use std::{io, net::Shutdown};

use super::{Kind, Name, Place, Socket, Sockets, State, UnixId, os};
use crate::{disk::NodeId, network::Ready};

impl Sockets {
    /// Gives the socket an abstract name; without one, one that is free.
    pub(crate) fn bind(&mut self, id: UnixId, name: Option<Vec<u8>>) -> io::Result<()> {
        let socket = self.get(id)?;
        let (host, kind, is_bound) = (socket.host, socket.kind, socket.name.is_some());
        let is_taken = |all: &Self, name: &Vec<u8>| {
            all.places
                .contains_key(&(host, Place::Abstract(kind, name.clone())))
        };
        let name = match name {
            // A second bind to no name changes nothing.
            None if is_bound => return Ok(()),
            Some(_) if is_bound => return Err(os(libc::EINVAL)),
            Some(name) if is_taken(self, &name) => return Err(os(libc::EADDRINUSE)),
            Some(name) => name,
            None => loop {
                self.made_up = (self.made_up + 1) % 0x10_0000;
                let name = format!("{:05x}", self.made_up).into_bytes();
                if !is_taken(self, &name) {
                    break name;
                }
            },
        };
        self.take_name(
            id,
            Name::Abstract(name.clone()),
            Place::Abstract(kind, name),
        )
    }

    /// Gives the socket a path, for which the disk has made a node.
    pub(crate) fn bind_path(&mut self, id: UnixId, path: Vec<u8>, node: NodeId) -> io::Result<()> {
        if self.get(id)?.name.is_some() {
            return Err(os(libc::EINVAL));
        }
        self.take_name(id, Name::Path(path), Place::Node(node))
    }

    fn take_name(&mut self, id: UnixId, name: Name, place: Place) -> io::Result<()> {
        // What it has sent before comes from this name as well.
        let inboxes = self.all.values_mut().flat_map(|s| &mut s.inbox);
        for message in inboxes.filter(|message| message.sender == id) {
            message.name = Some(name.clone());
        }
        let socket = self.get_mut(id)?;
        (socket.name, socket.place) = (Some(name), Some(place.clone()));
        let key = (socket.host, place);
        self.places.insert(key, id);
        Ok(())
    }

    pub(crate) fn listen(&mut self, id: UnixId, backlog: usize) -> io::Result<()> {
        let socket = self.get_mut(id)?;
        if socket.is_datagram() {
            return Err(os(libc::EOPNOTSUPP));
        }
        if socket.name.is_none() || socket.state == State::Connected {
            return Err(os(libc::EINVAL));
        }
        (socket.state, socket.backlog) = (State::Listening, backlog);
        socket.has_credentials = true;
        self.touch(id, Ready::NONE);
        Ok(())
    }

    /// The open socket of a place, for one of this kind.
    pub(super) fn find(&self, host: usize, place: Place, kind: Kind) -> io::Result<UnixId> {
        let owner = self.places.get(&(host, place)).copied();
        let owner = owner.ok_or_else(|| os(libc::ECONNREFUSED))?;
        if self.get(owner)?.kind == kind {
            Ok(owner)
        } else {
            Err(os(libc::EPROTOTYPE))
        }
    }

    /// Connects to the socket of a place. Without a place, a datagram socket is disconnected.
    pub(crate) fn connect(&mut self, id: UnixId, place: Option<Place>) -> io::Result<()> {
        let Socket { host, kind, .. } = *self.get(id)?;
        let Some(place) = place else {
            return match kind {
                Kind::Datagram => self.set_peer(id, None),
                _ => Err(os(libc::EINVAL)),
            };
        };
        let other = self.find(host, place, kind)?;
        if kind != Kind::Datagram {
            return self.connect_stream(id, other);
        }
        if self.get(other)?.peer.is_some_and(|peer| peer != id) {
            return Err(os(libc::EPERM));
        }
        self.set_peer(id, Some(other))
    }

    fn connect_stream(&mut self, id: UnixId, listener: UnixId) -> io::Result<()> {
        let own = self.get(id)?.state;
        let other = self.get(listener)?;
        if other.state != State::Listening || other.shut_read {
            return Err(os(libc::ECONNREFUSED));
        }
        if other.waiting.len() > other.backlog {
            return Err(os(libc::EAGAIN));
        }
        match own {
            State::Idle => {}
            State::Connected => return Err(os(libc::EISCONN)),
            State::Listening => return Err(os(libc::EINVAL)),
        }
        let Socket { host, kind, .. } = *other;
        let name = other.name.clone();
        let child = self.socket(host, kind);
        self.get_mut(child)?.name = name;
        self.join(child, id);
        self.join(id, child);
        self.get_mut(listener)?.waiting.push_back(child);
        self.touch(listener, Ready::READABLE);
        Ok(())
    }

    /// Sets the peer of a datagram socket. One that had another forgets what it was sent.
    fn set_peer(&mut self, id: UnixId, peer: Option<UnixId>) -> io::Result<()> {
        let socket = self.get_mut(id)?;
        let old = std::mem::replace(&mut socket.peer, peer);
        socket.state = match peer {
            Some(_) => State::Connected,
            None => State::Idle,
        };
        if let Some(old) = old.filter(|old| Some(*old) != peer) {
            let loses = self.get(id).is_ok_and(|socket| !socket.inbox.is_empty());
            self.empty(id);
            // A peer that was connected to it as well is told that messages are lost.
            if loses
                && let Some(other) = self.all.get_mut(&old)
                && other.peer == Some(id)
            {
                other.error = Some(libc::ECONNRESET);
                self.touch(old, Ready::ERROR);
            }
        }
        self.touch(id, Ready::NONE);
        Ok(())
    }

    /// Takes the oldest connection, and the name of its peer.
    pub(crate) fn accept(&mut self, id: UnixId) -> io::Result<(UnixId, Option<Name>)> {
        let socket = self.get_mut(id)?;
        if socket.is_datagram() {
            return Err(os(libc::EOPNOTSUPP));
        }
        if socket.state != State::Listening {
            return Err(os(libc::EINVAL));
        }
        let child = socket.waiting.pop_front();
        let child = child.ok_or_else(|| os(libc::EAGAIN))?;
        self.touch(id, Ready::NONE);
        Ok((child, self.peer_name(child).unwrap_or_default()))
    }

    pub(crate) fn name(&self, id: UnixId) -> io::Result<Option<Name>> {
        Ok(self.get(id)?.name.clone())
    }

    pub(crate) fn peer_name(&self, id: UnixId) -> io::Result<Option<Name>> {
        let socket = self.get(id)?;
        let peer = socket.peer.ok_or_else(|| os(libc::ENOTCONN))?;
        let alive = self.all.get(&peer).map(|peer| peer.name.clone());
        Ok(alive.unwrap_or_else(|| socket.peer_name.clone()))
    }

    pub(crate) fn kind(&self, id: UnixId) -> io::Result<Kind> {
        Ok(self.get(id)?.kind)
    }

    pub(crate) fn is_listening(&self, id: UnixId) -> io::Result<bool> {
        Ok(self.get(id)?.state == State::Listening)
    }

    pub(crate) fn has_credentials(&self, id: UnixId) -> io::Result<bool> {
        Ok(self.get(id)?.has_credentials)
    }

    pub(crate) fn take_error(&mut self, id: UnixId) -> io::Result<Option<i32>> {
        let error = self.get_mut(id)?.error.take();
        self.touch(id, Ready::NONE);
        Ok(error)
    }

    /// The sizes of the buffers: for sending, and for receiving.
    pub(crate) fn buffers(&self, id: UnixId) -> io::Result<(usize, usize)> {
        let socket = self.get(id)?;
        Ok((socket.send_buffer, socket.receive_buffer))
    }

    /// Bytes that it has sent and nobody has read, as they are charged.
    pub(crate) fn unread_by_others(&self, id: UnixId) -> io::Result<usize> {
        Ok(self.get(id)?.charged)
    }

    /// Sets the size of the buffer for sending.
    pub(crate) fn set_send_buffer(&mut self, id: UnixId, bytes: usize) -> io::Result<()> {
        self.get_mut(id)?.send_buffer = bytes;
        self.touch(id, Ready::NONE);
        Ok(())
    }

    /// Sets the size of the buffer for receiving, which has no effect.
    pub(crate) fn set_receive_buffer(&mut self, id: UnixId, bytes: usize) -> io::Result<()> {
        self.get_mut(id)?.receive_buffer = bytes;
        Ok(())
    }

    /// Closes one direction, or both. As in Linux it never fails.
    pub(crate) fn shutdown(&mut self, id: UnixId, how: Shutdown) -> io::Result<()> {
        let socket = self.get_mut(id)?;
        socket.shut(how);
        let peer = socket.peer.filter(|_| !socket.is_datagram());
        self.touch(id, Ready::NONE);
        if let Some(peer) = peer
            && let Some(other) = self.all.get_mut(&peer)
        {
            other.shut(match how {
                Shutdown::Read => Shutdown::Write,
                Shutdown::Write => Shutdown::Read,
                Shutdown::Both => Shutdown::Both,
            });
            self.touch(peer, Ready::NONE);
        }
        Ok(())
    }

    /// Closes a socket, and those in its backlog.
    pub(crate) fn close(&mut self, id: UnixId) {
        self.end(id, false);
    }

    /// The peer gets `ECONNRESET` if something was not read, or nobody has accepted this end.
    fn end(&mut self, id: UnixId, was_waiting: bool) {
        let resets = was_waiting || self.get(id).is_ok_and(|s| !s.inbox.is_empty());
        self.empty(id);
        let Some(socket) = self.all.remove(&id) else {
            return;
        };
        for child in socket.waiting {
            self.end(child, true);
        }
        if let Some(place) = socket.place {
            self.places.remove(&(socket.host, place));
        }
        let peers = self.all.iter_mut().filter(|(_, s)| s.peer == Some(id));
        let mut told = Vec::new();
        for (&peer, other) in peers {
            other.peer_name.clone_from(&socket.name);
            if !other.is_datagram() {
                other.shut(Shutdown::Both);
                if resets {
                    other.error = Some(libc::ECONNRESET);
                }
            }
            told.push(peer);
        }
        for peer in told {
            self.touch(peer, Ready::NONE);
        }
    }
}
