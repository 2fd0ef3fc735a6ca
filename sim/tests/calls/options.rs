//! Options of sockets that change nothing in a host, and the size of datagrams.

use std::{ffi::CStr, io, os::fd::AsRawFd};

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int, socklen_t};
use socket2::{Domain, Socket, Type};
use ws::net::{TcpListener, TcpStream, UdpSocket};
use ws_sim::Sim;

use super::{Seen, compare, result, say};

fn set<T>(socket: &impl AsRawFd, (level, name): (c_int, c_int), value: &T) -> Answer {
    let (at, len) = ((&raw const *value).cast(), size_of::<T>() as socklen_t);
    // SAFETY: it is valid for reads of its size.
    result(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, at, len) } as isize)
}

type Answer = Result<isize, Option<c_int>>;

/// The bytes of an option, if there is room for so many.
fn get(socket: &impl AsRawFd, (level, name): (c_int, c_int), room: usize) -> (Answer, Vec<u8>) {
    let (mut bytes, mut len) = (vec![0xee_u8; room], room as socklen_t);
    let (fd, at) = (socket.as_raw_fd(), bytes.as_mut_ptr().cast());
    // SAFETY: there is room for so many bytes.
    let answer = unsafe { libc::getsockopt(fd, level, name, at, &mut len) };
    bytes.truncate(len as usize);
    (result(answer as isize), bytes)
}

fn number(socket: &impl AsRawFd, option: (c_int, c_int)) -> Result<c_int, Option<c_int>> {
    let (answer, bytes) = get(socket, option, 4);
    answer.map(|_| c_int::from_ne_bytes(bytes.try_into().unwrap()))
}

fn tcp() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}

#[test]
fn numbers_are_kept() {
    compare(|seen| {
        let options = [
            (IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, "TCP_NOTSENT_LOWAT"),
            (IPPROTO_TCP, libc::TCP_SYNCNT, "TCP_SYNCNT"),
            (IPPROTO_IP, libc::IP_FREEBIND, "IP_FREEBIND"),
            (IPPROTO_IP, libc::IP_MTU_DISCOVER, "IP_MTU_DISCOVER"),
        ];
        for (level, name, shown) in options {
            let socket = tcp();
            let option = (level, name);
            say(seen, shown, number(&socket, option));
            for value in [1, 0, 5, 127, 128, 4_000, -1] {
                let done = set(&socket, option, &value);
                say(seen, shown, (value, done, number(&socket, option)));
            }
        }
        let socket = tcp();
        for value in [0, 87, 88, 1_200, 32_767, 32_768, -1] {
            let done = set(&socket, (IPPROTO_TCP, libc::TCP_MAXSEG), &value);
            say(seen, "TCP_MAXSEG", (value, done));
        }
        let udp = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let done = set(&udp, (IPPROTO_TCP, libc::TCP_SYNCNT), &3);
        say(seen, "of TCP alone", done);
    });
}

#[test]
fn a_buffer_below_zero_is_the_largest() {
    compare(|seen| {
        let (a, b) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        let udp = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        for socket in [tcp(), udp, a, b] {
            for name in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
                let option = (SOL_SOCKET, name);
                say(seen, "set", set(&socket, option, &c_int::MAX));
                let largest = number(&socket, option);
                for value in [-1, c_int::MIN] {
                    say(seen, "set", set(&socket, option, &value));
                    // How much that is, the machine says.
                    say(seen, "is the largest", number(&socket, option) == largest);
                }
                say(seen, "set", set(&socket, option, &0));
                say(seen, "least", number(&socket, option));
            }
        }
    });
}

#[test]
fn options_that_change_nothing_are_there() {
    compare(|seen| {
        let udp = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let (unix, _other) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        for socket in [tcp(), udp, unix] {
            for name in [
                libc::SO_DONTROUTE,
                libc::SO_DEBUG,
                libc::SO_SNDLOWAT,
                libc::SO_BUSY_POLL,
            ] {
                let option = (SOL_SOCKET, name);
                say(seen, "first", (name, number(&socket, option)));
                // Larger ones, and some of these, are for root alone.
                for value in [-1, 0] {
                    let done = set(&socket, option, &value);
                    if name != libc::SO_DEBUG || value == 0 {
                        say(seen, "set", (value, done));
                    }
                }
                say(seen, "then", number(&socket, option));
            }
            say(
                seen,
                "options",
                get(&socket, (IPPROTO_IP, libc::IP_OPTIONS), 40),
            );
        }
    });
}

#[test]
fn an_option_of_ip_may_be_empty() {
    compare(|seen| {
        let udp = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        for socket in [tcp(), udp] {
            let fd = socket.as_raw_fd();
            for name in [1, 2, 8, 10, 13, 15, 19, 24, 33, 34] {
                let at = std::ptr::null();
                // SAFETY: it has no bytes.
                let done = unsafe { libc::setsockopt(fd, IPPROTO_IP, name, at, 0) };
                say(seen, "set", (name, result(done as isize)));
                say(seen, "is", number(&socket, (IPPROTO_IP, name)));
            }
        }
    });
}

#[test]
fn texts_are_kept() {
    fn each(seen: &mut Seen, option: (c_int, c_int), values: &[&CStr]) {
        let socket = tcp();
        for value in values {
            let bytes = value.to_bytes_with_nul();
            let (at, len) = (bytes.as_ptr().cast(), bytes.len() as socklen_t);
            let (level, name) = option;
            let fd = socket.as_raw_fd();
            // SAFETY: it is valid for reads of its length.
            let done = result(unsafe { libc::setsockopt(fd, level, name, at, len) } as isize);
            say(seen, "set", (value, done, get(&socket, option, 16)));
        }
    }
    compare(|seen| {
        let congestion = (IPPROTO_TCP, libc::TCP_CONGESTION);
        each(
            seen,
            congestion,
            &[c"reno", c"none such", c"a name that is too long"],
        );
        let socket = tcp();
        // The default is the machine's.
        set(&socket, congestion, b"reno").unwrap();
        say(seen, "short", get(&socket, congestion, 3));
        let device = (SOL_SOCKET, libc::SO_BINDTODEVICE);
        each(seen, device, &[c"none such", c"lo", c""]);
        let socket = tcp();
        say(seen, "not bound, short", get(&socket, device, 15).0);
        set(&socket, device, b"lo\0").unwrap();
        say(seen, "bound, short", get(&socket, device, 15).0);
    });
}

#[test]
fn each_socket_has_a_cookie() {
    compare(|seen| {
        let option = (SOL_SOCKET, libc::SO_COOKIE);
        let (one, two) = (tcp(), tcp());
        let first = get(&one, option, 8);
        say(seen, "length", (first.0, first.1.len()));
        say(seen, "zero", first.1 == [0; 8]);
        say(seen, "again", first == get(&one, option, 8));
        say(seen, "another", first == get(&two, option, 8));
        say(seen, "no room", get(&one, option, 4).0);
    });
}

#[test]
fn the_mtu_of_the_loopback() {
    compare(|seen| {
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let mtu = (IPPROTO_IP, libc::IP_MTU);
        say(seen, "not connected", number(&udp, mtu));
        udp.connect(udp.local_addr().unwrap()).unwrap();
        say(seen, "connected", number(&udp, mtu));
        let option = (IPPROTO_IP, libc::IP_MTU_DISCOVER);
        say(seen, "do", set(&udp, option, &libc::IP_PMTUDISC_DO));
        let sent = |len| {
            udp.send(&vec![0; len])
                .map_err(|error| error.raw_os_error())
        };
        say(seen, "sent", [1_473, 60_000, 65_507, 65_508].map(sent));
    });
}

fn error(result: io::Result<usize>) -> Result<usize, Option<c_int>> {
    result.map_err(|error| error.raw_os_error())
}

#[test]
fn a_datagram_that_must_be_whole_is_no_longer_than_the_mtu() {
    let sim = Sim::new(1);
    sim.host("a", std::future::pending::<()>);
    sim.client("c", async {
        let v4 = (
            "0.0.0.0:0",
            "10.0.0.1:1",
            1_472,
            (IPPROTO_IP, libc::IP_MTU_DISCOVER),
            (IPPROTO_IP, libc::IP_MTU),
        );
        let v6 = (
            "[::]:0",
            "[fd00::1]:1",
            1_452,
            (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            (IPPROTO_IPV6, libc::IPV6_MTU),
        );
        for (own, to, most, discover, mtu) in [v4, v6] {
            let udp = UdpSocket::bind(own).await?;
            let long = vec![0; most + 1];
            assert_eq!(udp.send_to(&long, to).await?, most + 1);
            let whole = [
                libc::IP_PMTUDISC_DO,
                libc::IP_PMTUDISC_PROBE,
                libc::IP_PMTUDISC_INTERFACE,
            ];
            for value in whole {
                assert_eq!(set(&udp, discover, &value), Ok(0));
                let sent = error(udp.send_to(&long, to).await);
                assert_eq!(sent, Err(Some(libc::EMSGSIZE)), "{value}");
                assert_eq!(udp.send_to(&long[1..], to).await?, most);
            }
            assert_eq!(set(&udp, discover, &libc::IP_PMTUDISC_OMIT), Ok(0));
            assert_eq!(udp.send_to(&long, to).await?, most + 1);
            assert_eq!(number(&udp, mtu), Err(Some(libc::ENOTCONN)));
            udp.connect(to).await?;
            assert_eq!(number(&udp, mtu), Ok(1_500));
        }
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_datagram_of_version_6_that_must_not_be_cut_is_no_longer_than_the_mtu() {
    let sim = Sim::new(1);
    sim.host("a", std::future::pending::<()>);
    sim.client("c", async {
        let udp = UdpSocket::bind("[::]:0").await?;
        let (long, to) = ([0; 1_453], "[fd00::1]:1");
        assert_eq!(udp.send_to(&long, to).await?, 1_453);
        let option = (IPPROTO_IPV6, libc::IPV6_DONTFRAG);
        assert_eq!(set(&udp, option, &1), Ok(0));
        let sent = error(udp.send_to(&long, to).await);
        assert_eq!(sent, Err(Some(libc::EMSGSIZE)));
        assert_eq!(udp.send_to(&long[1..], to).await?, 1_452);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

#[test]
fn a_connection_begins_with_the_options_of_its_listener_and_a_cookie_of_its_own() {
    let sim = Sim::new(1);
    sim.client("c", async {
        let listener = TcpListener::bind("127.0.0.1:1").await?;
        let (tos, cookie) = ((IPPROTO_IP, libc::IP_TOS), (SOL_SOCKET, libc::SO_COOKIE));
        assert_eq!(set(&listener, tos, &16), Ok(0));
        let first = get(&listener, cookie, 8);
        let _client = TcpStream::connect("127.0.0.1:1").await?;
        let (stream, _) = listener.accept().await?;
        assert_eq!(number(&stream, tos), Ok(16));
        let second = get(&stream, cookie, 8);
        assert_eq!((first.0, second.0), (Ok(0), Ok(0)));
        assert_ne!(first.1, second.1);
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}
