//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/).

mod interest;
mod ready;
pub mod unix;

pub use tokio_real::io::*;

pub use self::{interest::Interest, ready::Ready};
