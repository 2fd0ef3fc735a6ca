//! The seam: the functions of libc that a program inside a simulated host calls.
//!
//! # How it works
//!
//! Every way to the outside that Rust code has goes through libc: std, mio, socket2 and the runtime
//! itself call `socket`, `recv`, `epoll_ctl`, `clock_gettime`, `getrandom` and so on. This module
//! defines functions of these names. The linker takes a definition in the program before one in a
//! shared library, so all Rust code of the program calls these.
//!
//! Each of them asks one question first:
//!
//! | function | asks | no |
//! | --- | --- | --- |
//! | that makes something, or tells the time | is this thread in a simulated host? | the system's |
//! | that takes a descriptor | is its number one of ours? | the system's |
//!
//! Numbers of simulated descriptors begin at [`FIRST`], which the system gives to nobody. So types
//! of std and of other libraries hold a simulated socket as they hold any other, and nothing above
//! libc knows of the simulation: not the sockets of the runtime, not tokio's names for them, not a
//! library that was written for neither.
//!
//! # Why here
//!
//! Rejected: sockets that are an enum of two, the system's and the simulated. Each socket type of
//! each layer would have both, so would each adapter; conversions to and from std's types would
//! have no answer; and code that asks std for the time, for random bytes or for a socket would leak
//! out unseen. This seam is needed for time and for random bytes in any case.
//!
//! The price: what a call of libc means is written down here once more, for the calls that Rust
//! code makes, and these functions are in the whole test program: shared libraries call them as
//! well. For real descriptors they make the system call. Unlike libc's they are no points at which
//! `pthread_cancel` ends a thread.
//!
//! # Blocking
//!
//! A call that would have to wait, on a socket that is not in nonblocking mode, answers `EDEADLK`:
//! the thread that would have to wait is the one that everything else runs on. A message says so.
//!
//! # Safety
//!
//! The contract of each function is that of libc's manual page: pointers are valid for what the
//! arguments say. Nothing unwinds out of them: they allocate, and call nothing of the user's.
//!
//! `fcntl`, `ioctl` and `syscall` take a variable number of arguments. Here they take as many as
//! the system call does. On the systems that this is compiled for, a caller passes them the same
//! way.
#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts are those of libc, see the head"
)]

mod addr;
mod by_number;
mod clock;
mod counters;
mod cpus;
mod descriptors;
mod files;
#[cfg(target_env = "gnu")]
mod fortify;
mod fs;
mod identity;
mod interfaces;
mod kept;
pub(crate) mod keys;
mod lists;
mod memory;
mod messages;
mod names;
mod of_c;
mod options;
mod pipes;
mod poll;
mod processes;
mod refused;
mod reverse;
mod sockets;
pub(crate) mod spin;
mod splice;
mod system;
mod terminals;
mod threads;
mod timers;
mod transfer;
mod unix;
mod unsupported;
mod users;
mod waits;

use std::io;

use libc::c_int;

pub(crate) use self::{
    clock::{CALENDAR, calendar},
    files::Files,
};

/// Seconds in C. `libc::time_t` is the same, and deprecated with musl.
type Seconds = libc::c_long;

/// The number of the first simulated descriptor.
pub(crate) const FIRST: c_int = 1 << 28;

/// Whether a descriptor is a simulated one.
fn is_ours(fd: c_int) -> bool {
    fd >= FIRST
}

/// Whether the system has a descriptor of this number.
fn is_of_system(fd: c_int) -> bool {
    // SAFETY: it takes no pointers.
    unsafe { system::call()(libc::SYS_fcntl, fd, libc::F_GETFD) >= 0 }
}

/// Sets `errno`.
fn fails(error: c_int) -> c_int {
    // SAFETY: the place of this thread's `errno`, which is always there.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// The answer of a call without an output.
fn answer(result: io::Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => fails(number(&error)),
    }
}

/// The answer of a call that transfers bytes.
fn transferred(result: io::Result<usize>) -> isize {
    match result {
        Ok(bytes) => bytes as isize,
        Err(error) => fails(number(&error)) as isize,
    }
}

fn number(error: &io::Error) -> c_int {
    let number = error.raw_os_error().unwrap_or(libc::EIO);
    if number == libc::EDEADLK {
        refused::would_wait();
    }
    number
}

/// The answer of a call that would wait for ever.
fn would_wait() -> c_int {
    refused::would_wait();
    fails(libc::EDEADLK)
}

/// Sees to it that the linker takes these functions, and not libc's. Answers whether it has.
///
/// A linker takes a part of a static library only if something refers to it. So this refers to one
/// function of each part, and then asks std for the time.
pub(crate) fn is_linked() -> bool {
    use std::{hint::black_box, time::Instant};

    black_box(clock::PART);
    black_box(cpus::PART);
    black_box(descriptors::PART);
    #[cfg(target_env = "gnu")]
    black_box(fortify::PARTS);
    black_box(fs::PARTS);
    black_box(identity::PART);
    black_box(interfaces::PART);
    black_box(memory::PART);
    black_box(messages::PART);
    black_box(names::PART);
    black_box(of_c::PART);
    black_box(options::PART);
    black_box(pipes::PART);
    black_box(poll::PART);
    black_box(processes::PARTS);
    black_box(unsupported::PARTS);
    black_box(reverse::PARTS);
    black_box(sockets::PART);
    black_box(splice::PART);
    black_box(system::PART);
    black_box(terminals::PART);
    black_box(threads::PART);
    black_box(timers::PART);
    black_box(transfer::PART);
    black_box(unix::PART);
    black_box(users::PARTS);
    black_box(waits::PART);
    let shown = clock::asks();
    black_box(Instant::now());
    clock::asks() > shown
}
