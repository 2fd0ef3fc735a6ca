//! Names, handshakes, backlogs and options.

use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};

use ws_sim::network::Ready;

use super::world::{Trace, World, any, any_v6, client, connection, listener, nobody};

const R: Ready = Ready::READABLE;
const W: Ready = Ready::WRITABLE;
const ERROR: Ready = Ready::ERROR;

pub(crate) fn refused_connect(w: &mut dyn World, t: &mut Trace) {
    let to = nobody(w);
    let s = w.tcp(false);
    t.say("connect", w.connect(s, to));
    t.ready("after", w.poll(s, ERROR));
    t.say(
        "error",
        w.take_error(s).map(|e| e.map(|e| e.raw_os_error())),
    );
    t.say(
        "no error",
        w.take_error(s).map(|e| e.map(|e| e.raw_os_error())),
    );
    t.ready("and then", w.poll(s, W));
    t.say("read", w.read(s, 10));
    t.say("write", w.write(s, b"x"));
    t.addr("peer", w.peer(s));
    t.say("shutdown", w.shutdown(s, Shutdown::Both));
}

pub(crate) fn refused_connect_then_write(w: &mut dyn World, t: &mut Trace) {
    let to = nobody(w);
    for first in ["read", "write", "connect"] {
        let s = w.tcp(false);
        t.say("connect", w.connect(s, to));
        w.poll(s, ERROR);
        for what in [first, "read", "write", "read", "write"] {
            match what {
                "read" => t.say("read", w.read(s, 10)).is_some(),
                "write" => t.say("write", w.write(s, b"x")).is_some(),
                _ => t.say("connect", w.connect(s, to)).is_some(),
            };
        }
    }
}

pub(crate) fn connect_tells_once(w: &mut dyn World, t: &mut Trace) {
    let (_, to) = listener(w);
    let s = w.tcp(false);
    t.say("begins", w.connect(s, to));
    t.ready("done", w.poll(s, W));
    t.say("first", w.connect(s, to));
    t.say("second", w.connect(s, to));
    t.say("third", w.connect(s, to));
    let refused = nobody(w);
    let s = w.tcp(false);
    t.say("begins", w.connect(s, refused));
    w.poll(s, ERROR);
    t.say("first", w.connect(s, refused));
    t.say("another begins", w.connect(s, to));
    t.ready("done", w.poll(s, W));
    t.say("write", w.write(s, b"x"));
    let s = w.tcp(false);
    t.say("begins", w.connect(s, refused));
    w.poll(s, ERROR);
    t.say(
        "error",
        w.take_error(s).map(|e| e.map(|e| e.raw_os_error())),
    );
    t.say("first", w.connect(s, refused));
    t.say("another begins", w.connect(s, to));
}

pub(crate) fn connect_twice_in_progress(w: &mut dyn World, t: &mut Trace) {
    // A full backlog keeps the third connection in its handshake.
    let s = w.tcp(false);
    w.bind(s, any()).unwrap();
    w.listen(s, 0).unwrap();
    let to = w.local(s).unwrap();
    client(w, to);
    w.poll(s, R);
    let third = w.tcp(false);
    t.say("begins", w.connect(third, to));
    t.say("again", w.connect(third, to));
    t.say("read", w.read(third, 1));
    t.say("write", w.write(third, b"x"));
    t.say("write nothing", w.write(third, b""));
    t.addr("peer", w.peer(third));
    t.say("listen", w.listen(third, 1));
    t.say("shutdown", w.shutdown(third, Shutdown::Write));
    t.addr("peer", w.peer(third));
    t.say("read", w.read(third, 1));
}

pub(crate) fn bind_twice(w: &mut dyn World, t: &mut Trace) {
    for s in [w.tcp(false), w.udp(false)] {
        t.say("bind", w.bind(s, any()));
        t.say("again", w.bind(s, any()));
        let local = w.local(s).unwrap();
        t.say("the same", w.bind(s, local));
        let other = SocketAddr::new("203.0.113.9".parse().unwrap(), 80);
        t.say("not ours", w.bind(s, other));
    }
}

pub(crate) fn bind_without_address(w: &mut dyn World, t: &mut Trace) {
    let s = w.tcp(false);
    t.addr("local", w.local(s));
    t.say(
        "not ours",
        w.bind(s, SocketAddr::new("203.0.113.9".parse().unwrap(), 0)),
    );
    t.say(
        "all",
        w.bind(s, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
    );
    t.addr("local", w.local(s));
    w.listen(s, 1).unwrap();
    let port = w.local(s).unwrap().port();
    let c = client(w, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    t.addr("client", w.local(c));
    t.addr("client's peer", w.peer(c));
    w.poll(s, R);
    let (server, peer) = w.accept(s).unwrap();
    t.addr("accepted", Ok(peer));
    t.addr("server", w.local(server));
    t.addr("server's peer", w.peer(server));
    let c = client(w, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
    t.addr("peer of a client of 0.0.0.0", w.peer(c));
    let c = client(w, SocketAddr::new("127.0.0.2".parse().unwrap(), port));
    t.addr("client of 127.0.0.2", w.local(c));
    t.addr("its peer", w.peer(c));
}

pub(crate) fn address_in_use(w: &mut dyn World, t: &mut Trace) {
    let (_, addr) = listener(w);
    let port = addr.port();
    for ip in ["127.0.0.1", "0.0.0.0", "127.0.0.2"] {
        let s = w.tcp(false);
        t.say(ip, w.bind(s, SocketAddr::new(ip.parse().unwrap(), port)));
        t.say(
            "port is none or some",
            w.local(s).map(|a| (a.ip(), a.port() == 0)),
        );
    }
    for ip in ["::1", "::", "::ffff:127.0.0.1"] {
        let s = w.tcp(true);
        t.say(ip, w.bind(s, SocketAddr::new(ip.parse().unwrap(), port)));
    }
    let s = w.tcp(true);
    t.say("only v6", w.set_only_v6(s, true));
    t.say(
        "bind",
        w.bind(s, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)),
    );
    t.say("late", w.set_only_v6(s, false));
}

pub(crate) fn reuse_address_and_listeners(w: &mut dyn World, t: &mut Trace) {
    let a = w.tcp(false);
    w.set_reuse(a, true).unwrap();
    w.bind(a, any()).unwrap();
    let addr = w.local(a).unwrap();
    let (b, c) = (w.tcp(false), w.tcp(false));
    t.say("without reuse", w.bind(c, addr));
    w.set_reuse(b, true).unwrap();
    t.say("with reuse", w.bind(b, addr));
    t.say("one listens", w.listen(a, 1));
    t.say("the other", w.listen(b, 1));
    w.set_reuse(c, true).unwrap();
    t.say("beside a listener", w.bind(c, addr));
    w.close(a);
    t.say("the other again", w.listen(b, 1));
}

/// A connection that the server closes first leaves its port in TIME_WAIT.
fn close_server_first(w: &mut dyn World, reuse: bool) -> SocketAddr {
    let s = w.tcp(false);
    w.set_reuse(s, reuse).unwrap();
    w.bind(s, any()).unwrap();
    w.listen(s, 1).unwrap();
    let addr = w.local(s).unwrap();
    let c = client(w, addr);
    w.poll(s, R);
    let (server, _) = w.accept(s).unwrap();
    w.close(server);
    w.close(s);
    w.poll(c, R);
    assert_eq!(w.read(c, 1).unwrap(), b"");
    w.shutdown(c, Shutdown::Write).unwrap();
    w.poll(c, Ready::WRITE_CLOSED);
    w.settle();
    addr
}

pub(crate) fn reuse_address_after_close(w: &mut dyn World, t: &mut Trace) {
    let addr = close_server_first(w, true);
    let (a, b) = (w.tcp(false), w.tcp(false));
    t.say("without reuse", w.bind(a, addr));
    w.set_reuse(b, true).unwrap();
    t.say("with reuse", w.bind(b, addr));
    t.say("listen", w.listen(b, 1));
    let c = client(w, addr);
    t.say("connected", w.write(c, b"x"));
}

pub(crate) fn address_in_use_after_close(w: &mut dyn World, t: &mut Trace) {
    let addr = close_server_first(w, false);
    let (a, b) = (w.tcp(false), w.tcp(false));
    t.say("without reuse", w.bind(a, addr));
    w.set_reuse(b, true).unwrap();
    t.say("with reuse, but not before", w.bind(b, addr));
    // A listener without connections leaves nothing behind.
    let (s, addr) = listener(w);
    w.close(s);
    t.say("at once", w.bind(a, addr));
}

pub(crate) fn ephemeral_port(w: &mut dyn World, t: &mut Trace) {
    for s in [w.tcp(false), w.udp(false)] {
        t.say("bind", w.bind(s, any()));
        let port = w.local(s).unwrap().port();
        t.say("in range", Ok((32_768..=60_999).contains(&port)));
    }
    let (_, to) = listener(w);
    let c = client(w, to);
    let port = w.local(c).unwrap().port();
    t.say("in range", Ok((32_768..=60_999).contains(&port)));
    t.addr("local", w.local(c));
    let s = w.tcp(false);
    t.say(
        "of a client",
        w.bind(s, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
    );
}

pub(crate) fn listen_without_bind(w: &mut dyn World, t: &mut Trace) {
    let s = w.tcp(false);
    t.say("listen", w.listen(s, 1));
    let local = t.addr("local", w.local(s)).unwrap();
    let c = client(w, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), local.port()));
    t.ready("listener", w.poll(s, R));
    t.addr("peer", w.peer(c));
    let udp = w.udp(false);
    t.say("udp", w.listen(udp, 1));
    t.say("of a client", w.listen(c, 1));
}

pub(crate) fn listen_twice(w: &mut dyn World, t: &mut Trace) {
    let (s, to) = listener(w);
    t.say("again", w.listen(s, 1));
    t.say("bind", w.bind(s, any()));
    t.say("connect", w.connect(s, to));
    let c = client(w, to);
    t.ready("listener", w.poll(s, R));
    t.say("accept", w.accept(s).map(|_| ()));
    t.say("none left", w.accept(s).map(|_| ()));
    t.addr("peer", w.peer(c));
}

pub(crate) fn accept_on_what_does_not_listen(w: &mut dyn World, t: &mut Trace) {
    let s = w.tcp(false);
    t.say("new", w.accept(s).map(|_| ()));
    w.bind(s, any()).unwrap();
    t.say("bound", w.accept(s).map(|_| ()));
    let (c, _) = connection(w);
    t.say("connected", w.accept(c).map(|_| ()));
    let udp = w.udp(false);
    t.say("udp", w.accept(udp).map(|_| ()));
}

pub(crate) fn read_and_write_unconnected(w: &mut dyn World, t: &mut Trace) {
    let s = w.tcp(false);
    t.say("read", w.read(s, 10));
    t.say("read nothing", w.read(s, 0));
    t.say("peek", w.peek(s, 10));
    t.say("write", w.write(s, b"x"));
    t.say("write nothing", w.write(s, b""));
    t.addr("peer", w.peer(s));
}

pub(crate) fn shutdown_unconnected(w: &mut dyn World, t: &mut Trace) {
    for how in [Shutdown::Read, Shutdown::Write, Shutdown::Both] {
        let s = w.tcp(false);
        t.say("shutdown", w.shutdown(s, how));
        t.ready("after", w.poll(s, Ready::WRITE_CLOSED));
        t.say("read", w.read(s, 10));
        t.say("write", w.write(s, b"x"));
    }
}

pub(crate) fn backlog(w: &mut dyn World, t: &mut Trace) {
    let s = w.tcp(false);
    w.bind(s, any()).unwrap();
    w.listen(s, 1).unwrap();
    let to = w.local(s).unwrap();
    let waiting = [client(w, to), client(w, to)];
    let third = w.tcp(false);
    t.say("one too many", w.connect(third, to));
    w.settle();
    t.say("still in progress", w.connect(third, to));
    t.ready("listener", w.poll(s, R));
    for c in waiting {
        let (_, peer) = w.accept(s).unwrap();
        t.say("in order", w.local(c).map(|local| local == peer));
    }
    t.say("none", w.accept(s).map(|_| ()));
    t.ready("after the next SYN", w.poll(third, W));
    t.ready("listener", w.poll(s, R));
    t.say("accept", w.accept(s).map(|_| ()));
}

pub(crate) fn wrong_family(w: &mut dyn World, t: &mut Trace) {
    let (v4, v6) = (w.tcp(false), w.tcp(true));
    t.say("bind 4 to 6", w.bind(v4, any_v6()));
    t.say("bind 6 to 4", w.bind(v6, any()));
    t.say(
        "connect 4 to 6",
        w.connect(v4, SocketAddr::new(any_v6().ip(), 9)),
    );
    t.say(
        "connect 6 to 4",
        w.connect(v6, SocketAddr::new(any().ip(), 9)),
    );
    let (v4, v6) = (w.udp(false), w.udp(true));
    t.say("bind 4 to 6", w.bind(v4, any_v6()));
    t.say("bind 6 to 4", w.bind(v6, any()));
    t.say(
        "connect 4 to 6",
        w.connect(v4, SocketAddr::new(any_v6().ip(), 9)),
    );
    t.say(
        "send 4 to 6",
        w.send_to(v4, b"x", SocketAddr::new(any_v6().ip(), 9)),
    );
}

pub(crate) fn dual_stack(w: &mut dyn World, t: &mut Trace) {
    let s = w.tcp(true);
    t.say(
        "bind",
        w.bind(s, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0)),
    );
    w.listen(s, 4).unwrap();
    let port = t.addr("listener", w.local(s)).unwrap().port();
    for ip in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        let c = client(w, SocketAddr::new(ip.parse().unwrap(), port));
        t.addr("client", w.local(c));
        t.addr("client's peer", w.peer(c));
        w.poll(s, R);
        let (server, peer) = w.accept(s).unwrap();
        t.addr("accepted", Ok(peer));
        t.addr("server", w.local(server));
        w.write(c, b"hello").unwrap();
        w.poll(server, R);
        t.say("read", w.read(server, 10));
    }
}

pub(crate) fn only_v6(w: &mut dyn World, t: &mut Trace) {
    let s = w.tcp(true);
    t.say("only v6", w.set_only_v6(s, true));
    t.say(
        "bind",
        w.bind(s, SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0)),
    );
    w.listen(s, 4).unwrap();
    let port = w.local(s).unwrap().port();
    let c = w.tcp(false);
    t.say(
        "from 4",
        w.connect(c, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
    );
    t.ready("refused", w.poll(c, ERROR));
    let c = w.tcp(true);
    w.set_only_v6(c, true).unwrap();
    let mapped = "::ffff:127.0.0.1".parse().unwrap();
    t.say("to mapped", w.connect(c, SocketAddr::new(mapped, port)));
    client(w, SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port));
    t.ready("from 6", w.poll(s, R));
}

pub(crate) fn peek_leaves_data(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    t.say("nothing", w.peek(s, 3));
    w.write(c, b"hello").unwrap();
    w.poll(s, R);
    t.say("peek", w.peek(s, 3));
    t.say("peek", w.peek(s, 30));
    t.say("read", w.read(s, 2));
    t.say("peek", w.peek(s, 30));
    t.say("read", w.read(s, 30));
    t.say("peek", w.peek(s, 30));
    w.shutdown(c, Shutdown::Write).unwrap();
    w.poll(s, R);
    t.say("end", w.peek(s, 30));
    t.say("end", w.read(s, 30));
}

pub(crate) fn zero_length(w: &mut dyn World, t: &mut Trace) {
    let (c, s) = connection(w);
    t.say("read nothing of nothing", w.read(s, 0));
    t.say("peek nothing of nothing", w.peek(s, 0));
    t.say("write nothing", w.write(c, b""));
    w.write(c, b"hello").unwrap();
    w.poll(s, R);
    t.say("read nothing", w.read(s, 0));
    t.say("peek nothing", w.peek(s, 0));
    t.say("read", w.read(s, 10));
    w.shutdown(c, Shutdown::Write).unwrap();
    w.poll(s, Ready::READ_CLOSED);
    t.say("read nothing at the end", w.read(s, 0));
    t.say("write nothing after shutdown", w.write(c, b""));
}

pub(crate) fn buffers_and_options(w: &mut dyn World, t: &mut Trace) {
    let s = w.tcp(false);
    for bytes in [1, 10_000, 100_000] {
        t.say("set", w.set_buffers(s, bytes));
        t.say("get", w.buffers(s));
    }
    t.say("nodelay", w.nodelay(s));
    t.say("set", w.set_nodelay(s, true));
    t.say("nodelay", w.nodelay(s));
    t.say("ttl", w.ttl(s));
    t.say("too small", w.set_ttl(s, 0));
    t.say("too large", w.set_ttl(s, 256));
    t.say("set", w.set_ttl(s, 7));
    t.say("ttl", w.ttl(s));
    t.say("v4 is not v6", w.set_only_v6(s, true));
    let udp = w.udp(false);
    t.say("udp", w.set_nodelay(udp, true));
    t.say("udp", w.nodelay(udp));
    t.say(
        "buffers",
        w.buffers(udp).map(|(_, receive)| receive > 65_536),
    );
}

pub(crate) fn accepted_has_options(w: &mut dyn World, t: &mut Trace) {
    let (s, to) = listener(w);
    w.set_nodelay(s, true).unwrap();
    w.set_ttl(s, 9).unwrap();
    client(w, to);
    w.poll(s, R);
    let (server, _) = w.accept(s).unwrap();
    t.say("nodelay", w.nodelay(server));
    t.say("ttl", w.ttl(server));
    t.ready("ready", w.poll(server, W));
}

pub(crate) fn connect_from_bound_port(w: &mut dyn World, t: &mut Trace) {
    let ((_, one), (_, two)) = (listener(w), listener(w));
    let from = nobody(w);
    let s = w.tcp(false);
    t.say("taken", w.bind(s, from));
    w.set_reuse(s, true).unwrap();
    t.say("bind", w.bind(s, any()));
    let from = w.local(s).unwrap();
    t.say("connect", w.connect(s, one));
    w.poll(s, W);
    t.say("the same port", w.local(s).map(|local| local == from));
    let again = w.tcp(false);
    w.set_reuse(again, true).unwrap();
    t.say("bind", w.bind(again, from));
    t.say("the same connection", w.connect(again, one));
    t.say("another one", w.connect(again, two));
}

pub(crate) fn readiness_of_new_sockets(w: &mut dyn World, t: &mut Trace) {
    let (tcp, udp) = (w.tcp(false), w.udp(false));
    t.ready("tcp", w.poll(tcp, W));
    t.ready("udp", w.poll(udp, W));
    let (c, s) = connection(w);
    t.ready("client", w.poll(c, W));
    t.ready("server", w.poll(s, W));
}

pub(crate) fn calls_on_listener(w: &mut dyn World, t: &mut Trace) {
    let (s, _) = listener(w);
    t.say("read", w.read(s, 10));
    t.say("write", w.write(s, b"x"));
    t.addr("peer", w.peer(s));
    t.say("shutdown", w.shutdown(s, Shutdown::Write));
    t.say("accept", w.accept(s).map(|_| ()));
}

pub(crate) fn shutdown_of_listener(w: &mut dyn World, t: &mut Trace) {
    let (s, to) = listener(w);
    t.say("shutdown", w.shutdown(s, Shutdown::Both));
    t.ready("after", w.poll(s, Ready::WRITE_CLOSED));
    t.say("accept", w.accept(s).map(|_| ()));
    let c = w.tcp(false);
    t.say("connect", w.connect(c, to));
    t.ready("refused", w.poll(c, ERROR));
}
