//! Files and directories, on the runtime's own threads.
//!
//! The functions and types are those of [`std::fs`], as futures. Each operation runs by
//! `ws::spawn_blocking`, so a slow disk holds up no task.
//!
//! # Examples
//!
//! ```
//! use ws::fs::{self, File};
//! use ws::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, SeekFrom};
//!
//! # let folder = std::env::temp_dir().join(format!("ws-fs-doc-{}", std::process::id()));
//! # ws::runtime::Runtime::new()?.block_on(async {
//! fs::create_dir_all(&folder).await?;
//! let path = folder.join("greeting");
//! fs::write(&path, "hello").await?;
//! assert_eq!(fs::read_to_string(&path).await?, "hello");
//!
//! let mut file = File::options().read(true).append(true).open(&path).await?;
//! file.write_all(b", world").await?;
//! file.flush().await?;
//! let mut text = String::new();
//! file.seek(SeekFrom::Start(0)).await?;
//! file.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello, world");
//!
//! fs::remove_dir_all(&folder).await?;
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! The system has no readiness for files. So an operation is a closure on a thread for blocking
//! code of the runtime that is current where the operation is polled first: see
//! `runtime::Builder::max_threads` for how many run at a time. An operation costs two switches of
//! threads. Many small steps are faster as one closure of `spawn_blocking` around std's functions.
//!
//! # What is flushed when
//!
//! A write to a [`File`] is answered once its bytes are in the file's buffer, and a thread begins
//! to write them at once. [`flush`](futures::io::AsyncWriteExt::flush) and `close` wait until the
//! system has them, and tell of the error of a write; so does the next write. [`File::sync_all`]
//! waits until the disk has them. Without a flush at the end, an error is lost. The bytes are not:
//! they are written also if the file is dropped.
//!
//! # Cancel safety
//!
//! An operation that has begun cannot be stopped. If its future is dropped, it goes on:
//!
//! - A function of this module, as [`rename`] or [`write`](write()), still has its effect.
//! - What a read of a [`File`] has read is for the next read, and no byte is lost. The next
//!   operation of the file waits for the one before.
//! - A seek that has begun takes place. It begins when the operation before has ended. The same
//!   seek, asked for next, is the one that is under way, and does not take place twice.
//!
//! # The end of the runtime
//!
//! Operations that were accepted are done if `runtime::Builder::shutdown_grace` is long enough. A
//! later one is an error of kind `Other`, and a write is refused as soon as the end begins.
//!
//! # Panics
//!
//! Futures of this module panic if they are first polled outside of a runtime. So do reads, writes
//! and seeks that begin there.

mod dir;
mod file;
mod open_options;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::{
    fs::{Metadata, Permissions},
    future::Future,
    io,
    path::{Path, PathBuf},
};

#[cfg(unix)]
pub use self::unix::symlink;
#[cfg(windows)]
pub use self::windows::{symlink_dir, symlink_file};
pub use self::{
    dir::{DirBuilder, DirEntry, ReadDir, read_dir},
    file::File,
    open_options::OpenOptions,
};
use crate::blocking_io::call;

/// Functions of std that take paths.
macro_rules! functions {
    ($($(#[$meta:meta])* fn $name:ident = $std:path, ($($path:ident),+) -> $output:ty;)+) => {$(
        $(#[$meta])*
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($std), "`].")]
        ///
        /// # Panics
        ///
        /// The future panics if it is first polled outside of a runtime.
        #[track_caller]
        pub fn $name($($path: impl AsRef<Path>),+)
        -> impl Future<Output = io::Result<$output>> + Send {
            $(let $path = $path.as_ref().to_owned();)+
            call(concat!("ws::fs::", stringify!($name)), move || $std($($path),+))
        }
    )+};
}

functions! {
    /// The absolute path, without symbolic links.
    fn canonicalize = std::fs::canonicalize, (path) -> PathBuf;
    /// Copies the contents and the permissions of a file. Returns the number of bytes.
    fn copy = std::fs::copy, (from, to) -> u64;
    /// Makes a directory.
    fn create_dir = std::fs::create_dir, (path) -> ();
    /// Makes a directory and those above it.
    fn create_dir_all = std::fs::create_dir_all, (path) -> ();
    /// Gives a file another name beside the first.
    fn hard_link = std::fs::hard_link, (original, link) -> ();
    /// What the system knows of a file.
    fn metadata = std::fs::metadata, (path) -> Metadata;
    /// The contents of a file.
    fn read = std::fs::read, (path) -> Vec<u8>;
    /// Where a symbolic link leads.
    fn read_link = std::fs::read_link, (path) -> PathBuf;
    /// The contents of a file of text.
    fn read_to_string = std::fs::read_to_string, (path) -> String;
    /// Removes an empty directory.
    fn remove_dir = std::fs::remove_dir, (path) -> ();
    /// Removes a directory and what is in it.
    fn remove_dir_all = std::fs::remove_dir_all, (path) -> ();
    /// Removes a file.
    fn remove_file = std::fs::remove_file, (path) -> ();
    /// Renames a file or a directory. What has the new name is replaced.
    fn rename = std::fs::rename, (from, to) -> ();
    /// What the system knows of a file or of a symbolic link, without following the link.
    fn symlink_metadata = std::fs::symlink_metadata, (path) -> Metadata;
    /// Whether there is something of this name.
    fn try_exists = std::fs::exists, (path) -> bool;
}

/// Sets the permissions of a file.
///
/// # Errors
///
/// As [`std::fs::set_permissions`].
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
#[track_caller]
pub fn set_permissions(
    path: impl AsRef<Path>,
    permissions: Permissions,
) -> impl Future<Output = io::Result<()>> + Send {
    let path = path.as_ref().to_owned();
    call("ws::fs::set_permissions", move || {
        std::fs::set_permissions(path, permissions)
    })
}

/// Makes these the contents of a file, which is made if it is not there.
///
/// # Errors
///
/// As [`std::fs::write`].
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
#[track_caller]
pub fn write(
    path: impl AsRef<Path>,
    contents: impl AsRef<[u8]>,
) -> impl Future<Output = io::Result<()>> + Send {
    let path = path.as_ref().to_owned();
    let contents = contents.as_ref().to_owned();
    call("ws::fs::write", move || std::fs::write(path, contents))
}
