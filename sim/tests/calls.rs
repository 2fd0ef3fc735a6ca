//! Calls that answer at once see the same in a host as outside of it: each program runs on both.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

#[path = "calls/control.rs"]
mod control;
#[path = "calls/counters.rs"]
mod counters;
#[path = "calls/descriptors.rs"]
mod descriptors;
#[path = "calls/exclusive.rs"]
mod exclusive;
#[path = "calls/kinds.rs"]
mod kinds;
#[path = "calls/numbers.rs"]
mod numbers;
#[path = "calls/options.rs"]
mod options;
#[path = "calls/pipes.rs"]
mod pipes;
#[path = "calls/refusals.rs"]
mod refusals;
#[path = "calls/rights.rs"]
mod rights;
#[path = "calls/sleeps.rs"]
mod sleeps;
#[path = "calls/splices.rs"]
mod splices;
#[path = "calls/times.rs"]
mod times;
#[path = "calls/waits.rs"]
mod waits;

use std::{
    cell::RefCell,
    ffi::{CStr, CString},
    fmt::Debug,
    fs::File,
    io, mem,
    net::SocketAddr,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::fs::MetadataExt,
    },
    ptr,
    rc::Rc,
    time::{Duration, Instant},
};

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, c_int};
use socket2::{Domain, Socket, Type};
use ws_sim::Sim;

type Seen = Vec<String>;

/// Runs a program outside of a host, and in one.
#[track_caller]
fn compare(program: fn(&mut Seen)) {
    let mut real = Seen::new();
    program(&mut real);
    let seen = Rc::new(RefCell::new(Seen::new()));
    let sees = seen.clone();
    let sim = Sim::new(1);
    sim.client("host", async move { program(&mut sees.borrow_mut()) });
    sim.try_run().unwrap();
    same(&seen.borrow(), &real);
}

#[track_caller]
fn same(seen: &Seen, real: &Seen) {
    assert!(real.len() > 2, "it notes nothing");
    assert_eq!(seen.join("\n"), real.join("\n"), "simulated, and real");
}

fn say(seen: &mut Seen, what: &str, answer: impl Debug) {
    seen.push(format!("{what}: {answer:?}"));
}

/// The answer of a call that has -1 for an error.
fn result(answer: isize) -> Result<isize, Option<i32>> {
    match answer {
        -1 => Err(io::Error::last_os_error().raw_os_error()),
        answer => Ok(answer),
    }
}

fn owned(fd: RawFd) -> OwnedFd {
    assert!(fd >= 0);
    // SAFETY: it is a new descriptor, which nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn epoll() -> OwnedFd {
    // SAFETY: it takes no pointers.
    owned(unsafe { libc::epoll_create1(0) })
}

fn control(
    epoll: &OwnedFd,
    call: c_int,
    fd: &OwnedFd,
    events: c_int,
) -> Result<isize, Option<i32>> {
    let mut event = libc::epoll_event {
        events: events as u32,
        u64: 0,
    };
    // SAFETY: the event is valid.
    let answer = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), call, fd.as_raw_fd(), &mut event) };
    result(answer as isize)
}

fn ready(epoll: &OwnedFd) -> Vec<u32> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
    // SAFETY: there is room for 8 events.
    let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 8, 0) };
    let events = &events[..usize::try_from(count).unwrap()];
    events.iter().map(|one| one.events).collect()
}

fn eventfd(count: u32, flags: c_int) -> OwnedFd {
    // SAFETY: it takes no pointers.
    owned(unsafe { libc::eventfd(count, flags | libc::EFD_NONBLOCK) })
}

fn read(fd: &OwnedFd, len: usize) -> (Result<isize, Option<i32>>, Vec<u8>) {
    let mut bytes = vec![0; len];
    // SAFETY: there is as much room.
    let got = result(unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), len) });
    (got, bytes)
}

fn add(fd: &OwnedFd, count: u64) -> Result<isize, Option<i32>> {
    // SAFETY: there are 8 bytes.
    result(unsafe { libc::write(fd.as_raw_fd(), (&raw const count).cast(), 8) })
}

#[test]
fn an_epoll_in_another_tells_of_what_is_added_to_it() {
    compare(|seen| {
        let (outer, inner, event) = (epoll(), epoll(), eventfd(1, 0));
        say(seen, "add", control(&outer, EPOLL_CTL_ADD, &inner, EPOLLIN));
        say(seen, "outer", ready(&outer));
        say(seen, "add", control(&inner, EPOLL_CTL_ADD, &event, EPOLLIN));
        say(seen, "outer", ready(&outer));
        say(seen, "inner", ready(&inner));
        say(seen, "outer", ready(&outer));
        say(seen, "modify", control(&inner, EPOLL_CTL_MOD, &event, 0));
        say(seen, "outer", ready(&outer));
        say(
            seen,
            "modify",
            control(&inner, EPOLL_CTL_MOD, &event, EPOLLOUT),
        );
        say(seen, "outer", ready(&outer));
        say(seen, "delete", control(&inner, EPOLL_CTL_DEL, &event, 0));
        say(seen, "outer", ready(&outer));
        // What is queued in the inner one, and is ready no more, is not told.
        say(seen, "add", control(&inner, EPOLL_CTL_ADD, &event, EPOLLIN));
        say(seen, "read", read(&event, 8));
        say(seen, "outer", ready(&outer));
        say(seen, "write", add(&event, 1));
        say(seen, "outer", ready(&outer));
    });
}

#[test]
fn epolls_in_a_circle_or_too_deep_are_refused() {
    compare(|seen| {
        let (a, b, c) = (epoll(), epoll(), epoll());
        say(seen, "a in b", control(&b, EPOLL_CTL_ADD, &a, EPOLLIN));
        say(seen, "b in a", control(&a, EPOLL_CTL_ADD, &b, EPOLLIN));
        say(seen, "b in c", control(&c, EPOLL_CTL_ADD, &b, EPOLLIN));
        say(seen, "c in a", control(&a, EPOLL_CTL_ADD, &c, EPOLLIN));
        say(seen, "a in a", control(&a, EPOLL_CTL_ADD, &a, EPOLLIN));
        let mut inner = epoll();
        let mut kept = Vec::new();
        for depth in 0..7 {
            let outer = epoll();
            let added = control(&outer, EPOLL_CTL_ADD, &inner, EPOLLIN);
            say(seen, &format!("depth {depth}"), added);
            kept.push(mem::replace(&mut inner, outer));
        }
    });
}

#[test]
fn an_eventfd_counts_or_is_a_semaphore() {
    compare(|seen| {
        for flags in [0, libc::EFD_SEMAPHORE] {
            let (event, epoll) = (eventfd(2, flags), epoll());
            let both = EPOLLIN | EPOLLOUT;
            say(seen, "add", control(&epoll, EPOLL_CTL_ADD, &event, both));
            for _ in 0..3 {
                say(seen, "ready", ready(&epoll));
                say(seen, "read", read(&event, 8));
            }
            say(seen, "short", read(&event, 7));
            say(seen, "all", add(&event, u64::MAX));
            say(seen, "most", add(&event, u64::MAX - 1));
            say(seen, "ready", ready(&epoll));
            say(seen, "one more", add(&event, 1));
        }
    });
}

fn option(socket: &Socket, level: c_int, name: c_int) -> Result<c_int, Option<i32>> {
    let (mut value, mut len) = (0, 4);
    // SAFETY: there is room for a number.
    let answer = unsafe {
        let out = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, out, &mut len)
    };
    result(answer as isize).map(|_| value)
}

fn set(socket: &Socket, level: c_int, name: c_int, value: c_int) -> Result<isize, Option<i32>> {
    // SAFETY: the value is a number.
    let answer = unsafe {
        let value = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, name, value, 4)
    };
    result(answer as isize)
}

#[test]
fn options_of_sockets() {
    compare(|seen| {
        let tcp = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let udp = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let (level, all) = (libc::IPPROTO_TCP, libc::SOL_SOCKET);
        let times = [libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT];
        for name in times {
            say(seen, "time", option(&tcp, level, name));
            say(seen, "set", set(&tcp, level, name, 7));
            say(seen, "time", option(&tcp, level, name));
            say(seen, "none", set(&tcp, level, name, 0));
        }
        say(seen, "is on", option(&tcp, all, libc::SO_KEEPALIVE));
        say(seen, "on", set(&tcp, all, libc::SO_KEEPALIVE, 1));
        say(seen, "off", set(&tcp, all, libc::SO_KEEPALIVE, 0));
        say(seen, "time", option(&tcp, level, libc::TCP_KEEPIDLE));
        for time in [5_000, 0, -1] {
            say(seen, "set", set(&tcp, level, libc::TCP_USER_TIMEOUT, time));
            say(seen, "time", option(&tcp, level, libc::TCP_USER_TIMEOUT));
        }
        say(seen, "listens", option(&tcp, all, libc::SO_ACCEPTCONN));
        say(seen, "listen", tcp.listen(1).is_ok());
        say(seen, "listens", option(&tcp, all, libc::SO_ACCEPTCONN));
        say(seen, "listens", option(&udp, all, libc::SO_ACCEPTCONN));
    });
}

#[test]
fn a_read_of_no_bytes_takes_no_datagram() {
    compare(|seen| {
        let (a, b) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        say(seen, "send", a.send(b"x").unwrap());
        let b = OwnedFd::from(b);
        say(seen, "nothing", read(&b, 0));
        say(seen, "all", read(&b, 2));
    });
}

#[test]
fn sockets_are_sockets_for_stat() {
    compare(|seen| {
        for domain in [Domain::IPV4, Domain::UNIX] {
            for kind in [Type::STREAM, Type::DGRAM] {
                let socket = Socket::new(domain, kind, None).unwrap();
                let about = File::from(OwnedFd::from(socket)).metadata().unwrap();
                say(seen, "mode", format!("{:o}", about.mode()));
            }
        }
    });
}

#[test]
fn control_messages_end_where_their_buffer_ends() {
    compare(|seen| {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
        socket.connect(&to.into()).unwrap();
        // SAFETY: it is arithmetic.
        let (len, space) = unsafe { (libc::CMSG_LEN(4), libc::CMSG_SPACE(4)) };
        for (len, room) in [(len, space), (len + 64, space), (len, len - 1), (3, space)] {
            let mut control = [0_u64; 8];
            // SAFETY: it is plain data; the buffer has room for the header and a number.
            let sent = unsafe {
                let mut message: libc::msghdr = mem::zeroed();
                message.msg_control = control.as_mut_ptr().cast();
                message.msg_controllen = room as _;
                let header = &mut *control.as_mut_ptr().cast::<libc::cmsghdr>();
                header.cmsg_len = len as _;
                (header.cmsg_level, header.cmsg_type) = (libc::IPPROTO_IP, libc::IP_TOS);
                libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
            };
            say(seen, "sent", result(sent));
        }
    });
}

#[test]
fn flags_and_owners_of_descriptors() {
    compare(|seen| {
        let event = eventfd(0, 0);
        let call = |command, argument: c_int| {
            // SAFETY: these commands take a number.
            result(unsafe { libc::fcntl(event.as_raw_fd(), command, argument) } as isize)
        };
        say(seen, "owner", call(libc::F_GETOWN, 0));
        say(seen, "below", call(libc::F_DUPFD, -1));
        let copy = call(libc::F_DUPFD_CLOEXEC, 100).unwrap();
        say(seen, "above", copy >= 100);
        drop(owned(copy as RawFd));
        say(seen, "unknown", call(9_999, 0));
    });
}

type Found = Result<(Vec<SocketAddr>, String), c_int>;

/// # Safety
///
/// - It is an address of IPv4 or of IPv6.
unsafe fn address(at: *const libc::sockaddr) -> SocketAddr {
    // SAFETY: by contract it is that of its family.
    unsafe {
        if c_int::from((*at).sa_family) == libc::AF_INET {
            let v4 = &*at.cast::<libc::sockaddr_in>();
            let ip = u32::from_be(v4.sin_addr.s_addr);
            return (std::net::Ipv4Addr::from(ip), u16::from_be(v4.sin_port)).into();
        }
        let v6 = &*at.cast::<libc::sockaddr_in6>();
        let ip = std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr);
        (ip, u16::from_be(v6.sin6_port)).into()
    }
}

/// What `getaddrinfo` finds: addresses with ports, and the canonical name. No text is no node.
fn look(node: &str, service: &str, hints: (c_int, c_int)) -> Found {
    let (node, service) = (CString::new(node).unwrap(), CString::new(service).unwrap());
    // SAFETY: it is plain data; the texts end with NUL; the list is read before it is freed.
    unsafe {
        let mut asks: libc::addrinfo = mem::zeroed();
        (asks.ai_family, asks.ai_flags) = hints;
        asks.ai_socktype = libc::SOCK_STREAM;
        let mut list = ptr::null_mut();
        let node = match node.is_empty() {
            true => ptr::null(),
            false => node.as_ptr(),
        };
        match libc::getaddrinfo(node, service.as_ptr(), &asks, &mut list) {
            0 => {}
            error => return Err(error),
        }
        let name = match (*list).ai_canonname {
            name if name.is_null() => String::new(),
            name => CStr::from_ptr(name).to_str().unwrap().to_owned(),
        };
        let mut found = Vec::new();
        let mut next = list;
        while let Some(one) = next.as_ref() {
            found.push(address(one.ai_addr));
            next = one.ai_next;
        }
        libc::freeaddrinfo(list);
        found.dedup();
        Ok((found, name))
    }
}

#[test]
fn names_of_services_and_hosts() {
    compare(|seen| {
        let any = (libc::AF_INET, 0);
        for service in ["http", "https", "ssh", "80", "no-such-service"] {
            say(seen, service, look("127.0.0.1", service, any));
        }
        let numbers = (libc::AF_INET, libc::AI_NUMERICSERV);
        say(seen, "numeric", look("127.0.0.1", "http", numbers));
        let name = (libc::AF_INET, libc::AI_CANONNAME);
        say(seen, "name", look("127.0.0.1", "80", name));
        say(seen, "family", look("127.0.0.1", "80", (12_345, 0)));
        let passive = (libc::AF_INET, libc::AI_PASSIVE);
        say(seen, "to listen", look("", "80", passive));
        say(seen, "to connect", look("", "80", any));
    });
}

/// musl does not read numbers so.
#[cfg(target_env = "gnu")]
#[test]
fn numbers_of_services_and_families_of_addresses() {
    compare(|seen| {
        let v4 = (libc::AF_INET, 0);
        for service in [
            "",
            "0",
            "+80",
            "-1",
            "-0",
            " 80",
            "80 ",
            "8x",
            "+",
            "-",
            " ",
            "65535",
            "65536",
            "70000",
            "4294967376",
            "2147483648",
            "99999999999999999999999",
            "-99999999999999999999999",
        ] {
            say(seen, service, look("127.0.0.1", service, v4));
            let numeric = (libc::AF_INET, libc::AI_NUMERICSERV);
            say(seen, service, look("127.0.0.1", service, numeric));
        }
        let (mapped, all) = (libc::AI_V4MAPPED, libc::AI_ALL);
        for node in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            for family in [libc::AF_UNSPEC, libc::AF_INET, libc::AF_INET6] {
                for flags in [0, mapped, all, mapped | all, libc::AI_NUMERICHOST] {
                    say(
                        seen,
                        node,
                        (family, flags, look(node, "80", (family, flags))),
                    );
                }
            }
        }
    });
}

#[test]
fn a_poll_of_nothing_sleeps_in_simulated_time() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let begin = Instant::now();
        // SAFETY: there are no entries.
        assert_eq!(unsafe { libc::poll(ptr::null_mut(), 0, 3_600_000) }, 0);
        assert_eq!(begin.elapsed(), Duration::from_secs(3_600));
    });
    sim.try_run().unwrap();
}
