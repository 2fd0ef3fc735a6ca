//! What a number of a descriptor has: its flag, its end, and what it is asked by libc alone.

use std::{
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
    time::{Duration, Instant},
};

use libc::{c_int, c_uint};
use socket2::{Domain, Socket, Type};

use super::{
    compare,
    descriptors::{pipe, write},
    epoll, eventfd, owned, result, say,
};

unsafe extern "C" {
    fn sockatmark(fd: c_int) -> c_int;
    fn isfdtype(fd: c_int, kind: c_int) -> c_int;
    #[cfg(target_env = "gnu")]
    fn closefrom(first: c_int);
}

fn flag(fd: RawFd) -> Result<isize, Option<c_int>> {
    // SAFETY: the command takes no argument.
    result(unsafe { libc::fcntl(fd, libc::F_GETFD) } as isize)
}

/// New descriptors of all kinds: how each is called, and its number.
fn all(closes: bool) -> Vec<(&'static str, RawFd)> {
    let with = |flag: c_int| if closes { flag } else { 0 };
    let (mut ends, mut pair) = ([-1; 2], [-1; 2]);
    // SAFETY: the text ends with NUL, and there is room for two.
    let all = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), with(libc::O_CLOEXEC)), 0);
        let kind = libc::SOCK_STREAM | with(libc::SOCK_CLOEXEC);
        assert_eq!(
            libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()),
            0
        );
        let folder = libc::O_DIRECTORY | with(libc::O_CLOEXEC);
        let file = libc::O_TMPFILE | libc::O_RDWR | with(libc::O_CLOEXEC);
        let random = with(libc::O_CLOEXEC);
        [
            ("tcp", libc::socket(libc::AF_INET, kind, 0)),
            ("unix", libc::socket(libc::AF_UNIX, kind, 0)),
            ("pair", pair[0]),
            ("pair", pair[1]),
            ("reader", ends[0]),
            ("writer", ends[1]),
            ("eventfd", libc::eventfd(0, with(libc::EFD_CLOEXEC))),
            ("timer", libc::timerfd_create(1, with(libc::TFD_CLOEXEC))),
            ("epoll", libc::epoll_create1(with(libc::EPOLL_CLOEXEC))),
            ("folder", libc::open(c"/tmp".as_ptr(), folder)),
            ("file", libc::open(c"/tmp".as_ptr(), file, 0o600)),
            ("random", libc::open(c"/dev/urandom".as_ptr(), random)),
        ]
    };
    all.into()
}

#[test]
fn a_descriptor_closes_on_exec_if_the_caller_asks() {
    compare(|seen| {
        for closes in [false, true] {
            for (name, fd) in all(closes) {
                say(seen, name, flag(fd));
                // SAFETY: these take no pointers.
                let copies = unsafe {
                    [
                        libc::dup(fd),
                        libc::fcntl(fd, libc::F_DUPFD, 0),
                        libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0),
                    ]
                };
                say(seen, "copies", copies.map(flag));
                // SAFETY: these take no pointers.
                let set = unsafe {
                    [
                        libc::ioctl(fd, libc::FIONCLEX),
                        libc::fcntl(fd, libc::F_GETFD),
                        libc::ioctl(fd, libc::FIOCLEX),
                        libc::fcntl(fd, libc::F_GETFD),
                        libc::fcntl(fd, libc::F_SETFD, 0),
                        libc::fcntl(fd, libc::F_GETFD),
                        libc::fcntl(fd, libc::F_SETFD, -1),
                        libc::fcntl(fd, libc::F_GETFD),
                    ]
                };
                say(seen, "set", set);
                for fd in copies.into_iter().chain([fd]) {
                    drop(owned(fd));
                }
            }
        }
    });
}

#[test]
fn a_connection_that_is_accepted_has_a_flag_of_its_own() {
    compare(|seen| {
        let name = format!("\0numbers {}", std::process::id());
        let to = socket2::SockAddr::unix(name).unwrap();
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&to).unwrap();
        listener.listen(2).unwrap();
        for flags in [0, libc::SOCK_CLOEXEC] {
            let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            client.connect(&to).unwrap();
            let (fd, null) = (listener.as_raw_fd(), ptr::null_mut());
            // SAFETY: the address may be null.
            let fd = owned(unsafe { libc::accept4(fd, null, null.cast(), flags) });
            say(seen, "accepted", (flags, flag(fd.as_raw_fd())));
        }
        say(seen, "closed", flag(-1));
        say(seen, "eventfd", flag(eventfd(0, 0).as_raw_fd()));
        say(seen, "epoll", flag(epoll().as_raw_fd()));
    });
}

#[test]
fn a_range_of_descriptors_is_closed_at_once() {
    compare(|seen| {
        let range = |first: RawFd, last: RawFd, flags: c_uint| {
            let (first, last) = (first as c_uint, last as c_uint);
            // SAFETY: what is closed here nobody uses later.
            let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
            result(done as isize)
        };
        let (reader, writer) = pipe(0);
        // Outside of a host, no other test has a number as high: one is closed twice.
        // SAFETY: the command takes a number.
        let high = |fd: &OwnedFd| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, 900) };
        let (first, last) = (high(&reader), high(&writer));
        say(seen, "order", range(last + 1, last, 0));
        say(seen, "flags", range(first, first, 1));
        say(seen, "mark", range(first, first, libc::CLOSE_RANGE_CLOEXEC));
        say(seen, "marked", (flag(first), flag(last)));
        say(seen, "close", range(first, first, 0));
        say(seen, "closed", (flag(first), flag(last)));
        say(seen, "again", range(first, first, 0));
        say(seen, "other", range(last, last, libc::CLOSE_RANGE_UNSHARE));
        say(seen, "closed", flag(last));
    });
}

/// Outside of a host it would close what other tests have open.
#[cfg(target_env = "gnu")]
#[test]
fn a_host_closes_its_own_descriptors() {
    let sim = ws_sim::Sim::new(1);
    let (tells, told) = std::sync::mpsc::channel();
    sim.client("other", async move {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        ws::time::sleep(std::time::Duration::from_secs(2)).await;
        write(&writer, 1).unwrap();
        tells.send(super::read(&reader, 1).0).unwrap();
    });
    sim.client("host", async {
        ws::time::sleep(std::time::Duration::from_secs(1)).await;
        let all = all(false);
        let first = all.iter().map(|(_, fd)| *fd).min().unwrap();
        // SAFETY: nobody uses these descriptors later.
        unsafe { closefrom(first) };
        for (name, fd) in all {
            // SAFETY: it takes no pointers.
            assert_eq!(unsafe { libc::dup(fd) }, -1, "{name}");
        }
        assert_ne!(flag(2), Err(Some(libc::EBADF)), "it is the machine's");
    });
    sim.try_run().unwrap();
    assert_eq!(told.recv(), Ok(Ok(1)));
}

#[test]
fn what_is_no_terminal_says_so() {
    compare(|seen| {
        // SAFETY: plain data.
        let mut about: libc::termios = unsafe { std::mem::zeroed() };
        let mut text = [0; 64];
        for (name, fd) in all(true).into_iter().chain([("closed", -1)]) {
            // SAFETY: there is room for what each of them writes.
            let answers = unsafe {
                [
                    libc::tcgetattr(fd, &raw mut about),
                    libc::tcsetattr(fd, libc::TCSANOW, &raw const about),
                    libc::tcsendbreak(fd, 0),
                    libc::tcdrain(fd),
                    libc::tcflush(fd, libc::TCIFLUSH),
                    libc::tcflow(fd, libc::TCOON),
                    libc::tcgetpgrp(fd),
                    libc::tcsetpgrp(fd, 1),
                    libc::tcgetsid(fd),
                ]
                .map(|answer| result(answer as isize))
            };
            say(seen, name, answers);
            // SAFETY: as above.
            unsafe {
                say(seen, "isatty", (libc::isatty(fd), result(-1)));
                say(seen, "ttyname", (libc::ttyname(fd).is_null(), result(-1)));
                say(
                    seen,
                    "ttyname_r",
                    libc::ttyname_r(fd, text.as_mut_ptr(), 64),
                );
            }
            if fd >= 0 {
                drop(owned(fd));
            }
        }
    });
}

#[test]
fn kinds_of_descriptors_and_urgent_data() {
    compare(|seen| {
        for (name, fd) in all(true).into_iter().chain([("closed", -1)]) {
            for kind in [libc::S_IFSOCK, libc::S_IFIFO, libc::S_IFREG, libc::S_IFDIR] {
                // SAFETY: it takes no pointers.
                let is = unsafe { isfdtype(fd, kind as c_int) };
                say(seen, name, result(is as isize));
            }
            // SAFETY: it takes no pointers.
            say(seen, "mark", result(unsafe { sockatmark(fd) } as isize));
            if fd >= 0 {
                drop(owned(fd));
            }
        }
    });
}

#[test]
fn calls_by_number_have_their_flags_and_places() {
    compare(|seen| {
        let (a, b) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        a.send(b"hello").unwrap();
        let (fd, mut bytes) = (b.as_raw_fd(), [0_u8; 5]);
        let name = format!("\0numbers 2 {}", std::process::id());
        let to = socket2::SockAddr::unix(name).unwrap();
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&to).unwrap();
        listener.listen(2).unwrap();
        let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        client.connect(&to).unwrap();
        let begin = Instant::now();
        // SAFETY: there is room for what is written, and other pointers are null.
        unsafe {
            let (call, at) = (libc::SYS_recvfrom, bytes.as_mut_ptr());
            for flags in [libc::MSG_PEEK, 0, libc::MSG_DONTWAIT] {
                let got = libc::syscall(call, fd, at, 5_usize, flags, 0_usize, 0_usize);
                say(seen, "received", result(got as isize));
            }
            let (call, flags) = (libc::SYS_accept4, libc::SOCK_NONBLOCK);
            let fd = libc::syscall(call, listener.as_raw_fd(), 0_usize, 0_usize, flags);
            let fd = owned(fd as RawFd);
            let mode = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
            say(seen, "does not wait", mode & libc::O_NONBLOCK != 0);
            let (call, clock) = (libc::SYS_clock_nanosleep, libc::CLOCK_MONOTONIC);
            let mut now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            libc::clock_gettime(clock, &raw mut now);
            let slept = libc::syscall(call, clock, libc::TIMER_ABSTIME, &raw const now, 0_usize);
            say(seen, "slept until now", result(slept as isize));
            let file = libc::O_TMPFILE | libc::O_RDWR;
            let file = owned(libc::open(c"/tmp".as_ptr(), file, 0o600));
            let put = libc::pwrite(file.as_raw_fd(), c"0123456789".as_ptr().cast(), 10, 0);
            say(seen, "wrote", result(put));
            let read = libc::syscall(libc::SYS_pread64, file.as_raw_fd(), at, 5_usize, 3_i64);
            say(seen, "read", (result(read as isize), bytes));
        }
        say(seen, "short", begin.elapsed() < Duration::from_secs(60));
    });
}

#[test]
fn other_calls_by_number_have_all_their_arguments() {
    compare(|seen| {
        let name = format!("\0numbers 3 {}", std::process::id());
        let to = socket2::SockAddr::unix(name).unwrap();
        let receiver = Socket::new(Domain::UNIX, Type::DGRAM, None).unwrap();
        receiver.bind(&to).unwrap();
        let sender = Socket::new(Domain::UNIX, Type::DGRAM, None).unwrap();
        let (fd, event) = (sender.as_raw_fd(), eventfd(0, 0));
        // SAFETY: the address is valid for its length, and the text has as many bytes.
        unsafe {
            let file = libc::O_TMPFILE | libc::O_RDWR;
            let file = owned(libc::open(c"/tmp".as_ptr(), file, 0o600));
            let (file, text) = (file.as_raw_fd(), c"0123456789".as_ptr());
            say(seen, "write", result(libc::write(file, text.cast(), 10)));
            let (at, len) = (to.as_ptr(), to.len() as usize);
            let sent = libc::syscall(libc::SYS_sendto, fd, text, 5_usize, 0_usize, at, len);
            say(seen, "sent", result(sent as isize));
            for from in [libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END] {
                let found = libc::syscall(libc::SYS_lseek, file, 3_i64, from);
                say(seen, "sought", result(found as isize));
            }
            let (keeps, call) = (libc::FALLOC_FL_KEEP_SIZE, libc::SYS_fallocate);
            let done = libc::syscall(call, file, keeps, 0_i64, 5_000_i64);
            say(seen, "room", result(done as isize));
            let end = libc::lseek(file, 0, libc::SEEK_END);
            say(seen, "end", end);
            // SAFETY: the number is a new one, which nothing else has.
            let other = libc::fcntl(event.as_raw_fd(), libc::F_DUPFD, 0);
            let flags = libc::O_NONBLOCK;
            let copied = libc::syscall(libc::SYS_dup3, event.as_raw_fd(), other, flags);
            say(seen, "wrong flags", result(copied as isize));
            drop(owned(other));
        }
    });
}
