//! tokio's API on the `ws` runtime.
//!
//! A program that is written for tokio, with every library it uses, runs on `ws` by two lines in
//! its `Cargo.toml`:
//!
//! ```toml
//! [patch.crates-io]
//! tokio = { git = "https://github.com/ws-runtime/ws" }
//! ```
//!
//! What has no runtime in it (`sync`, the traits and utilities of `io`, the macros, task-locals,
//! the cooperative budget) is tokio's own, from its package. What has one in it is a thin name for
//! what `ws` has. Each item means what tokio's item of that name means, and its documentation is
//! [there](https://docs.rs/tokio/1.54.1). `docs/tokio.md` in the repository says what differs.

#[cfg(not(unix))]
compile_error!("this package runs on Unix: on Windows use tokio itself, or `ws` by its own names");

mod context;
pub mod fs;
pub mod io;
mod large;
#[doc(hidden)]
pub mod macros;
pub mod net;
pub mod process;
pub mod runtime;
pub mod signal;
pub mod stream {}
pub mod sync;
pub mod task;
pub mod time;
mod trace;

pub use task::spawn;
pub use tokio_macros::{main, test};
pub use tokio_real::{join, pin, task_local, try_join};
