//! Calls that ask a socket for something: options, readiness, the state of TCP.

use std::{mem, os::fd::RawFd, ptr};

use libc::c_int;

use super::machine::{Answer, answer};

pub(crate) fn set<T>(fd: RawFd, (level, name): (c_int, c_int), value: &T) -> Answer {
    let len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid.
    let done = unsafe { libc::setsockopt(fd, level, name, ptr::from_ref(value).cast(), len) };
    answer(done as isize)
}

pub(crate) fn get(fd: RawFd, (level, name): (c_int, c_int)) -> String {
    let (mut value, mut len) = (0_i32, 4);
    // SAFETY: there is room for a number.
    let done = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut len) };
    format!("{:?} {value} {len}", answer(done as isize))
}

/// The number of the state that TCP's connection is in.
pub(crate) fn tcp_state(fd: RawFd) -> String {
    let (mut state, mut len) = (0_u8, 1);
    // SAFETY: there is room for the first byte, which is the state.
    let done = unsafe {
        let out = (&raw mut state).cast();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, out, &mut len)
    };
    assert_eq!(done, 0);
    // Linux may acknowledge a FIN 40 ms late. So FIN_WAIT2 is FIN_WAIT1 here.
    match state {
        5 => "4".to_owned(),
        state => state.to_string(),
    }
}

pub(crate) fn poll(fd: RawFd) -> i16 {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: it is one valid entry.
    assert!(unsafe { libc::poll(&mut entry, 1, 0) } >= 0);
    entry.revents
}

pub(crate) fn bits(set: u32) -> String {
    let names = [
        (libc::EPOLLIN, "i"),
        (libc::EPOLLOUT, "o"),
        (libc::EPOLLRDHUP, "r"),
        (libc::EPOLLHUP, "h"),
        (libc::EPOLLERR, "e"),
    ];
    let in_set = names.iter().filter(|(bit, _)| set & *bit as u32 != 0);
    in_set.map(|(_, name)| *name).collect()
}

pub(crate) fn sum(data: &[u8]) -> u64 {
    data.iter()
        .fold(0, |sum, byte| (sum * 31 + u64::from(*byte)) % 65_521)
}
