//! A live page: what the runtime does now, in a browser.
//!
//! ```no_run
//! # async fn work() {}
//! #[ws::main]
//! async fn main() -> std::io::Result<()> {
//!     ws::inspect::serve("127.0.0.1:7070").await?;
//!     work().await;
//!     Ok(())
//! }
//! ```
//!
//! Then open <http://127.0.0.1:7070>. The page shows the workers as a timeline that moves, all
//! tasks as a table to sort, filter and search, stalls, counters, and buttons that save a snapshot.
//! `cargo run -p ws-inspect FILE` shows the same page of a snapshot, when the program has ended.
//!
//! From another machine, use a tunnel: `ssh -L 7070:127.0.0.1:7070 HOST`.
//!
//! # Cost
//!
//! While no page is open: one task that waits for connections. While a page is open, the server
//! measures how long each answer takes, and tells the page to wait until that is below 1 % of a
//! core's time, or for 20 seconds. So a program with few tasks is shown twice a second, and one
//! with 100,000 tasks every few seconds; one with a million may pay more. Other clients than the
//! page need not wait: whoever may connect can make the program answer. The table asks for the rows
//! that are on the screen, and the program sorts them.
//!
//! # Security
//!
//! The page shows names and places of the program, to whoever may connect. So:
//!
//! - It listens on loopback alone. Each user of the machine can connect to that.
//! - A request whose `Host` is a name other than `localhost` is refused: so a page of another host
//!   that lets its name point here (DNS rebinding) gets nothing.
//! - A request that a browser marks as made by another page (`Origin`, `Sec-Fetch-Site`) is
//!   refused. There are no CORS headers.
//! - It changes nothing but two things: a snapshot is written, into the folder of
//!   [`Builder::snapshots`](crate::runtime::Builder::snapshots), and while the page asks for *each
//!   poll*, the recorder's level is [`Full`](crate::trace::Level::Full). Both need a token that is
//!   drawn at the start, and which the page has in its text. When the page is closed, the
//!   program's own level holds again.
//! - A snapshot that is downloaded is written to a file without a name, in the folder for temporary
//!   files, and read from there. So it takes little memory, and other users cannot open it.
//! - The page takes names as text, never as markup, and its `Content-Security-Policy` allows no
//!   script but its own.
//! - Heads of requests, bodies, waits and the number of connections have limits.
//!
//! # How it is built
//!
//! | file | has |
//! | --- | --- |
//! | `inspect.rs` | what users call |
//! | `server.rs` | connections, and what is answered to what |
//! | `http.rs` | requests and answers of HTTP/1.1 |
//! | `guard.rs` | which requests are refused |
//! | `source.rs` | what a page is of: a program, or a file |
//! | `rows.rs` | the table of tasks: filtered, sorted, and a part of it |
//! | `live.rs` | a program that runs |
//! | `page.rs`, `page/` | the page: HTML, CSS and JavaScript, put together into one text |
//!
//! What is told of a task, a stall and a runtime is in one table, in the executor's
//! `sched/shown/fields.rs`. A field that is not there is not in the JSON, and the page has no
//! column for it.
//!
//! Rejected:
//!
//! - *hyper, or the server of the feature `hyper-server`.* Whoever wants the page gets a tree of
//!   libraries with it. What is needed is one method with a few paths. `httparse` reads the heads,
//!   since that part is easily done wrong.
//! - *A WebSocket, or server-sent events.* The program would push to a page that nobody looks at. A
//!   page that asks stops by itself when it is hidden, and comes back by itself after a restart.
//! - *All rows in each answer.* 100,000 rows are 10 MB twice a second, for 40 that are seen.
//! - *The whole recording in each answer.* It is 1 MiB for each worker. The rings count their
//!   records, so a reader says how far it got, and is told what is new.
//! - *A level that the page sets and resets by [`Handle::record`].* When the program changes the
//!   level meanwhile, its choice would be lost. The two are kept apart.
//! - *A framework in the page.* It would be a build step, and megabytes to review.
//!
//! Checked by `tests/inspect/` and, in a browser, `tests/browser/`.

mod guard;
mod http;
mod live;
mod page;
mod rows;
mod server;
#[doc(hidden)]
pub mod source;

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use crate::{
    net::{TcpListener, ToSocketAddrs, lookup_host},
    runtime::Handle,
    task::{self, AbortHandle},
};
use source::Source;

/// The name of the server's own tasks.
const TASKS: &str = "ws::inspect";

/// Does something that takes time, beside the workers.
async fn aside<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> io::Result<R> {
    let call = task::Builder::new().name(TASKS).spawn_blocking(f);
    call.await.map_err(io::Error::other)
}

/// A page that is served; see [`serve`]. It is served on when this is dropped.
pub struct Inspect {
    addr: SocketAddr,
    task: AbortHandle,
}

impl fmt::Debug for Inspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspect")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

/// Serves the page of the current runtime, until that ends.
///
/// Returns when it listens; the server is a task of its own. Port 0 takes a free one, which
/// [`Inspect::addr`] tells.
///
/// # Examples
///
/// ```
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let page = ws::inspect::serve("127.0.0.1:0").await?;
/// println!("http://{}", page.addr());
/// # assert_ne!(page.addr().port(), 0);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`InvalidInput`](io::ErrorKind::InvalidInput) if the address is not of loopback: the page is for
/// those who may log in. The errors of [`TcpListener::bind`].
///
/// # Panics
///
/// Outside of a runtime.
pub async fn serve(addr: impl ToSocketAddrs) -> io::Result<Inspect> {
    serve_of(&Handle::current(), addr).await
}

/// Serves the page of some runtime, from the current one: for a program that has several.
///
/// # Examples
///
/// ```
/// # ws::runtime::Runtime::new()?.block_on(async {
/// # let batch = ws::runtime::Runtime::new()?;
/// let page = ws::inspect::serve_of(batch.handle(), "127.0.0.1:0").await?;
/// # page.stop();
/// # batch.shutdown_background();
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Those of [`serve`].
///
/// # Panics
///
/// Outside of a runtime.
pub async fn serve_of(runtime: &Handle, addr: impl ToSocketAddrs) -> io::Result<Inspect> {
    serve_source(live::Live::new(runtime.clone()), addr).await
}

/// Serves the page of a source, such as a file.
#[doc(hidden)]
pub async fn serve_source(source: impl Source, addr: impl ToSocketAddrs) -> io::Result<Inspect> {
    let addrs: Vec<_> = lookup_host(addr).await?.collect();
    if let Some(addr) = addrs.iter().find(|addr| !addr.ip().is_loopback()) {
        return Err(not_loopback(*addr));
    }
    let listener = TcpListener::bind(&addrs[..]).await?;
    let addr = listener.local_addr()?;
    let server = server::run(listener, Arc::new(source))?;
    let task = task::Builder::new().name(TASKS).spawn(server);
    Ok(Inspect {
        addr,
        task: task.abort_handle(),
    })
}

fn not_loopback(addr: SocketAddr) -> io::Error {
    let port = addr.port();
    let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "ws::inspect serves on loopback alone, and {addr} is not of loopback: take {loopback}, \
             and from another machine `ssh -L {port}:{loopback} HOST`"
        ),
    )
}

impl Inspect {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops: nobody is let in any more. Pages that are open see that the server is gone.
    pub fn stop(self) {
        self.task.abort();
    }
}
