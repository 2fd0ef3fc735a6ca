//! How streams end: half-close, resets, and data under back-pressure.

use std::net::Shutdown;

use ws_sim::network::Ready;

use super::world::{Sock, Trace, World, client, connection, listener};

const R: Ready = Ready::READABLE;
const W: Ready = Ready::WRITABLE;
const ERROR: Ready = Ready::ERROR;
const CLOSED: Ready = Ready::WRITE_CLOSED;

/// What a program finds at a socket, one call after the other.
fn probe(w: &mut dyn World, t: &mut Trace, s: Sock) {
    t.say("read", w.read(s, 100));
    t.say("read", w.read(s, 100));
    t.say("write", w.write(s, b"x"));
    t.say(
        "error",
        w.take_error(s).map(|e| e.map(|e| e.raw_os_error())),
    );
    t.addr("peer", w.peer(s));
}

pub(crate) fn connect_then_close_before_accept(w: &mut dyn World, t: &mut Trace) {
    let (l, to) = listener(w);
    let c = client(w, to);
    w.write(c, b"hello").unwrap();
    w.close(c);
    w.poll(l, R);
    let (s, _) = w.accept(l).unwrap();
    t.ready("accepted", w.poll(s, Ready::READ_CLOSED));
    t.say("read", w.read(s, 100));
    t.say("read", w.read(s, 100));
    t.addr("peer", w.peer(s));
    t.say("write", w.write(s, b"x"));
}

pub(crate) fn reset_before_accept(w: &mut dyn World, t: &mut Trace) {
    let (l, to) = listener(w);
    let c = client(w, to);
    w.poll(l, R);
    w.set_reset_on_close(c).unwrap();
    w.close(c);
    let (s, _) = w.accept(l).unwrap();
    t.ready("accepted", w.poll(s, ERROR));
    probe(w, t, s);
}

pub(crate) fn half_close_of_client(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    w.write(c, b"question").unwrap();
    t.say("shutdown", w.shutdown(c, Shutdown::Write));
    t.ready("server", w.poll(s, Ready::READ_CLOSED));
    t.say("read", w.read(s, 100));
    t.say("end", w.read(s, 100));
    t.say("answer", w.write(s, b"answer"));
    t.ready("client", w.poll(c, R));
    t.say("read", w.read(c, 100));
    t.say("not yet", w.read(c, 100));
    t.say("write", w.write(c, b"x"));
    w.close(s);
    t.ready("client", w.poll(c, CLOSED));
    t.say("end", w.read(c, 100));
    t.addr("peer", w.peer(c));
}

pub(crate) fn half_close_of_server(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    w.write(s, b"greeting").unwrap();
    t.say("shutdown", w.shutdown(s, Shutdown::Write));
    t.ready("client", w.poll(c, Ready::READ_CLOSED));
    t.say("read", w.read(c, 4));
    t.say("rest", w.read(c, 100));
    t.say("end", w.read(c, 100));
    t.say("end again", w.read(c, 100));
    t.say("write", w.write(c, b"more"));
    t.ready("server", w.poll(s, R));
    t.say("read", w.read(s, 100));
    t.say("not yet", w.read(s, 100));
    t.say("write", w.write(s, b"x"));
}

pub(crate) fn both_halves_closed(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    t.say("client", w.shutdown(c, Shutdown::Write));
    w.poll(s, Ready::READ_CLOSED);
    t.say("server", w.shutdown(s, Shutdown::Write));
    t.ready("client", w.poll(c, CLOSED));
    t.ready("server", w.poll(s, CLOSED));
    w.settle();
    for socket in [c, s] {
        t.addr("peer", w.peer(socket));
        t.addr("local", w.local(socket));
        t.say("shutdown", w.shutdown(socket, Shutdown::Both));
        probe(w, t, socket);
    }
}

pub(crate) fn read_after_reset(w: &mut dyn World, t: &mut Trace) {
    for first in ["probe", "write", "error", "shutdown"] {
        let (c, s) = connection(w);
        w.set_reset_on_close(c).unwrap();
        w.close(c);
        t.ready("reset", w.poll(s, ERROR));
        match first {
            "write" => drop(t.say("write", w.write(s, b"x"))),
            "error" => {
                t.say(
                    "error",
                    w.take_error(s).map(|e| e.map(|e| e.raw_os_error())),
                );
            }
            "shutdown" => drop(t.say("shutdown", w.shutdown(s, Shutdown::Both))),
            _ => {}
        }
        probe(w, t, s);
        t.ready("at last", w.poll(s, CLOSED));
    }
}

pub(crate) fn data_then_reset(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    w.write(c, b"last words").unwrap();
    w.poll(s, R);
    w.set_reset_on_close(c).unwrap();
    w.close(c);
    t.ready("reset", w.poll(s, ERROR));
    t.say("peek", w.peek(s, 4));
    t.say("read", w.read(s, 4));
    probe(w, t, s);
}

pub(crate) fn write_after_close_of_peer(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    w.close(c);
    t.ready("server", w.poll(s, Ready::READ_CLOSED));
    t.say("end", w.read(s, 10));
    t.say("first", w.write(s, b"x"));
    t.ready("answered", w.poll(s, ERROR));
    t.say("second", w.write(s, b"x"));
    t.say("third", w.write(s, b"x"));
    probe(w, t, s);
}

pub(crate) fn write_after_shutdown(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    t.say("shutdown", w.shutdown(c, Shutdown::Write));
    t.say("write", w.write(c, b"x"));
    t.say("nothing", w.write(c, b""));
    t.ready("client", w.poll(c, W));
    w.write(s, b"still heard").unwrap();
    t.ready("client", w.poll(c, R));
    t.say("read", w.read(c, 100));
}

pub(crate) fn double_shutdown(w: &mut dyn World, t: &mut Trace) {
    for how in [Shutdown::Write, Shutdown::Read, Shutdown::Both] {
        let (c, s) = connection(w);
        t.say("first", w.shutdown(c, how));
        t.say("second", w.shutdown(c, how));
        t.say("both", w.shutdown(c, Shutdown::Both));
        t.ready("server", w.poll(s, Ready::READ_CLOSED));
        t.ready("client", w.poll(c, CLOSED));
        t.say("read", w.read(c, 10));
        t.say("write", w.write(c, b"x"));
    }
}

pub(crate) fn close_with_unread_data(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    w.write(c, b"never read").unwrap();
    w.write(s, b"on its way").unwrap();
    w.poll(s, R);
    w.poll(c, R);
    w.close(s);
    t.ready("client", w.poll(c, ERROR));
    probe(w, t, c);
    let (c, s) = connection(w);
    w.write(c, b"read in part").unwrap();
    w.poll(s, R);
    t.say("read", w.read(s, 4));
    w.close(s);
    t.ready("client", w.poll(c, ERROR));
    probe(w, t, c);
}

pub(crate) fn linger_of_zero(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    w.shutdown(s, Shutdown::Write).unwrap();
    w.poll(c, Ready::READ_CLOSED);
    w.set_reset_on_close(c).unwrap();
    w.close(c);
    t.ready("server", w.poll(s, ERROR));
    probe(w, t, s);
}

pub(crate) fn shutdown_read(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    t.say("shutdown", w.shutdown(s, Shutdown::Read));
    t.ready("server", w.poll(s, R));
    t.say("end", w.read(s, 10));
    t.say("client writes", w.write(c, b"hello"));
    t.say("server writes", w.write(s, b"hello"));
    t.ready("client", w.poll(c, R));
    t.say("read", w.read(c, 10));
    t.say("read in spite of it", w.read(s, 10));
    t.say("end", w.read(s, 10));
}

pub(crate) fn data_for_shut_socket(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    t.say("shutdown", w.shutdown(s, Shutdown::Both));
    t.ready("client", w.poll(c, Ready::READ_CLOSED));
    t.say("write", w.write(c, b"hello"));
    t.ready("client", w.poll(c, ERROR));
    t.ready("server", w.poll(s, ERROR));
    probe(w, t, s);
    probe(w, t, c);
}

pub(crate) fn reset_in_close_wait(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    w.write(c, b"data").unwrap();
    w.shutdown(c, Shutdown::Write).unwrap();
    w.poll(s, Ready::READ_CLOSED);
    w.set_reset_on_close(c).unwrap();
    w.close(c);
    t.ready("server", w.poll(s, ERROR));
    t.say("write", w.write(s, b"x"));
    t.say("write", w.write(s, b"x"));
    probe(w, t, s);
}

pub(crate) fn take_error_takes_it(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    t.say("none", w.take_error(s).map(|e| e.map(|e| e.raw_os_error())));
    w.set_reset_on_close(c).unwrap();
    w.close(c);
    w.poll(s, ERROR);
    t.say("some", w.take_error(s).map(|e| e.map(|e| e.raw_os_error())));
    t.say("none", w.take_error(s).map(|e| e.map(|e| e.raw_os_error())));
    t.ready("server", w.poll(s, CLOSED));
}

/// Sends and receives in turns until all has arrived; notes the sum of the bytes.
pub(crate) fn big_transfer(w: &mut dyn World, t: &mut Trace) {
    const SIZE: usize = 3_000_000;
    let (c, s) = connection(w);
    let data: Vec<u8> = (0..SIZE).map(|i| ((i * i) >> 7) as u8).collect();
    let (mut sent, mut received) = (0, Vec::new());
    while received.len() < SIZE {
        while sent < SIZE
            && let Ok(length) = w.write(c, &data[sent..])
        {
            sent += length;
        }
        if sent == SIZE {
            let _ = w.shutdown(c, Shutdown::Write);
        }
        w.poll(s, R);
        while let Ok(part) = w.read(s, 100_000) {
            if part.is_empty() {
                break;
            }
            received.extend(part);
        }
    }
    t.say("received", Ok(received.len()));
    t.say("the same", Ok(received == data));
    t.ready("server", w.poll(s, Ready::READ_CLOSED));
    t.say("end", w.read(s, 1));
}

pub(crate) fn back_pressure(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    let mut sent = 0;
    let full = loop {
        match w.write(c, &[7; 100_000]) {
            Ok(length) => sent += length,
            Err(error) => break error,
        }
    };
    t.say::<()>("full", Err(full));
    t.say("a part was taken", Ok(sent > 4_096));
    let mut received = 0;
    while received < sent {
        w.poll(s, R);
        received += w.read(s, 65_536).unwrap().len();
    }
    t.say("all arrived", Ok(received == sent));
    t.ready("room", w.poll(c, W));
    t.say("write", w.write(c, b"more"));
    t.ready("server", w.poll(s, R));
    t.say("read", w.read(s, 100));
}

pub(crate) fn listener_closed_with_backlog(w: &mut dyn World, t: &mut Trace) {
    let (l, to) = listener(w);
    let c = client(w, to);
    w.poll(l, R);
    w.close(l);
    t.ready("client", w.poll(c, ERROR));
    probe(w, t, c);
    let again = w.tcp(false);
    t.say("connect", w.connect(again, to));
    t.ready("refused", w.poll(again, ERROR));
}

pub(crate) fn peer_addr_after_end(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    t.addr("local", w.local(c));
    t.addr("peer", w.peer(c));
    w.shutdown(s, Shutdown::Write).unwrap();
    w.poll(c, Ready::READ_CLOSED);
    t.addr("peer", w.peer(c));
    t.say("bind", w.bind(c, super::world::any()));
    t.say("listen", w.listen(c, 1));
    w.shutdown(c, Shutdown::Write).unwrap();
    w.settle();
    t.addr("local", w.local(c));
    t.addr("peer", w.peer(c));
    t.say("listen", w.listen(c, 1));
    let (_, to) = listener(w);
    t.say("connect", w.connect(c, to));
}
