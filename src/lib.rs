//! An async runtime that schedules the way Go does.
//!
//! Tasks are futures, spread over a few threads that steal work from each other. Compute and I/O
//! share them: a task that blocks its thread holds up no other task, because another thread takes
//! over.
//!
//! ```
//! use ws::io::{AsyncReadExt, AsyncWriteExt};
//! use ws::net::{TcpListener, TcpStream};
//!
//! #[ws::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let addr = listener.local_addr()?;
//!     let server = ws::spawn(async move {
//!         let (mut stream, _peer) = listener.accept().await?;
//!         let mut request = [0; 4];
//!         stream.read_exact(&mut request).await?;
//!         stream.write_all(b"pong").await
//!     });
//!
//!     let mut client = TcpStream::connect(addr).await?;
//!     client.write_all(b"ping").await?;
//!     let mut answer = String::new();
//!     client.read_to_string(&mut answer).await?;
//!     assert_eq!(answer, "pong");
//!     server.await.expect("the server does not panic")
//! }
//! ```
//!
//! # Where to find what
//!
//! | to | use |
//! | --- | --- |
//! | start | [`#[ws::main]`](macro@main), [`#[ws::test]`](macro@test), or [`runtime::Builder`] for more knobs |
//! | run something beside | [`spawn`]; [`spawn_local`] or [`task::LocalSet`] if it is not `Send`; [`task`] to await, abort and name it |
//! | block | [`spawn_blocking`], [`block_in_place`] |
//! | compute on several cores | [`join()`] and [`scope`], with closures that borrow; [`fork`] for tasks; [`compute`] to await it |
//! | wait for time | [`time::sleep`], [`time::timeout`], [`time::interval`] |
//! | wait for several futures | [`join!`], [`try_join!`], [`select!`], which are those of `futures` and give way |
//! | talk | [`net`], with the traits of [`io`] |
//! | read and write files, and the standard streams | [`fs`], [`io::stdin`], [`io::stdout`] |
//! | end cleanly | [`signal`] |
//! | wait for a child process | [`process`] |
//!
//! What other crates do well is not here: locks and channels (`futures`, `async-channel`,
//! `async-lock`), TLS (`futures-rustls`).
//!
//! # Other libraries
//!
//! Libraries that take any executor get it by the traits of [`futures::task`], which
//! [`runtime::Handle`] implements, and libraries that take any stream by those of `futures::io`.
//! For those that have traits of their own there is an adapter each, behind a feature of its name:
//!
//! | feature | for |
//! | --- | --- |
//! | `async-rs` | lapin, and others on the `async-rs` crate: `ws::async_rs` |
//! | `hickory` | hickory-resolver: `ws::hickory` |
//! | `hyper` | hyper, and with it axum and tonic: `ws::hyper` |
//! | `hyper-server` | a server for services of hyper, as axum's `Router`: `ws::hyper::Server` |
//! | `hyper-util` | the client of hyper-util: `ws::hyper_util` |
//! | `parallel` | the parallel iterators of orx-parallel: `ws::parallel` |
//! | `quinn` | quinn: `ws::quinn` |
//! | `tokio-io` | what asks for tokio's `AsyncRead` and `AsyncWrite`: `ws::tokio_io` |
//! | `zbus` | zbus: `ws::zbus` |
//!
//! Four more features show what a runtime does:
//!
//! | feature | has |
//! | --- | --- |
//! | `console` | tasks for tokio-console |
//! | `inspect` | `ws::inspect`: a page in the browser |
//! | `metrics` | `ws::metrics`: the runtime's numbers, for the recorder of the crate `metrics` |
//! | `tracing-layer` | `ws::trace::Layer`: the lines of the program's log in the flight recorder |
//!
//! The feature `sim` is for tests, on Linux: `ws::sim` runs whole systems of hosts under one seed,
//! and `#[ws::sim(seeds = 1000)]` writes such a test. `docs/simulation.md` in the repository leads
//! to the first bug. It defines functions of libc for the whole program, so it belongs into
//! `[dev-dependencies]`.
//!
//! `docs/porting.md` in the repository says how to come from tokio, async-std and smol, and what
//! does not work.
//!
//! # How it is scheduled
//!
//! Each thread that runs tasks has a queue of its own and a slot for the task to run next. It looks
//! there first, then in the queue for all, then at the network. Then it steals half of another
//! thread's queue. If there is nothing, it sleeps. The thread that runs `main` is one of them. When
//! a task waits for a socket or a timer it costs no thread, and when it blocks its thread
//! nevertheless, the right to run tasks goes to another.
//!
//! A task that never waits should now and then say [`task::yield_if_due`]: nothing can stop a
//! future in the middle of a poll. Operations and combinators of this crate do that by themselves,
//! and [`task::coop`] makes others do it.
//!
//! # What the scheduler did
//!
//! A runtime records what it does: what is rare or long, or also each spawn, wake and poll, as
//! [`Handle::record`](runtime::Handle::record) says.
//! [`Handle::recording`](runtime::Handle::recording) tells what was last, at any time, without
//! stopping a worker. [`Recording::write_perfetto`](trace::Recording::write_perfetto) makes a
//! picture of it, and [`trace::mark`] and [`trace::span`] add what the program itself has to say.
//!
//! ```
//! use ws::{runtime::Builder, trace::{EventKind, Level}};
//!
//! let runtime = Builder::new().record(Level::Full).build().expect("the system has a netpoll");
//! runtime.block_on(async { ws::spawn(async {}).await.expect("it does not panic") });
//! let recording = runtime.handle().recording();
//! assert!(recording.events.iter().any(|event| event.kind == EventKind::Spawn));
//! println!("{recording}");
//! ```
//!
//! # Systems
//!
//! Unix and Windows. It is tested on Linux, and on Windows under Wine.
//!
//! # The crates below
//!
//! Every dependency points down: this crate has sockets and adapters, and shows what the others
//! have; `ws-net` has descriptors, names of hosts, files, signals and processes; `ws-executor`
//! schedules tasks, and knows no sockets; `ws-queue` has the queues, and `ws-reactor` watches
//! descriptors, and neither knows tasks. `ws-macros` has the attributes, and `ws-sim` the
//! simulation.

// With these features there is one island: `uninit.rs`.
#![cfg_attr(not(any(feature = "hyper", feature = "tokio-io")), forbid(unsafe_code))]

#[cfg(all(feature = "async-rs", unix))]
pub mod async_rs;
mod combinators;
mod delegate;
#[cfg(any(
    feature = "hickory",
    all(unix, any(feature = "async-rs", feature = "zbus"))
))]
mod entered;
#[cfg(feature = "hickory")]
pub mod hickory;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "hyper-util")]
pub mod hyper_util;
#[cfg(feature = "inspect")]
pub mod inspect;
pub mod io;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod net;
mod os;
#[cfg(feature = "parallel")]
pub mod parallel;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "tokio-io")]
pub mod tokio_io;
#[cfg(any(feature = "hyper", feature = "tokio-io"))]
mod uninit;
#[cfg(all(feature = "zbus", unix))]
pub mod zbus;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use ws_executor::trace;
pub use ws_executor::{
    Scope, block_in_place, compute, fork, fork_all, join, runtime, scope, spawn, spawn_blocking,
    spawn_local, spawn_pinned, task, task_local, time,
};
#[cfg(all(feature = "sim", target_os = "linux"))]
pub use ws_macros::sim;
pub use ws_macros::{main, test};
pub use ws_net::{fs, process, signal};
#[cfg(feature = "sim")]
pub use ws_sim as sim;

/// The code in README.md, which rustdoc compiles and runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeCode;

/// The same for docs/seeing.md.
#[cfg(doctest)]
#[doc = include_str!("../docs/seeing.md")]
struct SeeingCode;
