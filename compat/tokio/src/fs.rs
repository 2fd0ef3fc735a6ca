//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/).
