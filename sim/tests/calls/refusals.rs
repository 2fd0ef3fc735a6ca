//! Kinds of sockets, and arguments of other calls, that Linux does not know.

use std::ptr;

use libc::c_int;

use super::{compare, owned, result, say};

/// The answer of a call that gives a new descriptor: zero, or its error.
fn made(fd: c_int) -> Result<isize, Option<i32>> {
    let answer = result(fd.min(0) as isize);
    if fd >= 0 {
        drop(owned(fd));
    }
    answer
}

#[test]
fn kinds_of_sockets() {
    compare(|seen| {
        let kinds = [
            0,
            libc::SOCK_STREAM,
            libc::SOCK_DGRAM,
            4,
            libc::SOCK_SEQPACKET,
            7,
            11,
            15,
            77,
            -1,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            libc::SOCK_STREAM | 1 << 20,
        ];
        for domain in [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX] {
            for kind in kinds {
                for protocol in [
                    0,
                    1,
                    libc::IPPROTO_TCP,
                    libc::IPPROTO_UDP,
                    255,
                    263,
                    300,
                    -1,
                ] {
                    // A socket for ICMP is the group's whom the machine lets have one.
                    let is_ping = kind == libc::SOCK_DGRAM && protocol == 1;
                    if is_ping && domain != libc::AF_UNIX {
                        continue;
                    }
                    // SAFETY: it takes no pointers.
                    let fd = unsafe { libc::socket(domain, kind, protocol) };
                    say(seen, "socket", (domain, kind, protocol, made(fd)));
                }
                let mut both = [-1; 2];
                // SAFETY: there is room for two.
                let done = unsafe { libc::socketpair(domain, kind, 0, both.as_mut_ptr()) };
                say(seen, "pair", (domain, kind, result(done as isize)));
                // What failed may have written numbers nevertheless.
                if done == 0 {
                    drop(both.map(owned));
                }
            }
        }
    });
}

#[test]
fn flags_of_random_bytes() {
    compare(|seen| {
        for flags in 0..9 {
            for len in [0, 1] {
                let mut byte = 0_u8;
                // SAFETY: there is room for a byte.
                let got = unsafe { libc::getrandom((&raw mut byte).cast(), len, flags) };
                say(seen, "bytes", (flags, result(got)));
            }
        }
        // SAFETY: there is room for nothing.
        let got = unsafe { libc::getrandom(ptr::null_mut(), 0, 99) };
        say(seen, "bytes", result(got));
    });
}

/// The children of the test are none of those that are asked for.
#[test]
fn arguments_of_waits() {
    compare(|seen| {
        let options = [
            libc::WNOHANG,
            libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED,
            libc::WNOHANG | libc::__WALL,
            libc::WNOHANG | libc::WEXITED,
            libc::WNOHANG | libc::WNOWAIT,
            99,
            1 << 20,
        ];
        for options in options {
            for pid in [1, c_int::MIN, c_int::MAX] {
                // SAFETY: the places may be null.
                let waited = unsafe { libc::waitpid(pid, ptr::null_mut(), options) };
                say(seen, "wait", (pid, options, result(waited as isize)));
            }
            for kind in [libc::P_PID, libc::P_PGID, libc::P_PIDFD, 99] {
                for id in [1, 0x7fff_ffff, 0, u32::MAX] {
                    // A group of number zero is the test's own.
                    if kind == libc::P_PGID && id == 0 {
                        continue;
                    }
                    // SAFETY: the place may be null.
                    let waited = unsafe { libc::waitid(kind, id, ptr::null_mut(), options) };
                    let options = options as u32;
                    say(seen, "waitid", (kind, id, options, result(waited as isize)));
                }
            }
        }
    });
}
