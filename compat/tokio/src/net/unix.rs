//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/unix/).

pub(crate) mod address;
#[doc(hidden)]
pub mod datagram;
pub(crate) mod listener;
pub mod pipe;
pub(crate) mod socket;
mod split;
pub(crate) mod stream;
mod ucred;

pub use self::{
    address::SocketAddr,
    split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf},
    ucred::UCred,
};

/// A user's number.
#[expect(non_camel_case_types, reason = "as tokio's")]
pub type uid_t = u32;

/// A group's number.
#[expect(non_camel_case_types, reason = "as tokio's")]
pub type gid_t = u32;

/// A process's number.
#[expect(non_camel_case_types, reason = "as tokio's")]
pub type pid_t = i32;
