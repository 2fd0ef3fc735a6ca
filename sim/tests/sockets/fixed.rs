//! Programs that differed once. The random ones have found them.
//!
//! Sockets are numbered from 0 in the order in which they are made. A `Connection` makes a
//! listener, a client and the accepted end; `Datagrams` make a sender and a receiver.

use std::net::Shutdown::{Both, Read, Write};

use libc::{MSG_MORE, MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC, SOL_SOCKET};

use super::calls::{
    Addr::*,
    Call::{self, *},
    Kind::*,
};

/// `connect` to `AF_UNSPEC` in each state.
pub(crate) fn disconnects() -> Vec<Call> {
    vec![
        Connection(Tcp4),
        Connect(1, Unspecified),
        Names(1),
        Receive(1, 9, 0),
        Receive(2, 9, 0),
        Connect(1, Of(0)),
        Connect(0, Unspecified),
        Names(0),
        Listen(0),
        Close(1),
        Datagrams(Udp4),
        Connect(2, Unspecified),
        Names(2),
        Send(2, 3, MSG_NOSIGNAL),
        Pair(Datagram),
        Connect(4, Unspecified),
        Send(5, 3, MSG_NOSIGNAL),
        Pair(Stream),
        Connect(6, Unspecified),
    ]
}

/// A disconnected end with unread datagrams tells its peer that they are lost.
pub(crate) fn datagrams_of_a_disconnected_end() -> Vec<Call> {
    vec![
        Pair(Datagram),
        Send(1, 3, MSG_NOSIGNAL),
        Connect(0, Unspecified),
        Send(1, 3, MSG_NOSIGNAL),
        Pair(Datagram),
        Send(3, 3, MSG_NOSIGNAL),
        Close(3),
        Send(2, 3, MSG_NOSIGNAL),
        Receive(2, 9, 0),
    ]
}

/// Addresses of another family than the socket's, or of none.
pub(crate) fn families() -> Vec<Call> {
    let mut calls = Vec::new();
    for kind in [Tcp4, Tcp6, Udp4, Udp6, Stream, Datagram, Packets] {
        for addr in [
            V4(0),
            Mapped(0),
            Wild4,
            Wild6,
            Unspecified,
            Unnamed,
            Abstract(0),
        ] {
            calls.push(Socket(kind));
            calls.push(SendTo(0, 3, addr));
            calls.push(Bind(0, addr));
            calls.push(Names(0));
            calls.push(Close(0));
            calls.push(Socket(kind));
            calls.push(Connect(0, addr));
            calls.push(Names(0));
            calls.push(Close(0));
        }
    }
    calls
}

pub(crate) fn options_that_are_kept() -> Vec<Call> {
    let mut calls = Vec::new();
    for kind in [Tcp4, Tcp6, Udp4, Udp6, Stream] {
        calls.push(Socket(kind));
        for &option in super::calls::SETTABLE {
            for value in [-1, 0, 1, 7, 255, 256] {
                calls.push(Set(0, option, value));
                calls.push(Get(0, option));
            }
        }
        calls.push(ResetOnClose(0));
        calls.push(Get(0, (SOL_SOCKET, libc::SO_LINGER)));
        calls.push(Close(0));
    }
    calls.push(Socket(Tcp4));
    calls.push(Set(0, (SOL_SOCKET, libc::SO_BROADCAST), 1));
    calls.push(Bind(0, V4(0)));
    calls.push(Listen(0));
    calls.push(Socket(Tcp4));
    calls.push(Connect(1, V4(0)));
    calls.push(Accept(0));
    calls.push(Get(2, (SOL_SOCKET, libc::SO_BROADCAST)));
    calls
}

/// Both ends of a connection are one socket.
pub(crate) fn connected_to_itself() -> Vec<Call> {
    vec![
        Socket(Tcp4),
        Bind(0, V4(0)),
        Connect(0, V4(0)),
        Names(0),
        Send(0, 9, MSG_NOSIGNAL),
        Receive(0, 4, MSG_PEEK),
        Receive(0, 9, 0),
        Shutdown(0, Write),
        Receive(0, 9, 0),
        Close(0),
        Socket(Tcp4),
        Shutdown(0, Write),
        Bind(0, V4(1)),
        Connect(0, V4(1)),
    ]
}

/// What is left of the address when a connection is over.
pub(crate) fn ports_after_the_end() -> Vec<Call> {
    vec![
        Connection(Tcp4),
        Close(1),
        Send(1, 3, MSG_NOSIGNAL),
        Bind(1, V4(0)),
        Names(1),
        Shutdown(0, Read),
        Names(0),
        Bind(0, Of(0)),
        Socket(Tcp4),
        Connect(2, V4(3)),
        Connect(2, V4(3)),
        Names(2),
        Bind(2, V4(0)),
        Names(2),
        Connect(2, V4(3)),
        Get(2, (SOL_SOCKET, libc::SO_ERROR)),
    ]
}

/// What a listener says of an error from before.
pub(crate) fn listener_after_an_error() -> Vec<Call> {
    vec![
        Connection(Tcp4),
        Connect(2, Unspecified),
        Listen(2),
        Connect(1, Of(2)),
        Get(2, (SOL_SOCKET, libc::SO_ERROR)),
        Connection(Tcp4),
        Connect(5, Unspecified),
        Connect(5, Of(3)),
    ]
}

/// A socket of IPv6 that has an address of its own, or a peer of IPv4.
pub(crate) fn both_families_of_udp() -> Vec<Call> {
    vec![
        Datagrams(Udp6),
        SendTo(0, 3, V4(0)),
        Connect(0, V4(0)),
        Socket(Udp6),
        Connect(2, V4(0)),
        Connect(2, AnyPort6),
        Connect(2, Wild6),
        Send(2, 3, MSG_NOSIGNAL),
        Names(2),
        Socket(Udp6),
        Connect(3, Wild6),
        SendTo(3, 0, V4(0)),
        Connect(3, V4(0)),
        Connect(3, AnyPort6),
        Socket(Udp6),
        Bind(4, Mapped(1)),
        SendTo(4, 3, Of(0)),
        Connect(4, Wild6),
        Names(4),
    ]
}

/// `0.0.0.0` is the socket's own address, if it has one.
pub(crate) fn nowhere_is_here() -> Vec<Call> {
    vec![
        Socket(Udp4),
        Bind(0, V4(0)),
        Connect(0, Wild4),
        Names(0),
        Send(0, 3, MSG_NOSIGNAL),
        Socket(Udp4),
        Connect(1, Wild4),
        Names(1),
        Send(1, 3, MSG_NOSIGNAL),
        Socket(Udp4),
        Connect(2, AnyPort6),
        Names(2),
        SendTo(2, 3, Of(2)),
    ]
}

/// Each kind of Unix socket has abstract names of its own.
pub(crate) fn abstract_names_of_each_kind() -> Vec<Call> {
    vec![
        Socket(Stream),
        Bind(0, Abstract(0)),
        Socket(Datagram),
        Bind(1, Abstract(0)),
        Socket(Packets),
        Connect(2, Abstract(0)),
        Socket(Datagram),
        Connect(3, Abstract(0)),
        Send(3, 3, MSG_NOSIGNAL),
        Listen(0),
        Unread(0),
        Connect(2, Abstract(0)),
    ]
}

/// Calls with nothing to do.
pub(crate) fn nothing_to_do() -> Vec<Call> {
    vec![
        Socket(Tcp4),
        SendParts(0, 0),
        ReceiveParts(0, 0, 0),
        Pair(Datagram),
        SendParts(1, 0),
        Shutdown(2, Both),
        SendTo(2, 0, Unnamed),
        Send(2, 0, MSG_NOSIGNAL),
    ]
}

/// The length of a datagram that is longer than its buffer.
pub(crate) fn lengths_of_datagrams() -> Vec<Call> {
    let mut calls = vec![Datagrams(Udp4), Pair(Datagram), Pair(Packets)];
    for (from, to) in [(0, 1), (2, 3), (4, 5)] {
        calls.push(Send(from, 30, MSG_NOSIGNAL));
        calls.push(Receive(to, 9, MSG_PEEK | MSG_TRUNC));
        calls.push(Receive(to, 0, MSG_PEEK));
        calls.push(ReceiveParts(to, 3, MSG_PEEK));
        calls.push(Unread(to));
        calls.push(Receive(to, 9, MSG_TRUNC));
        calls.push(Receive(to, 9, MSG_TRUNC));
    }
    calls
}

/// What was shut down before the socket listened or was connected.
pub(crate) fn shut_down_too_early() -> Vec<Call> {
    let mut calls = Vec::new();
    for how in [Read, Write, Both] {
        calls.extend([
            Socket(Tcp4),
            Shutdown(0, how),
            Bind(0, AnyPort4),
            Listen(0),
            Socket(Tcp4),
            Connect(1, Of(0)),
            Accept(0),
            Send(1, 3, MSG_NOSIGNAL),
            Send(2, 3, MSG_NOSIGNAL),
            Receive(2, 9, 0),
            Receive(1, 9, 0),
            Close(0),
            Close(0),
            Close(0),
        ]);
    }
    calls
}

/// A datagram that is sent in parts.
pub(crate) fn datagrams_in_parts() -> Vec<Call> {
    let mut calls = Vec::new();
    for kind in [Udp4, Udp6] {
        calls.extend([
            Datagrams(kind),
            Send(0, 3, MSG_NOSIGNAL | MSG_MORE),
            Unread(1),
            Send(0, 0, MSG_NOSIGNAL | MSG_MORE),
            SendTo(0, 4, V4(0)),
            Receive(1, 20, 0),
            Send(0, 3, MSG_NOSIGNAL | MSG_MORE),
            Shutdown(0, Write),
            Send(0, 3, MSG_NOSIGNAL),
            Receive(1, 20, 0),
            Send(0, 3, MSG_NOSIGNAL),
            Close(0),
            Close(0),
        ]);
    }
    calls
}

/// `SO_REUSEPORT`, without what comes: which socket gets that is the kernel's matter.
pub(crate) fn ports_that_are_shared() -> Vec<Call> {
    let option = (SOL_SOCKET, libc::SO_REUSEPORT);
    let mut calls = Vec::new();
    for kind in [Tcp4, Udp4] {
        calls.extend([
            Socket(kind),
            Set(0, option, 1),
            Get(0, option),
            Bind(0, V4(0)),
            Listen(0),
            Socket(kind),
            Bind(1, V4(0)),
            Set(1, option, 1),
            Bind(1, V4(0)),
            Listen(1),
            Socket(kind),
            Bind(2, V4(0)),
            Close(0),
            Close(0),
            Bind(0, V4(0)),
            Close(0),
        ]);
    }
    calls
}
