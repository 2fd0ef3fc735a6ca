//! Directories.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{FileType, Metadata},
    future::{Future, poll_fn},
    io,
    os::unix::fs::{DirBuilderExt, DirEntryExt},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use super::asyncify;
use crate::task::{JoinHandle, spawn_blocking};

/// Entries that one closure reads. As in tokio.
const CHUNK: usize = 32;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/struct.DirBuilder.html).
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    mode: Option<u32>,
}

impl DirBuilder {
    /// Nothing is asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the directories above are made as well.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// The permissions.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// As std's function.
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref().to_owned();
        let mut std = std::fs::DirBuilder::new();
        std.recursive(self.recursive);
        if let Some(mode) = self.mode {
            std.mode(mode);
        }
        asyncify(move || std.create(path)).await
    }
}

/// The entries of a directory.
///
/// # Errors
///
/// As std's function.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_owned();
    let chunk = asyncify(move || {
        let mut chunk = Chunk {
            entries: VecDeque::with_capacity(CHUNK),
            std: std::fs::read_dir(path)?,
            is_last: false,
        };
        chunk.read();
        Ok(chunk)
    });
    Ok(ReadDir(State::Here(chunk.await?)))
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/struct.ReadDir.html).
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir(State);

#[derive(Debug)]
enum State {
    Here(Chunk),
    Read(JoinHandle<Chunk>),
    /// A closure failed.
    Lost,
}

#[derive(Debug)]
struct Chunk {
    entries: VecDeque<io::Result<DirEntry>>,
    std: std::fs::ReadDir,
    is_last: bool,
}

impl Chunk {
    fn read(&mut self) {
        for _ in 0..CHUNK {
            let Some(entry) = self.std.next() else {
                self.is_last = true;
                return;
            };
            let failed = entry.is_err();
            self.entries.push_back(entry.map(|std| DirEntry {
                file_type: std.file_type().ok(),
                std: Arc::new(std),
            }));
            if failed {
                return;
            }
        }
    }
}

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
        loop {
            match &mut self.0 {
                State::Here(chunk) => {
                    if let Some(entry) = chunk.entries.pop_front() {
                        return Poll::Ready(entry.map(Some));
                    }
                    if chunk.is_last {
                        return Poll::Ready(Ok(None));
                    }
                    let State::Here(mut chunk) = std::mem::replace(&mut self.0, State::Lost) else {
                        unreachable!("it was here");
                    };
                    self.0 = State::Read(spawn_blocking(move || {
                        chunk.read();
                        chunk
                    }));
                }
                State::Read(handle) => {
                    let chunk = ready!(Pin::new(handle).poll(cx));
                    self.0 = State::Lost;
                    self.0 = State::Here(chunk?);
                }
                State::Lost => {
                    return Poll::Ready(Err(io::Error::other("background task failed")));
                }
            }
        }
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/struct.DirEntry.html).
#[derive(Debug)]
pub struct DirEntry {
    /// Where the system tells it with the name.
    file_type: Option<FileType>,
    std: Arc<std::fs::DirEntry>,
}

impl DirEntry {
    /// The directory's path with the name.
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// The name.
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// What the system knows of the entry.
    ///
    /// # Errors
    ///
    /// As std's function.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let std = self.std.clone();
        asyncify(move || std.metadata()).await
    }

    /// Whether it is a file, a directory or something else.
    ///
    /// # Errors
    ///
    /// As std's function.
    pub async fn file_type(&self) -> io::Result<FileType> {
        if let Some(file_type) = self.file_type {
            return Ok(file_type);
        }
        let std = self.std.clone();
        asyncify(move || std.file_type()).await
    }

    /// The number of the inode.
    pub fn ino(&self) -> u64 {
        self.std.ino()
    }
}
