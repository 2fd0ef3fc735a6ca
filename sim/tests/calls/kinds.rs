//! Calls of sockets on what is no socket, and on a descriptor that is closed.

use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use libc::c_int;

use super::{compare, epoll, eventfd, owned, result, say};

/// All calls that take a socket, each with arguments that would be good, and some that would not.
fn calls(fd: c_int) -> Vec<(&'static str, Result<isize, Option<i32>>)> {
    let mut space = [0_u8; 64];
    let mut len = 64;
    let (out, from) = (space.as_mut_ptr(), [0_u8; 64].as_ptr());
    let all = libc::SOL_SOCKET;
    // SAFETY: there is room for 64 bytes, and as many to read.
    let mut get = |level, name| unsafe {
        libc::getsockopt(fd, level, name, out.cast(), &raw mut len) as isize
    };
    let options = [
        get(all, libc::SO_LINGER),
        get(all, libc::SO_RCVTIMEO),
        get(all, libc::SO_TYPE),
        get(all, libc::SO_BINDTODEVICE),
        get(libc::IPPROTO_TCP, libc::TCP_CONGESTION),
        get(99, 99),
    ];
    // SAFETY: as above. The address is of no family.
    let set = |name, len| unsafe { libc::setsockopt(fd, all, name, from.cast(), len) as isize };
    let mut seen: Vec<_> = options.map(|got| ("get", result(got))).into();
    for (name, len) in [
        (libc::SO_LINGER, 8),
        (libc::SO_LINGER, 1),
        (libc::SO_SNDTIMEO, 16),
        (libc::SO_BINDTODEVICE, 0),
        (libc::SO_KEEPALIVE, 4),
    ] {
        seen.push(("set", result(set(name, len))));
    }
    let mut len = 64;
    let (name, len) = (out.cast::<libc::sockaddr>(), &raw mut len);
    // SAFETY: as above.
    let done = unsafe {
        [
            ("shut", libc::shutdown(fd, libc::SHUT_RD) as isize),
            ("shut wrong", libc::shutdown(fd, 9) as isize),
            ("listen", libc::listen(fd, 1) as isize),
            (
                "accept",
                libc::accept(fd, ptr::null_mut(), ptr::null_mut()) as isize,
            ),
            (
                "accept wrong",
                libc::accept4(fd, ptr::null_mut(), ptr::null_mut(), 1) as isize,
            ),
            ("name", libc::getsockname(fd, name, len) as isize),
            ("peer", libc::getpeername(fd, name, len) as isize),
            ("bind", libc::bind(fd, from.cast(), 16) as isize),
            ("connect", libc::connect(fd, from.cast(), 16) as isize),
            ("send", libc::send(fd, from.cast(), 1, 0)),
            (
                "send wrong",
                libc::send(fd, from.cast(), 1, libc::MSG_ERRQUEUE),
            ),
            ("receive", libc::recv(fd, out.cast(), 1, 0)),
        ]
    };
    seen.extend(done.map(|(what, done)| (what, result(done))));
    seen
}

#[test]
fn what_is_no_socket_says_so() {
    compare(|seen| {
        let mut both = [-1; 2];
        // SAFETY: there is room for two.
        assert_eq!(unsafe { libc::pipe2(both.as_mut_ptr(), 0) }, 0);
        // SAFETY: it takes no pointers.
        let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) });
        let folder = OwnedFd::from(File::open("/").unwrap());
        let [reader, writer] = both.map(owned);
        let kinds = [epoll(), eventfd(0, 0), timer, reader, writer, folder];
        for (place, fd) in kinds.iter().enumerate() {
            say(seen, &format!("{place}"), calls(fd.as_raw_fd()));
            // SAFETY: it takes no pointers.
            let room = unsafe { libc::fallocate(fd.as_raw_fd(), 0, 0, 1) };
            say(seen, "room", result(room as isize));
        }
    });
}

#[test]
fn what_is_closed_says_so() {
    compare(|seen| {
        let event = eventfd(0, 0);
        // A number that no other test gets in the meantime.
        // SAFETY: the command takes a number.
        let copy = unsafe { libc::fcntl(event.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 950) };
        let closed = owned(copy).as_raw_fd();
        say(seen, "closed", calls(closed));
        // SAFETY: they take no pointers, or null.
        let done = unsafe {
            [
                libc::fcntl(closed, libc::F_GETFL),
                libc::fchmod(closed, 0o600),
                libc::futimens(closed, ptr::null()),
                libc::fchown(closed, 0, 0),
                libc::fsync(closed),
                libc::close(closed),
            ]
            .map(|done| result(done as isize))
        };
        say(seen, "others", done);
        // SAFETY: as above.
        let done = unsafe {
            let none = i32::MAX >> 4; // a number of the system that nobody has
            [
                libc::fchmod(none, 0o600),
                libc::futimens(none, ptr::null()),
                libc::fchown(none, 0, 0),
            ]
            .map(|done| result(done as isize))
        };
        say(seen, "none", done);
    });
}

#[test]
fn a_length_of_an_option_is_checked() {
    compare(|seen| {
        // SAFETY: it takes no pointers.
        let socket = owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) });
        let (fd, all) = (socket.as_raw_fd(), libc::SOL_SOCKET);
        let (mut value, mut len) = (0, u32::MAX);
        // SAFETY: the value has no room for so many bytes, and none is written.
        unsafe {
            let out = (&raw mut value as *mut c_int).cast();
            let got = libc::getsockopt(fd, all, libc::SO_TYPE, out, &raw mut len);
            say(seen, "negative", result(got as isize));
            let got = libc::getsockopt(fd, all, libc::SO_TYPE, out, ptr::null_mut());
            say(seen, "null", result(got as isize));
            let set = libc::setsockopt(fd, all, libc::SO_KEEPALIVE, out, u32::MAX);
            say(seen, "set", result(set as isize));
        }
        let mut time = libc::timeval {
            tv_sec: -5,
            tv_usec: 7,
        };
        let mut len = 16;
        // SAFETY: the time has as many bytes.
        unsafe {
            let place = (&raw mut time).cast();
            let set = libc::setsockopt(fd, all, libc::SO_RCVTIMEO, place, len);
            say(seen, "before", result(set as isize));
            libc::getsockopt(fd, all, libc::SO_RCVTIMEO, place, &raw mut len);
        }
        say(seen, "time", (time.tv_sec, time.tv_usec));
    });
}
