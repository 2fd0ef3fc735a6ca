//! Datagrams.

use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};

use ws_sim::network::Ready;

use super::world::{Sock, Trace, World, any};

const R: Ready = Ready::READABLE;
const W: Ready = Ready::WRITABLE;
const ERROR: Ready = Ready::ERROR;

fn bound(w: &mut dyn World) -> (Sock, SocketAddr) {
    let s = w.udp(false);
    w.bind(s, any()).unwrap();
    let addr = w.local(s).unwrap();
    (s, addr)
}

/// A port that nobody has: a socket that hears another one alone keeps it.
fn deaf(w: &mut dyn World) -> SocketAddr {
    let (s, addr) = bound(w);
    w.connect(s, addr).unwrap();
    addr
}

fn from(answer: std::io::Result<(Vec<u8>, SocketAddr)>, t: &mut Trace, what: &str) {
    match answer {
        Ok((data, from)) => {
            t.say(what, Ok(data));
            t.addr("from", Ok(from));
        }
        Err(error) => drop(t.say::<()>(what, Err(error))),
    }
}

pub(crate) fn refused(w: &mut dyn World, t: &mut Trace) {
    let to = deaf(w);
    let s = w.udp(false);
    t.say("connect", w.connect(s, to));
    t.addr("local", w.local(s));
    t.say("send", w.write(s, b"x"));
    t.ready("refused", w.poll(s, ERROR));
    t.say("read", w.read(s, 10));
    t.say("read again", w.read(s, 10));
    // A socket without a peer never hears of it.
    let s = w.udp(false);
    t.say("send", w.send_to(s, b"x", to));
    t.ready("not told", w.poll(s, W));
}

pub(crate) fn refused_once_for_each(w: &mut dyn World, t: &mut Trace) {
    let to = deaf(w);
    let s = w.udp(false);
    w.connect(s, to).unwrap();
    for _ in 0..2 {
        t.say("sent", w.write(s, b"x"));
        w.poll(s, ERROR);
        t.say("not sent", w.write(s, b"x"));
    }
    t.say("sent", w.write(s, b"x"));
    w.poll(s, ERROR);
    t.say(
        "error",
        w.take_error(s).map(|e| e.map(|e| e.raw_os_error())),
    );
    t.say(
        "error",
        w.take_error(s).map(|e| e.map(|e| e.raw_os_error())),
    );
}

pub(crate) fn truncation(w: &mut dyn World, t: &mut Trace) {
    let ((a, _), (b, to)) = (bound(w), bound(w));
    w.send_to(a, b"a long datagram", to).unwrap();
    w.send_to(a, b"short", to).unwrap();
    t.ready("b", w.poll(b, R));
    from(w.recv_from(b, 4), t, "cut");
    w.poll(b, R);
    from(w.recv_from(b, 100), t, "whole");
    from(w.recv_from(b, 100), t, "none");
    w.send_to(a, b"once more", to).unwrap();
    w.poll(b, R);
    t.say("read", w.read(b, 0));
    t.say("read", w.read(b, 10));
}

pub(crate) fn self_send(w: &mut dyn World, t: &mut Trace) {
    let (s, to) = bound(w);
    t.say("send", w.send_to(s, b"to myself", to));
    t.ready("ready", w.poll(s, R));
    from(w.recv_from(s, 100), t, "received");
    t.say("connect", w.connect(s, to));
    t.say("send", w.write(s, b"again"));
    w.poll(s, R);
    t.say("read", w.read(s, 100));
    t.addr("peer", w.peer(s));
}

pub(crate) fn too_long(w: &mut dyn World, t: &mut Trace) {
    let ((a, _), (b, to)) = (bound(w), bound(w));
    for length in [65_507, 65_508, 65_535, 65_536, 100_000] {
        t.say("send", w.send_to(a, &vec![1; length], to));
    }
    w.poll(b, R);
    t.say("read", w.read(b, 100_000).map(|data| data.len()));
    let (a, b) = (w.udp(true), w.udp(true));
    w.bind(b, super::world::any_v6()).unwrap();
    let to = w.local(b).unwrap();
    for length in [65_527, 65_528] {
        t.say("send", w.send_to(a, &vec![1; length], to));
    }
    w.poll(b, R);
    t.say("read", w.read(b, 100_000).map(|data| data.len()));
}

pub(crate) fn unconnected_send(w: &mut dyn World, t: &mut Trace) {
    let s = w.udp(false);
    t.say("send", w.write(s, b"x"));
    t.say("nothing", w.write(s, b""));
    t.addr("local", w.local(s));
    t.addr("peer", w.peer(s));
    let (b, to) = bound(w);
    t.say("send to", w.send_to(s, b"x", to));
    t.say(
        "bound now",
        w.local(s).map(|local| (local.ip(), local.port() > 0)),
    );
    w.poll(b, R);
    t.say("read", w.read(b, 10));
}

pub(crate) fn connected_hears_peer_alone(w: &mut dyn World, t: &mut Trace) {
    let ((a, at_a), (b, at_b), (c, at_c)) = (bound(w), bound(w), bound(w));
    t.say("connect", w.connect(a, at_b));
    t.say("stranger", w.send_to(c, b"stranger", at_a));
    t.say("peer", w.send_to(b, b"peer", at_a));
    w.poll(a, R);
    t.say("read", w.read(a, 100));
    t.say("read", w.read(a, 100));
    t.say("to another all the same", w.send_to(a, b"x", at_c));
    w.poll(c, R);
    from(w.recv_from(c, 100), t, "received");
}

pub(crate) fn shutdown_of_datagrams(w: &mut dyn World, t: &mut Trace) {
    let s = w.udp(false);
    t.say("unconnected", w.shutdown(s, Shutdown::Both));
    let ((a, _), (b, to)) = (bound(w), bound(w));
    w.connect(a, to).unwrap();
    t.say("write", w.shutdown(a, Shutdown::Write));
    t.say("send", w.write(a, b"x"));
    t.say("send to", w.send_to(a, b"x", to));
    t.say("read", w.shutdown(a, Shutdown::Read));
    t.ready("both", w.poll(a, Ready::WRITE_CLOSED));
    t.say("read", w.read(a, 10));
    t.say("read", w.read(b, 10));
}

pub(crate) fn empty_datagram(w: &mut dyn World, t: &mut Trace) {
    let ((a, _), (b, to)) = (bound(w), bound(w));
    t.say("send", w.send_to(a, b"", to));
    t.ready("b", w.poll(b, R));
    from(w.recv_from(b, 10), t, "empty");
    from(w.recv_from(b, 10), t, "none");
}

pub(crate) fn peek_of_datagrams(w: &mut dyn World, t: &mut Trace) {
    let ((a, _), (b, to)) = (bound(w), bound(w));
    from(w.peek_from(b, 3), t, "none");
    w.send_to(a, b"one", to).unwrap();
    w.send_to(a, b"two", to).unwrap();
    w.poll(b, R);
    from(w.peek_from(b, 2), t, "cut");
    from(w.peek_from(b, 20), t, "whole");
    t.say("read", w.read(b, 20));
    w.poll(b, R);
    from(w.peek_from(b, 20), t, "next");
}

pub(crate) fn port_zero(w: &mut dyn World, t: &mut Trace) {
    let s = w.udp(false);
    t.say("send", w.send_to(s, b"x", any()));
    t.addr("local", w.local(s));
    t.say(
        "unspecified",
        w.send_to(s, b"x", SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
    );
}

pub(crate) fn udp_address_in_use(w: &mut dyn World, t: &mut Trace) {
    let (a, addr) = bound(w);
    let b = w.udp(false);
    t.say("bind", w.bind(b, addr));
    w.set_reuse(a, true).unwrap();
    t.say("reuse of one", w.bind(b, addr));
    w.set_reuse(b, true).unwrap();
    t.say("reuse of both", w.bind(b, addr));
}

pub(crate) fn udp_dual_stack(w: &mut dyn World, t: &mut Trace) {
    let s = w.udp(true);
    w.bind(s, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0))
        .unwrap();
    let port = t.addr("local", w.local(s)).unwrap().port();
    let (a, _) = bound(w);
    t.say(
        "from 4",
        w.send_to(
            a,
            b"four",
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
        ),
    );
    w.poll(s, R);
    let (data, back) = w.recv_from(s, 10).unwrap();
    t.say("received", Ok(data));
    t.addr("from", Ok(back));
    t.say("answer", w.send_to(s, b"answer", back));
    w.poll(a, R);
    from(w.recv_from(a, 10), t, "answer");
    let unmapped = w.local(a).unwrap();
    t.say("by the plain address", w.send_to(s, b"plain", unmapped));
    w.poll(a, R);
    from(w.recv_from(a, 10), t, "plain");
}

pub(crate) fn udp_reads_without_data(w: &mut dyn World, t: &mut Trace) {
    let s = w.udp(false);
    t.say("unbound", w.read(s, 10));
    t.say("nothing", w.read(s, 0));
    from(w.recv_from(s, 10), t, "from");
    t.ready("ready", w.poll(s, W));
}

pub(crate) fn connect_again(w: &mut dyn World, t: &mut Trace) {
    let ((s, _), (b, at_b), (c, at_c)) = (bound(w), bound(w), bound(w));
    t.say("connect", w.connect(s, at_b));
    t.addr("peer", w.peer(s));
    t.say("connect", w.connect(s, at_c));
    t.addr("peer", w.peer(s));
    w.write(s, b"x").unwrap();
    w.poll(c, R);
    t.say("second", w.read(c, 10));
    t.say("first", w.read(b, 10));
    t.say("bind", w.bind(s, any()));
}

pub(crate) fn calls_of_streams(w: &mut dyn World, t: &mut Trace) {
    let s = w.udp(false);
    t.say("listen", w.listen(s, 1));
    t.say("accept", w.accept(s).map(|_| ()));
    t.say("shutdown", w.shutdown(s, Shutdown::Write));
    let (_, to) = bound(w);
    t.say("send after it", w.send_to(s, b"x", to));
}
