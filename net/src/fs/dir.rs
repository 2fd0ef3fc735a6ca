//! Directories.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt,
    fs::{FileType, Metadata},
    future::{Future, poll_fn},
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::stream::{FusedStream, Stream};
use ws_executor::{
    budget::unbudgeted,
    task::{JoinHandle, coop::poll_proceed},
};

use crate::{
    async_fd::poll_at_once,
    blocking_io::{FindRuntime, call, current_runtime, lost},
};

/// Entries that one closure reads. As in tokio.
const CHUNK: usize = 32;

/// How a directory is made: [`std::fs::DirBuilder`], with a `create` that is awaited.
///
/// # Examples
///
/// ```
/// use ws::fs::{self, DirBuilder};
///
/// # let path = std::env::temp_dir().join(format!("ws-dir-builder-doc-{}", std::process::id()));
/// # ws::runtime::Runtime::new()?.block_on(async {
/// DirBuilder::new().recursive(true).create(&path).await?;
/// assert!(fs::metadata(&path).await?.is_dir());
/// # fs::remove_dir(&path).await
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    #[cfg(unix)]
    pub(super) mode: Option<u32>,
}

impl DirBuilder {
    /// Nothing is asked for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the directories above are made as well.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirBuilder::create`].
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn create(&self, path: impl AsRef<Path>) -> impl Future<Output = io::Result<()>> + Send {
        let path = path.as_ref().to_owned();
        let mut std = std::fs::DirBuilder::new();
        std.recursive(self.recursive);
        #[cfg(unix)]
        super::unix::set_mode(&mut std, self.mode);
        call("ws::fs::DirBuilder::create", move || std.create(path))
    }
}

/// The entries of a directory, as a stream.
///
/// # Examples
///
/// ```
/// use futures::TryStreamExt;
/// use ws::fs;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let mut entries = fs::read_dir("src").await?;
/// let mut names = Vec::new();
/// while let Some(entry) = entries.try_next().await? {
///     names.push(entry.file_name());
/// }
/// assert!(names.contains(&"lib.rs".into()));
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As [`std::fs::read_dir`].
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
#[track_caller]
pub fn read_dir(path: impl AsRef<Path>) -> impl Future<Output = io::Result<ReadDir>> + Send {
    let path = path.as_ref().to_owned();
    call("ws::fs::read_dir", move || {
        let mut chunk = Chunk {
            entries: VecDeque::with_capacity(CHUNK),
            std: std::fs::read_dir(path)?,
            is_last: false,
        };
        chunk.read();
        Ok(ReadDir {
            state: State::Here(chunk),
            find_runtime: current_runtime,
        })
    })
}

/// The stream of [`read_dir`].
///
/// A closure reads some entries at a time. Its order is that of the system.
///
/// # Errors
///
/// After an error of the system the stream goes on, as std's iterator does. If the runtime has
/// ended, there is one error of kind `Other`, and then the end.
///
/// # Cancel safety
///
/// No entry is lost when a future of `next` is dropped.
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir {
    state: State,
    find_runtime: FindRuntime,
}

#[derive(Debug)]
#[cfg_attr(
    windows,
    expect(
        clippy::large_enum_variant,
        reason = "std's iterator has its entry inside there, and a directory is read once"
    )
)]
enum State {
    Here(Chunk),
    Read(JoinHandle<Chunk>),
    /// A closure was lost.
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
    /// Finds the runtime of later operations by another function.
    #[doc(hidden)]
    pub fn on(mut self, find_runtime: FindRuntime) -> Self {
        self.find_runtime = find_runtime;
        self
    }
}

impl Stream for ReadDir {
    type Item = io::Result<DirEntry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let unit = ready!(poll_proceed(cx));
        loop {
            match &mut self.state {
                State::Here(chunk) => {
                    if let Some(entry) = chunk.entries.pop_front() {
                        unit.made_progress();
                        return Poll::Ready(Some(entry));
                    }
                    if chunk.is_last {
                        unit.made_progress();
                        return Poll::Ready(None);
                    }
                    let runtime = (self.find_runtime)();
                    let State::Here(mut chunk) = std::mem::replace(&mut self.state, State::Lost)
                    else {
                        unreachable!("it was here");
                    };
                    self.state = State::Read(runtime.spawn_blocking(move || {
                        chunk.read();
                        chunk
                    }));
                }
                // It holds its unit already: see `BlockingIo::poll_done`.
                State::Read(handle) => match ready!(unbudgeted(|| Pin::new(handle).poll(cx))) {
                    Ok(chunk) => self.state = State::Here(chunk),
                    Err(error) => {
                        self.state = State::Lost;
                        return Poll::Ready(Some(Err(lost(error))));
                    }
                },
                State::Lost => {
                    unit.made_progress();
                    return Poll::Ready(None);
                }
            }
        }
    }
}

impl FusedStream for ReadDir {
    fn is_terminated(&self) -> bool {
        match &self.state {
            State::Here(chunk) => chunk.is_last && chunk.entries.is_empty(),
            State::Read(_) => false,
            State::Lost => true,
        }
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadDir").field(&self.state).finish()
    }
}

/// An entry of a directory.
#[derive(Debug)]
pub struct DirEntry {
    /// Where the system tells it with the name.
    file_type: Option<FileType>,
    pub(super) std: Arc<std::fs::DirEntry>,
}

impl DirEntry {
    /// The directory's path with the name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// The name.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// What the system knows of the entry.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirEntry::metadata`].
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn metadata(&self) -> impl Future<Output = io::Result<Metadata>> + Send + use<> {
        let std = self.std.clone();
        call("ws::fs::DirEntry::metadata", move || std.metadata())
    }

    /// Whether it is a file, a directory or something else. Mostly the directory tells that, and no
    /// thread is asked.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirEntry::file_type`].
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn file_type(&self) -> impl Future<Output = io::Result<FileType>> + Send + use<> {
        let known = self.file_type;
        let std = self.std.clone();
        let ask = call("ws::fs::DirEntry::file_type", move || std.file_type());
        async move {
            match known {
                Some(file_type) => poll_fn(|cx| poll_at_once(cx, || Ok(file_type))).await,
                None => ask.await,
            }
        }
    }
}
