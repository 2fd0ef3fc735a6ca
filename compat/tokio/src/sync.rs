//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/sync/), which this is, but for the senders of
//! [`mpsc`] and for [`watch`].

pub use tokio_real::sync::*;

pub mod mpsc;
pub mod watch;
