//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/).

mod interest;
mod ready;
mod stdio;
pub mod unix;

pub use tokio_real::io::*;

pub use self::{
    interest::Interest,
    ready::Ready,
    stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout},
};
