//! What the `ws` runtime has of the system: descriptors, names of hosts, files, the standard
//! streams, signals, child processes.
//! Users reach it as `ws`.
//!
//! It is a crate of its own for the sake of what stands on it. The adapters of `ws` depend on
//! libraries that depend on tokio, and the package of `compat/tokio` carries tokio's name. So both
//! are above this crate, and nothing in here depends on either. The sockets of `ws::net` are above
//! it as well: adapters give them the traits of other libraries, and only the crate of a type may
//! do that.
//!
//! What is hidden in the documentation is for those two crates.
#![forbid(unsafe_code)]

#[cfg(not(any(unix, windows)))]
compile_error!("ws runs on Unix and Windows: its sockets are in epoll, kqueue and their like");

#[doc(hidden)]
pub mod addr;
mod async_fd;
#[doc(hidden)]
pub mod blocking_io;
mod by_reference;
#[doc(hidden)]
pub mod connect;
#[doc(hidden)]
pub mod current;
pub mod fs;
mod os;
pub mod process;
#[doc(hidden)]
pub mod retry;
pub mod signal;
#[doc(hidden)]
pub mod stdio;

#[doc(hidden)]
pub use futures;

#[doc(hidden)]
pub use self::async_fd::{poll_at_once, vectored_len};
pub use self::{
    addr::{ToSocketAddrs, lookup_host},
    async_fd::AsyncFd,
};
