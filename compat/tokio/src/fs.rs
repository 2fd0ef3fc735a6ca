//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/). These are names for `ws::fs`, with
//! tokio's budget and tokio's errors.

mod dir;
mod file;
mod open_options;

use std::{
    fs::{Metadata, Permissions},
    future::{Future, poll_fn},
    io,
    path::{Path, PathBuf},
    pin::pin,
    task::{Context, Poll},
};

use ws_net::{blocking_io::is_lost, fs as ws};

pub use self::{
    dir::{DirBuilder, DirEntry, ReadDir, read_dir},
    file::{File, FileTimes},
    open_options::OpenOptions,
};
use crate::{runtime::Handle, task::poll_unbudgeted};

/// Where operations on files are run.
#[track_caller]
fn runtime() -> ws_executor::runtime::Handle {
    Handle::current().ws
}

/// Awaits an operation of `ws`.
///
/// # Panics
///
/// Outside of a runtime.
async fn run<T>(operation: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    drop(runtime());
    let mut operation = pin!(operation);
    poll_fn(|cx| poll(cx, |cx| operation.as_mut().poll(cx))).await
}

/// Polls an operation of `ws`.
fn poll<T>(
    cx: &mut Context<'_>,
    operation: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> Poll<io::Result<T>> {
    poll_unbudgeted(cx, operation).map_err(|error| {
        if is_lost(&error) {
            io::Error::other("background task failed")
        } else {
            error
        }
    })
}

macro_rules! functions {
    ($($name:ident($($path:ident),+) -> $output:ty;)+) => {$(
        /// See `ws::fs`.
        ///
        /// # Errors
        ///
        /// As std's function.
        pub async fn $name($($path: impl AsRef<Path>),+) -> io::Result<$output> {
            run(ws::$name($($path),+)).await
        }
    )+};
}

functions! {
    canonicalize(path) -> PathBuf;
    copy(from, to) -> u64;
    create_dir(path) -> ();
    create_dir_all(path) -> ();
    hard_link(original, link) -> ();
    metadata(path) -> Metadata;
    read(path) -> Vec<u8>;
    read_link(path) -> PathBuf;
    read_to_string(path) -> String;
    remove_dir(path) -> ();
    remove_dir_all(path) -> ();
    remove_file(path) -> ();
    rename(from, to) -> ();
    symlink(original, link) -> ();
    symlink_metadata(path) -> Metadata;
    try_exists(path) -> bool;
}

/// See `ws::fs`.
///
/// # Errors
///
/// As std's function.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    run(ws::set_permissions(path, permissions)).await
}

/// See `ws::fs`.
///
/// # Errors
///
/// As std's function.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    run(ws::write(path, contents)).await
}
