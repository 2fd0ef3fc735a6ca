//! The programs.

use std::net::Shutdown;

use socket2::{SockRef, Type};

use super::world::World;

pub(crate) fn pairs(w: &mut World) {
    for kind in [Type::STREAM, Type::DGRAM, Type::SEQPACKET] {
        let (a, b) = w.pair(kind);
        w.names(a);
        w.ready(a);
        w.read(b, 4);
        w.write(a, b"one");
        w.write(a, b"two");
        w.ready(b);
        w.unread(b);
        w.read(b, 4);
        w.unread(b);
        w.read(b, 4);
        w.read(b, 4);
        w.write(b, b"back");
        w.read(a, 9);
        w.close(b);
        w.ready(a);
        w.write(a, b"x");
        w.read(a, 1);
    }
}

pub(crate) fn names_of_sockets(w: &mut World) {
    let s = w.make(Type::STREAM);
    w.names(s);
    w.bind(s, "a");
    w.names(s);
    w.bind(s, "b");
    let s = w.make(Type::DGRAM);
    w.bind(s, "d");
    w.names(s);
}

pub(crate) fn connect_errors(w: &mut World) {
    let s = w.make(Type::STREAM);
    w.connect(s, "nothing");
    w.connect(s, "@nothing");
    let bound = w.make(Type::STREAM);
    w.bind(bound, "bound");
    w.connect(s, "bound");
    let datagrams = w.make(Type::DGRAM);
    w.bind(datagrams, "datagrams");
    w.connect(s, "datagrams");
    w.connect(datagrams, "bound");
    w.close(bound);
    w.connect(s, "bound");
    let listener = w.listener("l");
    w.connect(s, "l");
    w.connect(s, "l");
    w.connect(listener, "l");
    w.connect(s, "nothing");
}

pub(crate) fn bind_errors(w: &mut World) {
    let a = w.make(Type::STREAM);
    w.bind(a, "x");
    let b = w.make(Type::DGRAM);
    w.bind(b, "x");
    w.bind(a, "x");
    w.bind(a, "y");
    w.close(a);
    w.bind(b, "x");
    w.unlink("x");
    w.bind(b, "x");
    w.unlink("x");
    w.unlink("x");
}

pub(crate) fn listen_errors(w: &mut World) {
    let s = w.make(Type::STREAM);
    w.listen(s, 1);
    w.accept(s);
    let d = w.make(Type::DGRAM);
    w.listen(d, 1);
    w.accept(d);
    w.bind(s, "l");
    w.accept(s);
    w.listen(s, 1);
    w.listen(s, 2);
    w.accept(s);
    let (a, _b) = w.pair(Type::STREAM);
    w.listen(a, 1);
    w.accept(a);
}

pub(crate) fn accept_and_names(w: &mut World) {
    let listener = w.listener("l");
    let named = w.make(Type::STREAM);
    w.bind(named, "client");
    w.connect(named, "l");
    let unnamed = w.make(Type::STREAM);
    w.connect(unnamed, "l");
    w.ready(listener);
    let first = w.accept(listener).unwrap();
    let second = w.accept(listener).unwrap();
    w.ready(listener);
    for s in [named, unnamed, first, second] {
        w.names(s);
    }
    w.write(named, b"x");
    w.read(first, 1);
    w.write(first, b"y");
    w.read(named, 1);
    w.close(named);
    w.names(first);
    w.close(listener);
    w.names(unnamed);
}

pub(crate) fn backlog(w: &mut World) {
    let listener = w.make(Type::STREAM);
    w.bind(listener, "l");
    w.listen(listener, 1);
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = w.make(Type::STREAM);
        w.connect(client, "l");
        w.ready(client);
        clients.push(client);
    }
    // What waits to be accepted takes data already.
    w.write(clients[0], b"early");
    let server = w.accept(listener).unwrap();
    w.read(server, 9);
    w.connect(clients[2], "l");
}

pub(crate) fn half_close(w: &mut World) {
    for how in [Shutdown::Write, Shutdown::Read, Shutdown::Both] {
        let (a, b) = w.pair(Type::STREAM);
        w.write(a, b"last");
        w.write(b, b"other");
        w.shutdown(a, how);
        for s in [a, b] {
            w.ready(s);
            w.write(s, b"x");
            w.read(s, 9);
            w.read(s, 9);
            w.error(s);
        }
        w.shutdown(a, how);
        w.shutdown(b, how);
        w.ready(a);
    }
}

pub(crate) fn close_ends_the_peer(w: &mut World) {
    let (client, server, _listener) = w.connection("l");
    w.write(server, b"last");
    w.close(server);
    w.ready(client);
    w.write(client, b"x");
    w.read(client, 2);
    w.read(client, 9);
    w.read(client, 9);
    w.error(client);
    w.names(client);
    w.shutdown(client, Shutdown::Write);
    w.connect(client, "l");
}

pub(crate) fn unread_data_resets(w: &mut World) {
    for first in [0, 1, 2] {
        let (a, b) = w.pair(Type::STREAM);
        w.write(a, b"unread");
        w.write(b, b"rest");
        w.close(b);
        w.ready(a);
        match first {
            0 => w.error(a),
            1 => w.write(a, b"x"),
            _ => {}
        }
        w.read(a, 9);
        w.read(a, 9);
        w.read(a, 9);
        w.ready(a);
        w.write(a, b"x");
    }
}

pub(crate) fn listener_closes_its_backlog(w: &mut World) {
    let listener = w.listener("l");
    let client = w.make(Type::STREAM);
    w.connect(client, "l");
    w.write(client, b"x");
    w.close(listener);
    w.ready(client);
    w.read(client, 1);
    w.read(client, 1);
    w.write(client, b"x");
    w.connect(client, "l");
}

pub(crate) fn unconnected_streams(w: &mut World) {
    let s = w.make(Type::STREAM);
    w.ready(s);
    w.read(s, 1);
    w.write(s, b"x");
    w.send_to(s, b"x", "nothing");
    w.shutdown(s, Shutdown::Write);
    w.ready(s);
    w.write(s, b"x");
    let listener = w.listener("l");
    w.connect(s, "l");
    w.ready(s);
    w.send_to(s, b"x", "l");
    w.read(listener, 1);
    w.write(listener, b"x");
    w.names(listener);
    w.ready(listener);
}

pub(crate) fn datagrams(w: &mut World) {
    let (a, b) = (w.make(Type::DGRAM), w.make(Type::DGRAM));
    w.bind(a, "a");
    w.ready(a);
    w.send_to(b, b"unnamed", "a");
    w.bind(b, "b");
    w.send_to(b, b"named", "a");
    w.send_to(a, b"itself", "a");
    w.ready(a);
    w.unread(a);
    w.read(a, 9);
    w.read(a, 3);
    w.read(a, 9);
    w.read(a, 9);
    w.names(a);
}

pub(crate) fn datagram_errors(w: &mut World) {
    let s = w.make(Type::DGRAM);
    w.write(s, b"x");
    w.send_to(s, b"x", "nothing");
    w.send_to(s, b"x", "@nothing");
    let listener = w.listener("l");
    w.send_to(s, b"x", "l");
    let other = w.make(Type::DGRAM);
    w.bind(other, "other");
    w.send_to(s, &[0; 1 << 20], "other");
    w.shutdown(other, Shutdown::Read);
    w.send_to(s, b"x", "other");
    w.ready(other);
    w.read(other, 1);
    w.shutdown(s, Shutdown::Write);
    w.send_to(s, b"x", "other");
    w.close(other);
    w.send_to(s, b"x", "other");
    w.close(listener);
}

pub(crate) fn connected_datagrams(w: &mut World) {
    let (a, b, c) = (
        w.make(Type::DGRAM),
        w.make(Type::DGRAM),
        w.make(Type::DGRAM),
    );
    w.bind(a, "a");
    w.bind(b, "b");
    w.connect(a, "b");
    w.names(a);
    w.write(a, b"one");
    w.read(b, 9);
    // The one that is connected hears of its peer alone.
    w.send_to(c, b"x", "a");
    w.connect(c, "a");
    w.send_to(b, b"two", "a");
    w.read(a, 9);
    w.send_to(a, b"three", "b");
    w.read(b, 9);
    w.names(b);
}

pub(crate) fn datagrams_of_a_closed_peer(w: &mut World) {
    let (a, b) = (w.make(Type::DGRAM), w.make(Type::DGRAM));
    w.bind(b, "b");
    w.connect(a, "b");
    w.write(a, b"x");
    w.close(b);
    w.ready(a);
    w.write(a, b"x");
    w.write(a, b"x");
    w.names(a);
    w.connect(a, "b");
    w.read(a, 1);
}

pub(crate) fn reconnected_datagrams(w: &mut World) {
    let (a, b, c) = (
        w.make(Type::DGRAM),
        w.make(Type::DGRAM),
        w.make(Type::DGRAM),
    );
    for (s, name) in [(a, "a"), (b, "b"), (c, "c")] {
        w.bind(s, name);
    }
    w.connect(a, "b");
    w.connect(b, "a");
    w.write(b, b"lost");
    w.connect(a, "c");
    w.ready(a);
    w.ready(b);
    w.read(a, 9);
    w.read(b, 9);
    w.write(b, b"x");
    w.error(b);
}

pub(crate) fn full_inbox(w: &mut World) {
    let (a, b) = (w.make(Type::DGRAM), w.make(Type::DGRAM));
    w.bind(b, "b");
    w.connect(a, "b");
    for _ in 0..12 {
        w.write(a, b"x");
    }
    w.ready(a);
    w.read(b, 1);
    w.ready(a);
    w.write(a, b"x");
}

pub(crate) fn back_pressure(w: &mut World) {
    let (a, b) = w.pair(Type::STREAM);
    let mut sent = 0;
    while let Ok(len) = w.get(a).send(&[7; 10_000]) {
        sent += len;
    }
    w.say("some", Ok(sent > 50_000));
    w.ready(a);
    w.write(a, b"x");
    let mut got = 0;
    let mut buffer = vec![0; 1 << 20];
    while let Ok(len) = std::io::Read::read(&mut w.get(b), &mut buffer) {
        got += len;
    }
    w.say("all", Ok(sent == got));
    w.ready(a);
    w.write(a, b"x");
}

pub(crate) fn packets(w: &mut World) {
    let listener = w.make(Type::SEQPACKET);
    w.bind(listener, "l");
    w.listen(listener, 1);
    let s = w.make(Type::STREAM);
    w.connect(s, "l");
    let client = w.make(Type::SEQPACKET);
    w.ready(client);
    w.read(client, 1);
    w.write(client, b"x");
    w.connect(client, "l");
    let server = w.accept(listener).unwrap();
    w.write(client, b"whole");
    w.write(client, b"next");
    w.read(server, 3);
    w.read(server, 9);
    w.shutdown(client, Shutdown::Write);
    w.ready(server);
    w.read(server, 9);
    w.write(server, b"unread");
    w.write(client, b"x");
    w.close(client);
    w.ready(server);
    w.read(server, 9);
    w.write(server, b"x");
}

pub(crate) fn abstract_names(w: &mut World) {
    let (client, server, listener) = w.connection("@name");
    w.names(client);
    w.names(server);
    let other = w.make(Type::STREAM);
    w.bind(other, "@name");
    w.close(listener);
    w.connect(other, "@name");
    w.bind(other, "@name");
    w.names(other);
}

pub(crate) fn made_up_names(w: &mut World) {
    let s = w.make(Type::DGRAM);
    for _ in 0..2 {
        w.bind_to_family_alone(s, 2);
        w.names(s);
    }
    w.bind_to_family_alone(s, 1);
    w.bind(s, "x");
}

pub(crate) fn options(w: &mut World) {
    let (client, server, listener) = w.connection("l");
    let loose = w.make(Type::DGRAM);
    for s in [client, server, listener, loose] {
        for name in [
            libc::SO_TYPE,
            libc::SO_DOMAIN,
            libc::SO_PROTOCOL,
            libc::SO_ACCEPTCONN,
            libc::SO_ERROR,
            libc::SO_REUSEADDR,
            libc::SO_RCVLOWAT,
            libc::SO_PASSCRED,
            libc::SO_PEERCRED,
            libc::SO_SNDBUF,
            libc::SO_RCVBUF,
        ] {
            let value = w.option(s, name);
            if name == libc::SO_PEERCRED {
                // A host is a process of its own.
                let own = std::process::id() as i32;
                w.say("own process", value.map(|pid| pid == own));
                continue;
            }
            w.say(&format!("option {name}"), value);
        }
        let size = SockRef::from(w.get(s)).set_send_buffer_size(10_000);
        w.say("size", size);
        let size = w.get(s).send_buffer_size();
        w.say("size", size);
        let delay = SockRef::from(w.get(s)).set_tcp_nodelay(true);
        w.say("nodelay", delay);
    }
}

pub(crate) fn peeks_and_truncation(w: &mut World) {
    for kind in [Type::STREAM, Type::DGRAM, Type::SEQPACKET] {
        let (a, b) = w.pair(kind);
        w.write(a, b"first");
        w.write(a, b"second");
        w.read_with(b, 3, libc::MSG_PEEK);
        w.read_with(b, 9, libc::MSG_PEEK);
        if kind != Type::STREAM {
            w.read_with(b, 9, libc::MSG_PEEK | libc::MSG_TRUNC);
        }
        w.read(b, 3);
        w.read(b, 9);
    }
}

pub(crate) fn paths_stay(w: &mut World) {
    let listener = w.listener("l");
    w.close(listener);
    let s = w.make(Type::STREAM);
    w.connect(s, "l");
    w.bind(s, "l");
    w.unlink("l");
    w.connect(s, "l");
    w.bind(s, "l");
    // A new name does not end the old one's connections.
    let (client, server, _) = w.connection("m");
    w.unlink("m");
    w.write(client, b"x");
    w.read(server, 1);
}

pub(crate) fn paths_are_files(w: &mut World) {
    let listener = w.listener("l");
    w.kind_of_file("l");
    w.folder();
    w.rename("l", "m");
    let s = w.make(Type::STREAM);
    w.connect(s, "l");
    w.connect(s, "./m");
    w.accept(listener);
    w.open("m");
    w.bind(s, "m");
    w.close(listener);
    w.kind_of_file("m");
    w.unlink("./m");
    w.kind_of_file("m");
    let again = w.make(Type::STREAM);
    w.bind(again, "m");
}

pub(crate) fn paths_have_folders(w: &mut World) {
    let s = w.make(Type::DGRAM);
    w.bind(s, "no/where");
    w.bind(s, "x/");
    w.bind(s, ".");
    w.connect(s, "no/where");
    w.connect(s, ".");
    w.folder();
    w.bind(s, "x");
    w.bind(s, "x/y");
    w.connect(s, "x/y");
    w.bind(s, "z");
    w.folder();
}

pub(crate) fn shutdown_of_listener(w: &mut World) {
    let listener = w.listener("l");
    let waits = w.make(Type::STREAM);
    w.connect(waits, "l");
    w.shutdown(listener, Shutdown::Read);
    w.ready(listener);
    let late = w.make(Type::STREAM);
    w.connect(late, "l");
    w.accept(listener);
    w.accept(listener);
    w.ready(listener);
}

pub(crate) fn readiness(w: &mut World) {
    for kind in [Type::STREAM, Type::DGRAM, Type::SEQPACKET] {
        let s = w.make(kind);
        w.ready(s);
        w.shutdown(s, Shutdown::Read);
        w.ready(s);
        w.shutdown(s, Shutdown::Write);
        w.ready(s);
    }
}

pub(crate) fn empty_messages(w: &mut World) {
    for kind in [Type::STREAM, Type::DGRAM, Type::SEQPACKET] {
        let (a, b) = w.pair(kind);
        w.write(a, b"");
        w.ready(b);
        w.read(b, 9);
        w.read(b, 9);
        w.write(a, b"x");
        w.read(b, 0);
        w.read(b, 1);
        w.read(b, 0);
    }
}
