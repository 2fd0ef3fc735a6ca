//! What is sent and received.

use std::io;

use super::{
    FileKey, Kind, Message, Name, OVERHEAD, Place, QUEUE, Socket, Sockets, State, UnixId, os,
};
use crate::network::Ready;

/// What a receive has given.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    /// The whole length of a message, which may be more.
    pub(crate) whole: usize,
    /// The name of the sender.
    pub(crate) from: Option<Name>,
    /// Files whose descriptors came with it.
    pub(crate) rights: Vec<FileKey>,
}

impl Sockets {
    /// Sends bytes of a stream, as many as fit, or one message. `to`: what its address leads to.
    /// An error there is told after those of the socket itself.
    pub(crate) fn send(
        &mut self,
        id: UnixId,
        bytes: &[u8],
        to: Option<io::Result<Place>>,
        rights: &[FileKey],
    ) -> io::Result<usize> {
        match self.get(id)?.kind {
            Kind::Stream => self.send_stream(id, bytes, to.is_some(), rights),
            Kind::Packets => self.send_packet(id, bytes, rights),
            Kind::Datagram => self.send_datagram(id, bytes, to, rights),
        }
    }

    fn send_stream(
        &mut self,
        id: UnixId,
        bytes: &[u8],
        has_name: bool,
        mut rights: &[FileKey],
    ) -> io::Result<usize> {
        let socket = self.get(id)?;
        if has_name {
            return Err(os(match socket.state {
                State::Connected => libc::EISCONN,
                _ => libc::EOPNOTSUPP,
            }));
        }
        let peer = socket.peer.ok_or_else(|| os(libc::ENOTCONN))?;
        if socket.shut_write {
            return Err(os(libc::EPIPE));
        }
        // As in Linux, one message takes half of the buffer at most.
        let most = (socket.send_buffer / 2).saturating_sub(64).max(1);
        let mut sent = 0;
        for part in bytes.chunks(most) {
            let deaf = self.get(peer).is_ok_and(|other| other.shut_read);
            let room = match self.has_room(id) {
                Ok(()) if deaf => Err(os(libc::EPIPE)),
                room => room,
            };
            if let Err(error) = room {
                return if sent == 0 { Err(error) } else { Ok(sent) };
            }
            self.deliver(id, peer, part, std::mem::take(&mut rights));
            sent += part.len();
        }
        Ok(sent)
    }

    fn send_packet(&mut self, id: UnixId, bytes: &[u8], rights: &[FileKey]) -> io::Result<usize> {
        let socket = self.get(id)?;
        if socket.state != State::Connected {
            return Err(os(libc::ENOTCONN));
        }
        let peer = socket.peer.ok_or_else(|| os(libc::ENOTCONN))?;
        self.fits(id, bytes)?;
        self.has_room(id)?;
        let other = self.all.get(&peer);
        if other.is_none_or(|other| other.shut_read) {
            return Err(os(libc::EPIPE));
        }
        self.deliver(id, peer, bytes, rights);
        Ok(bytes.len())
    }

    fn send_datagram(
        &mut self,
        id: UnixId,
        bytes: &[u8],
        to: Option<io::Result<Place>>,
        rights: &[FileKey],
    ) -> io::Result<usize> {
        let Socket {
            host, kind, peer, ..
        } = *self.get(id)?;
        self.fits(id, bytes)?;
        self.has_room(id)?;
        let receiver = match (to, peer) {
            (Some(place), _) => self.find(host, place?, kind)?,
            (None, peer) => peer.ok_or_else(|| os(libc::ENOTCONN))?,
        };
        let Some(other) = self.all.get(&receiver) else {
            // The peer is closed. From now on there is none, and what it has sent is lost.
            let socket = self.get_mut(id)?;
            (socket.peer, socket.state) = (None, State::Idle);
            self.empty(id);
            self.touch(id, Ready::NONE);
            return Err(os(libc::ECONNREFUSED));
        };
        if other.peer.is_some_and(|peer| peer != id) {
            return Err(os(libc::EPERM));
        }
        if other.shut_read {
            return Err(os(libc::EPIPE));
        }
        if receiver != id && self.is_full_for(id, receiver) {
            // Others may have filled the inbox. That it has room again is news then.
            self.touch(id, Ready::NONE);
            return Err(os(libc::EAGAIN));
        }
        self.deliver(id, receiver, bytes, rights);
        Ok(bytes.len())
    }

    fn fits(&self, id: UnixId, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > self.get(id)?.send_buffer.saturating_sub(32) {
            Err(os(libc::EMSGSIZE))
        } else {
            Ok(())
        }
    }

    /// As `sock_alloc_send_pskb`: the pending error comes first.
    fn has_room(&mut self, id: UnixId) -> io::Result<()> {
        let socket = self.get_mut(id)?;
        if let Some(error) = socket.error.take() {
            self.touch(id, Ready::NONE);
            return Err(os(error));
        }
        if socket.shut_write {
            return Err(os(libc::EPIPE));
        }
        if socket.charged >= socket.send_buffer {
            return Err(os(libc::EAGAIN));
        }
        Ok(())
    }

    fn deliver(&mut self, sender: UnixId, receiver: UnixId, bytes: &[u8], rights: &[FileKey]) {
        let charge = bytes.len() + OVERHEAD;
        let Some(socket) = self.all.get_mut(&sender) else {
            return;
        };
        socket.charged += charge;
        let message = Message {
            sender,
            name: socket.name.clone(),
            bytes: bytes.to_vec(),
            rights: rights.to_vec(),
            read: 0,
            charge,
        };
        if let Some(other) = self.all.get_mut(&receiver) {
            other.inbox.push_back(message);
        }
        self.touch(sender, Ready::NONE);
        self.touch(receiver, Ready::READABLE);
    }

    /// Receives bytes of a stream, or a message.
    pub(crate) fn receive(&mut self, id: UnixId, most: usize, peek: bool) -> io::Result<Received> {
        let socket = self.get_mut(id)?;
        let kind = socket.kind;
        if kind != Kind::Datagram && socket.state != State::Connected {
            return Err(os(match kind {
                Kind::Stream => libc::EINVAL,
                _ => libc::ENOTCONN,
            }));
        }
        // A stream gives its data before its error.
        let error = match (kind, socket.inbox.is_empty()) {
            (Kind::Stream, false) => None,
            _ => socket.error.take(),
        };
        let is_ended = socket.shut_read && kind != Kind::Datagram;
        let is_empty = socket.inbox.is_empty();
        self.touch(id, Ready::NONE);
        match (error, is_empty) {
            (Some(error), _) => Err(os(error)),
            (None, true) if is_ended => Ok(Received::default()),
            (None, true) => Err(os(libc::EAGAIN)),
            (None, false) if kind == Kind::Stream => self.receive_stream(id, most, peek),
            (None, false) => self.receive_message(id, most, peek),
        }
    }

    fn receive_stream(&mut self, id: UnixId, most: usize, peek: bool) -> io::Result<Received> {
        let socket = self.get_mut(id)?;
        let from = socket.inbox.front().and_then(|first| first.name.clone());
        let mut bytes = Vec::new();
        let mut rights = Vec::new();
        let mut done = 0;
        for message in &mut socket.inbox {
            let rest = &message.bytes[message.read..];
            let taken = rest.len().min(most - bytes.len());
            bytes.extend_from_slice(&rest[..taken]);
            if !peek {
                message.read += taken;
                done += usize::from(message.read == message.bytes.len());
                rights = std::mem::take(&mut message.rights);
            } else {
                rights.clone_from(&message.rights);
            }
            // Descriptors belong to the bytes that came with them.
            if bytes.len() == most || !rights.is_empty() {
                break;
            }
        }
        let read: Vec<_> = socket.inbox.drain(..done).collect();
        self.uncharge(read);
        self.touch(id, Ready::NONE);
        let whole = bytes.len();
        Ok(Received {
            bytes,
            whole,
            from,
            rights,
        })
    }

    fn receive_message(&mut self, id: UnixId, most: usize, peek: bool) -> io::Result<Received> {
        let socket = self.get_mut(id)?;
        let first = socket.inbox.front_mut().ok_or_else(|| os(libc::EAGAIN))?;
        let rights = match peek {
            true => first.rights.clone(),
            false => std::mem::take(&mut first.rights),
        };
        let received = Received {
            rights,
            bytes: first.bytes[..most.min(first.bytes.len())].to_vec(),
            whole: first.bytes.len(),
            from: first.name.clone(),
        };
        if !peek {
            let was_full = socket.inbox.len() > QUEUE;
            let read = socket.inbox.pop_front();
            self.uncharge(read);
            self.touch(id, Ready::NONE);
            if was_full {
                self.tell_senders(id);
            }
        }
        Ok(received)
    }

    /// The inbox has room again for those that are connected to it.
    fn tell_senders(&mut self, id: UnixId) {
        let senders = self.all.iter().filter(|(_, s)| s.peer == Some(id));
        let senders: Vec<_> = senders.map(|(sender, _)| *sender).collect();
        for sender in senders {
            self.touch(sender, Ready::NONE);
        }
    }

    fn uncharge(&mut self, messages: impl IntoIterator<Item = Message>) {
        for message in messages {
            self.lost.extend(message.rights);
            if let Some(sender) = self.all.get_mut(&message.sender) {
                sender.charged -= message.charge;
                self.touch(message.sender, Ready::NONE);
            }
        }
    }

    /// Drops all that a socket was sent.
    pub(super) fn empty(&mut self, id: UnixId) {
        if let Some(socket) = self.all.get_mut(&id) {
            let all = std::mem::take(&mut socket.inbox);
            self.uncharge(all);
        }
    }

    /// Bytes that wait: the first message of datagrams, all otherwise.
    pub(crate) fn unread(&self, id: UnixId) -> io::Result<usize> {
        let socket = self.get(id)?;
        if socket.state == State::Listening {
            return Err(os(libc::EINVAL));
        }
        let len = |message: &Message| message.bytes.len() - message.read;
        Ok(match socket.kind {
            Kind::Datagram => socket.inbox.front().map_or(0, len),
            _ => socket.inbox.iter().map(len).sum(),
        })
    }
}
