//! Directories.

use std::{
    future::poll_fn,
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll},
};

use ws_net::{fs as ws, futures::Stream};

use super::{run, runtime};

pub use ws_net::fs::{DirBuilder, DirEntry};

/// The entries of a directory.
///
/// # Errors
///
/// As std's function.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let entries = run(ws::read_dir(path)).await?;
    Ok(ReadDir(entries.on(runtime)))
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/struct.ReadDir.html).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir(ws::ReadDir);

impl ReadDir {
    /// The next entry, or none at the end.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// Polls [`ReadDir::next_entry`].
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        super::poll(cx, |cx| {
            let entry = Pin::new(&mut self.0).poll_next(cx);
            entry.map(Option::transpose)
        })
    }
}
