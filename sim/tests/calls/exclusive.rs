//! What `epoll_ctl` checks, and what a descriptor without a place answers.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT,
    EPOLLOUT, EPOLLPRI, EPOLLRDHUP, c_int,
};
use socket2::{Domain, Socket, Type};

use super::{
    add, compare, control,
    descriptors::{pipe, write},
    epoll, eventfd, owned, read, ready, result, say,
};

#[test]
fn an_exclusive_watch_is_not_changed() {
    compare(|seen| {
        let (epoll, other, (reader, writer)) = (epoll(), epoll(), pipe(libc::O_NONBLOCK));
        let both = EPOLLEXCLUSIVE | EPOLLIN;
        for more in [EPOLLONESHOT, EPOLLRDHUP, EPOLLPRI, EPOLLOUT | EPOLLET] {
            let added = control(&epoll, EPOLL_CTL_ADD, &reader, both | more);
            say(seen, "add", added);
        }
        say(seen, "write", write(&writer, 1));
        say(seen, "ready", ready(&epoll));
        say(seen, "again", control(&epoll, EPOLL_CTL_ADD, &reader, both));
        for events in [both, EPOLLIN, EPOLLIN | EPOLLONESHOT] {
            say(
                seen,
                "change",
                control(&epoll, EPOLL_CTL_MOD, &reader, events),
            );
        }
        say(seen, "ready", ready(&epoll));
        say(
            seen,
            "remove",
            control(&epoll, EPOLL_CTL_DEL, &reader, both),
        );
        say(
            seen,
            "remove",
            control(&epoll, EPOLL_CTL_DEL, &reader, both),
        );
        say(
            seen,
            "change",
            control(&epoll, EPOLL_CTL_MOD, &reader, both),
        );
        say(
            seen,
            "change",
            control(&epoll, EPOLL_CTL_MOD, &reader, EPOLLIN),
        );
        say(
            seen,
            "an epoll",
            control(&epoll, EPOLL_CTL_ADD, &other, both),
        );
        say(seen, "itself", control(&epoll, EPOLL_CTL_ADD, &epoll, both));
        say(
            seen,
            "no epoll",
            control(&reader, EPOLL_CTL_ADD, &epoll, both),
        );
        say(seen, "unknown", control(&epoll, 9, &reader, EPOLLIN));
    });
}

#[test]
fn what_cannot_be_watched_says_so() {
    fn call(epoll: RawFd, call: c_int, fd: RawFd, has_event: bool) -> Result<isize, Option<i32>> {
        let mut event = libc::epoll_event { events: 1, u64: 0 };
        let event = if has_event {
            &raw mut event
        } else {
            std::ptr::null_mut()
        };
        // SAFETY: the event is valid, or null.
        result(unsafe { libc::epoll_ctl(epoll, call, fd, event) } as isize)
    }
    compare(|seen| {
        let (epoll, event) = (epoll(), eventfd(0, 0));
        let closed = eventfd(0, 0).as_raw_fd();
        // SAFETY: the text ends with NUL.
        let folder = owned(unsafe { libc::open(c"/tmp".as_ptr(), libc::O_RDONLY) });
        for what in [EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, 9] {
            let own = epoll.as_raw_fd();
            for fd in [-1, closed, folder.as_raw_fd(), own, event.as_raw_fd()] {
                for has_event in [false, true] {
                    say(seen, "watch", call(own, what, fd, has_event));
                    say(
                        seen,
                        "no epoll",
                        call(event.as_raw_fd(), what, fd, has_event),
                    );
                    say(seen, "closed", call(-1, what, fd, has_event));
                }
            }
        }
    });
}

#[test]
fn flags_of_new_descriptors_are_checked() {
    compare(|seen| {
        for flags in [1, 0x10, libc::O_NONBLOCK, libc::O_CLOEXEC, -1] {
            // SAFETY: these take no pointers.
            let made = unsafe { [libc::epoll_create1(flags), libc::eventfd(0, flags)] };
            for fd in made {
                say(seen, "made", result(fd.min(0) as isize));
                if fd >= 0 {
                    drop(owned(fd));
                }
            }
        }
        // SAFETY: it takes no pointers.
        say(
            seen,
            "size",
            result(unsafe { libc::epoll_create(0) } as isize),
        );
    });
}

#[test]
fn a_count_has_eight_bytes() {
    compare(|seen| {
        let event = eventfd(0, 0);
        for len in [0, 7, 8, 9, 16] {
            let numbers = [1_u64; 2];
            // SAFETY: there are as many bytes.
            let done = unsafe { libc::write(event.as_raw_fd(), numbers.as_ptr().cast(), len) };
            say(seen, "write", (len, result(done)));
        }
        say(seen, "add", add(&event, 2));
        say(seen, "read", read(&event, 16));
    });
}

/// Descriptors that are no files of a disk.
fn others() -> Vec<OwnedFd> {
    let (reader, writer) = pipe(libc::O_NONBLOCK);
    let (a, b) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    let tcp = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // SAFETY: it takes no pointers.
    let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) });
    vec![
        eventfd(3, 0),
        timer,
        epoll(),
        reader,
        writer,
        a.into(),
        b.into(),
        tcp.into(),
    ]
}

#[test]
fn what_has_no_place_is_sought() {
    compare(|seen| {
        for fd in others() {
            let fd = fd.as_raw_fd();
            for from in [
                libc::SEEK_SET,
                libc::SEEK_CUR,
                libc::SEEK_END,
                libc::SEEK_HOLE,
                9,
            ] {
                for by in [0, 5, -5] {
                    // SAFETY: it takes no pointers.
                    let at = unsafe { libc::lseek(fd, by, from) };
                    say(seen, "seek", result(at as isize));
                }
            }
        }
    });
}

#[test]
fn what_is_no_file_may_be_changed() {
    compare(|seen| {
        // The files of an eventfd, a timer and an epoll are one for the whole machine.
        for fd in others().into_iter().skip(3) {
            let fd = fd.as_raw_fd();
            let times = [libc::timespec {
                tv_sec: 1,
                tv_nsec: 0,
            }; 2];
            let wrong = [libc::timespec {
                tv_sec: 1,
                tv_nsec: -1,
            }; 2];
            // SAFETY: there are two times.
            unsafe {
                say(seen, "mode", result(libc::fchmod(fd, 0o600) as isize));
                say(
                    seen,
                    "times",
                    result(libc::futimens(fd, times.as_ptr()) as isize),
                );
                say(
                    seen,
                    "times",
                    result(libc::futimens(fd, wrong.as_ptr()) as isize),
                );
                for command in [libc::LOCK_SH, libc::LOCK_EX, libc::LOCK_UN, 0, 16] {
                    let locked = libc::flock(fd, command | libc::LOCK_NB);
                    say(seen, "lock", result(locked as isize));
                }
            }
        }
    });
}

#[test]
fn a_unix_socket_tells_what_was_not_read() {
    fn waits(fd: &impl AsRawFd) -> (Result<isize, Option<i32>>, bool) {
        let mut count: c_int = -1;
        // SAFETY: there is room for the number.
        let told = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
        // What a message is charged with is the machine's.
        (result(told as isize), count > 0)
    }
    compare(|seen| {
        for kind in [Type::STREAM, Type::DGRAM, Type::SEQPACKET] {
            let (a, b) = Socket::pair(Domain::UNIX, kind, None).unwrap();
            say(seen, "nothing", waits(&a));
            say(seen, "send", a.send(b"hello").unwrap());
            say(seen, "unread", (waits(&a), waits(&b)));
            let b = OwnedFd::from(b);
            say(seen, "read", read(&b, 9));
            say(seen, "nothing", waits(&a));
        }
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        say(seen, "new", waits(&listener).0);
        let name = format!("\0exclusive {}", std::process::id());
        listener
            .bind(&socket2::SockAddr::unix(name).unwrap())
            .unwrap();
        listener.listen(1).unwrap();
        say(seen, "listens", waits(&listener).0);
        let (reader, _writer) = pipe(0);
        say(seen, "a pipe", waits(&reader).0);
    });
}

#[test]
fn each_descriptor_that_is_ready_has_its_turn() {
    compare(|seen| {
        let (outer, events) = (epoll(), [(); 3].map(|()| eventfd(1, 0)));
        for (data, event) in (1..).zip(&events) {
            let mut wants = libc::epoll_event {
                events: EPOLLIN as u32,
                u64: data,
            };
            let (outer, fd) = (outer.as_raw_fd(), event.as_raw_fd());
            // SAFETY: the event is valid.
            let added = unsafe { libc::epoll_ctl(outer, EPOLL_CTL_ADD, fd, &mut wants) };
            say(seen, "add", result(added as isize));
        }
        for _ in 0..7 {
            let mut one = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: there is room for one.
            let count = unsafe { libc::epoll_wait(outer.as_raw_fd(), &mut one, 1, 0) };
            say(seen, "ready", (count, { one.u64 }));
        }
    });
}
