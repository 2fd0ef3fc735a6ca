//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/tcp/).

pub(crate) mod listener;
pub(crate) mod socket;
mod split;
pub(crate) mod stream;

pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
