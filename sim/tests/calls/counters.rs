//! Counts of eventfds and timerfds, and what else is no stream of bytes.

use std::os::fd::{AsRawFd, OwnedFd};

use libc::{EPOLL_CTL_ADD, EPOLLET, EPOLLOUT, c_int, iovec};

use super::{add, compare, control, epoll, eventfd, owned, read, ready, result, say};

fn parts(of: &mut [u8], len: usize) -> Vec<iovec> {
    of.chunks_mut(len)
        .map(|part| iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        })
        .collect()
}

#[test]
fn a_read_of_a_full_eventfd_makes_room_for_those_that_wait() {
    for edges in [0, EPOLLET] {
        let program = match edges {
            0 => |seen: &mut Vec<String>| full(seen, 0),
            _ => |seen: &mut Vec<String>| full(seen, EPOLLET),
        };
        compare(program);
    }
}

fn full(seen: &mut Vec<String>, edges: c_int) {
    let counter = eventfd(0, libc::EFD_NONBLOCK);
    say(seen, "fill", add(&counter, u64::MAX - 1));
    let epoll = epoll();
    let added = control(&epoll, EPOLL_CTL_ADD, &counter, EPOLLOUT | edges);
    say(seen, "watch", added);
    say(seen, "full", ready(&epoll));
    say(seen, "read", read(&counter, 8));
    say(seen, "room", ready(&epoll));
}

#[test]
fn a_count_goes_into_several_buffers_and_comes_from_several() {
    compare(|seen| {
        // SAFETY: it takes no pointers.
        let timer =
            owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK) });
        for (fd, len) in [
            (&eventfd(3, libc::EFD_NONBLOCK), 4),
            (&eventfd(3, libc::EFD_NONBLOCK), 8),
            (&timer, 4),
        ] {
            let mut bytes = [0; 16];
            let lists = parts(&mut bytes, len);
            // SAFETY: the list has buffers of as many bytes as it says.
            unsafe {
                let (list, count) = (lists.as_ptr(), lists.len() as c_int);
                say(
                    seen,
                    "read",
                    result(libc::readv(fd.as_raw_fd(), list, count)),
                );
                say(
                    seen,
                    "nothing",
                    result(libc::readv(fd.as_raw_fd(), list, 1)),
                );
                say(
                    seen,
                    "write",
                    result(libc::writev(fd.as_raw_fd(), list, count)),
                );
            }
            say(seen, "bytes", bytes);
        }
    });
}

#[test]
fn what_waits_to_be_read_is_asked_of_streams_alone() {
    compare(|seen| {
        // SAFETY: these take no pointers but a path.
        let others = unsafe {
            [
                libc::timerfd_create(libc::CLOCK_MONOTONIC, 0),
                libc::epoll_create1(0),
                libc::open(c"/dev/urandom".as_ptr(), libc::O_RDONLY),
            ]
        };
        let others = others.into_iter().map(owned);
        for fd in Vec::<OwnedFd>::from_iter(others.chain([eventfd(0, 0)])) {
            let mut count: c_int = -1;
            // SAFETY: there is room for the number.
            let answer = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut count) };
            say(seen, "waits", result(answer as isize));
        }
    });
}

#[test]
fn a_number_that_is_no_signal_is_refused() {
    compare(|seen| {
        for signal in [-1, 65, 99] {
            // SAFETY: it takes no pointers.
            let answer = unsafe { libc::kill(libc::getpid(), signal) };
            say(seen, "kill", result(answer as isize));
        }
    });
}
