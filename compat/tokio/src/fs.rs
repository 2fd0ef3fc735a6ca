//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/).
//!
//! Each operation is a closure on a thread for blocking code, as in tokio: the system has no
//! readiness for files.

mod dir;
mod file;
mod open_options;

use std::{
    fs::{Metadata, Permissions},
    io,
    path::{Path, PathBuf},
};

pub use self::{
    dir::{DirBuilder, DirEntry, ReadDir, read_dir},
    file::{File, FileTimes},
    open_options::OpenOptions,
};
use crate::task::spawn_blocking;

/// Runs what blocks, and says what it said.
async fn asyncify<F, T>(f: F) -> io::Result<T>
where
    F: FnOnce() -> io::Result<T> + Send + 'static,
    T: Send + 'static,
{
    match spawn_blocking(f).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::other("background task failed")),
    }
}

/// Functions of std that take paths.
macro_rules! functions {
    ($($(#[$meta:meta])* fn $name:ident = $std:path, ($($path:ident),+) -> $output:ty;)+) => {$(
        $(#[$meta])*
        ///
        /// # Errors
        ///
        /// As std's function.
        pub async fn $name($($path: impl AsRef<Path>),+) -> io::Result<$output> {
            $(let $path = $path.as_ref().to_owned();)+
            asyncify(move || $std($($path),+)).await
        }
    )+};
}

functions! {
    /// The absolute path, without symbolic links.
    fn canonicalize = std::fs::canonicalize, (path) -> PathBuf;
    /// Copies the contents and the permissions of a file.
    fn copy = std::fs::copy, (from, to) -> u64;
    /// Makes a directory.
    fn create_dir = std::fs::create_dir, (path) -> ();
    /// Makes a directory and those above it.
    fn create_dir_all = std::fs::create_dir_all, (path) -> ();
    /// Gives a file another name.
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
    /// Renames a file or a directory.
    fn rename = std::fs::rename, (from, to) -> ();
    /// Makes a symbolic link.
    fn symlink = std::os::unix::fs::symlink, (original, link) -> ();
    /// What the system knows of a file or of a symbolic link.
    fn symlink_metadata = std::fs::symlink_metadata, (path) -> Metadata;
    /// Whether there is something of this name.
    fn try_exists = std::fs::exists, (path) -> bool;
}

/// Sets the permissions of a file.
///
/// # Errors
///
/// As std's function.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    asyncify(move || std::fs::set_permissions(path, permissions)).await
}

/// Makes these the contents of a file.
///
/// # Errors
///
/// As std's function.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    let contents = contents.as_ref().to_owned();
    asyncify(move || std::fs::write(path, contents)).await
}
