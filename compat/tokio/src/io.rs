//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/io/).

pub(crate) mod buf;
mod stdio;

pub use tokio_real::io::*;

pub use self::stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
