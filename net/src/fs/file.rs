//! A file.

use std::{
    fmt,
    fs::{File as StdFile, FileTimes, Metadata, Permissions},
    future::Future,
    io::{self, IoSlice, Seek, SeekFrom},
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::SystemTime,
};

use futures::{
    io::{AsyncRead, AsyncSeek, AsyncWrite},
    lock::Mutex,
};

use super::OpenOptions;
use crate::{
    blocking_io::{BlockingIo, DEFAULT_MAX_BUF_SIZE, FindRuntime, Unread, current_runtime},
    current::in_runtime,
    os::{descriptor, from_descriptor},
};

/// An open file.
///
/// Reads, writes and seeks by [`AsyncRead`], [`AsyncWrite`] and [`AsyncSeek`]. Its operations
/// happen in the order of their begin, one at a time. See [`ws::fs`](super) for what is flushed
/// when, what becomes of a future that is dropped, and what the end of the runtime does.
///
/// A file belongs to no runtime: each operation is run by the one that is current.
///
/// # Examples
///
/// ```
/// use ws::fs::File;
/// use ws::io::AsyncReadExt;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let mut file = File::open("Cargo.toml").await?;
/// let mut text = String::new();
/// file.read_to_string(&mut text).await?;
/// assert!(text.contains("[package]"));
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct File {
    std: Arc<StdFile>,
    /// Locked by the methods that share the file.
    io: Mutex<BlockingIo>,
    max_buf_size: usize,
    find_runtime: FindRuntime,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::open`].
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Self>> + Send {
        let mut options = Self::options();
        options.read(true);
        options.open_std("ws::fs::File::open", path.as_ref(), Self::from_std)
    }

    /// Makes a file, or an existing one empty, for writing.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::create`].
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn create(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Self>> + Send {
        let mut options = Self::options();
        options.write(true).create(true).truncate(true);
        options.open_std("ws::fs::File::create", path.as_ref(), Self::from_std)
    }

    /// Makes a file that is not there yet, for reading and writing.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::create_new`].
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn create_new(path: impl AsRef<Path>) -> impl Future<Output = io::Result<Self>> + Send {
        let mut options = Self::options();
        options.read(true).write(true).create_new(true);
        options.open_std("ws::fs::File::create_new", path.as_ref(), Self::from_std)
    }

    /// How a file is opened.
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// A file of std. No runtime is needed yet.
    #[must_use]
    pub fn from_std(std: StdFile) -> Self {
        Self::on(std, current_runtime)
    }

    /// A file whose reads, writes and seeks find their runtime by this function.
    #[doc(hidden)]
    pub fn on(std: StdFile, find_runtime: FindRuntime) -> Self {
        Self {
            std: Arc::new(std),
            io: Mutex::new(BlockingIo::new(find_runtime)),
            max_buf_size: DEFAULT_MAX_BUF_SIZE,
            find_runtime,
        }
    }

    /// Waits until the contents and what is known of the file are on the disk.
    ///
    /// # Errors
    ///
    /// What the system says. The error of a write before is told by the next write or flush.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn sync_all(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.run("ws::fs::File::sync_all", StdFile::sync_all)
    }

    /// Waits until the contents are on the disk.
    ///
    /// # Errors
    ///
    /// As [`File::sync_all`].
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn sync_data(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.run("ws::fs::File::sync_data", StdFile::sync_data)
    }

    /// Makes the file shorter, or longer by zeroes. The position stays.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn set_len(&self, size: u64) -> impl Future<Output = io::Result<()>> + Send {
        // What was read ahead may be gone then.
        self.run_at("ws::fs::File::set_len", Unread::Forget, move |std, back| {
            std.set_len(size)?;
            rewind(std, back)
        })
    }

    /// What the system knows of the file, after the writes before.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn metadata(&self) -> impl Future<Output = io::Result<Metadata>> + Send {
        self.run("ws::fs::File::metadata", StdFile::metadata)
    }

    /// Another descriptor of the same file, with the same position.
    ///
    /// What was read ahead, by a read whose future was dropped, is not in that position.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn try_clone(&self) -> impl Future<Output = io::Result<Self>> + Send {
        let (max_buf_size, find_runtime) = (self.max_buf_size, self.find_runtime);
        self.run("ws::fs::File::try_clone", move |std| {
            let mut file = Self::on(std.try_clone()?, find_runtime);
            file.max_buf_size = max_buf_size;
            Ok(file)
        })
    }

    /// The file of std, once no operation is under way.
    ///
    /// What was read ahead, by a read whose future was dropped, is not in the file's position.
    pub async fn into_std(mut self) -> StdFile {
        self.io.get_mut().settle().await;
        Arc::try_unwrap(self.std)
            .unwrap_or_else(|_| unreachable!("an operation has ended, and its clone with it"))
    }

    /// The file of std, unless an operation is under way.
    ///
    /// # Errors
    ///
    /// The file itself.
    #[expect(
        clippy::result_large_err,
        reason = "a box would be asked for on each call"
    )]
    pub fn try_into_std(mut self) -> Result<StdFile, Self> {
        match Arc::try_unwrap(self.std) {
            Ok(std) => Ok(std),
            Err(std) => {
                self.std = std;
                Err(self)
            }
        }
    }

    /// Sets the permissions.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn set_permissions(
        &self,
        permissions: Permissions,
    ) -> impl Future<Output = io::Result<()>> + Send {
        self.run("ws::fs::File::set_permissions", |std| {
            std.set_permissions(permissions)
        })
    }

    /// Sets the times of the last access and of the last change.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn set_times(&self, times: FileTimes) -> impl Future<Output = io::Result<()>> + Send {
        self.run("ws::fs::File::set_times", move |std| std.set_times(times))
    }

    /// Sets the time of the last change.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    #[track_caller]
    pub fn set_modified(&self, time: SystemTime) -> impl Future<Output = io::Result<()>> + Send {
        self.run("ws::fs::File::set_modified", move |std| {
            std.set_modified(time)
        })
    }

    /// Sets how many bytes one read or write moves at most. 2 MiB, if it is not set.
    ///
    /// # Panics
    ///
    /// Panics if it is 0.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.max_buf_size = max_buf_size;
    }

    /// How many bytes one read or write moves at most.
    #[must_use]
    pub fn max_buf_size(&self) -> usize {
        self.max_buf_size
    }

    /// Runs `f` after the operation that is under way.
    #[track_caller]
    fn run<T: Send + 'static>(
        &self,
        what: &'static str,
        f: impl FnOnce(&StdFile) -> io::Result<T> + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send {
        self.run_at(what, Unread::Keep, move |std, _| f(std))
    }

    #[track_caller]
    fn run_at<T: Send + 'static>(
        &self,
        what: &'static str,
        unread: Unread,
        f: impl FnOnce(&StdFile, usize) -> io::Result<T> + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send {
        in_runtime(what, move |_| async move {
            let mut io = self.io.lock().await;
            let std = self.std.clone();
            io.run(unread, move |back| f(&std, back)).await
        })
    }

    #[doc(hidden)]
    pub fn std(&self) -> &StdFile {
        &self.std
    }

    /// The bytes that were read and not taken; if there are none, at most `max` are read first.
    #[doc(hidden)]
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<&[u8]>> {
        let max = max.min(self.max_buf_size);
        self.io.get_mut().poll_fill(cx, max, || self.std.clone())
    }

    /// Takes bytes that `poll_fill` has shown.
    #[doc(hidden)]
    pub fn consume(&mut self, len: usize) {
        self.io.get_mut().consume(len);
    }

    /// Begins a seek, if nothing is under way.
    #[doc(hidden)]
    pub fn start_seek(&mut self, to: SeekFrom) -> io::Result<()> {
        let std = self.std.clone();
        let io = self.io.get_mut();
        io.start_seek(to, move |back| seek(&std, to, back))
    }

    /// Waits for a seek, and tells where the last one has led.
    #[doc(hidden)]
    pub fn poll_complete(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.io.get_mut().poll_complete(cx)
    }
}

/// Goes back by what was read and not taken.
fn rewind(mut std: &StdFile, back: usize) -> io::Result<()> {
    if back > 0 {
        std.seek(SeekFrom::Current(-(back as i64)))?;
    }
    Ok(())
}

fn seek(mut std: &StdFile, to: SeekFrom, back: usize) -> io::Result<u64> {
    match to {
        // In one call, unless the sum is too small for it.
        SeekFrom::Current(offset) => match offset.checked_sub(back as i64) {
            Some(offset) => std.seek(SeekFrom::Current(offset)),
            // It cannot succeed, so the position has to be put back.
            None => rewind(std, back).and_then(|()| {
                let answer = std.seek(to);
                std.seek(SeekFrom::Current(back as i64))?;
                answer
            }),
        },
        _ => std.seek(to),
    }
}

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let file = self.get_mut();
        let io = file.io.get_mut();
        io.poll_read(cx, buf, file.max_buf_size, || file.std.clone())
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let file = self.get_mut();
        let io = file.io.get_mut();
        let std = file.std.clone();
        io.poll_write(cx, bufs, file.max_buf_size, move |buf, unread| {
            let rewound = rewind(&std, unread.len());
            let written = match rewound {
                // It has no position, and what was read there is for the next read.
                Err(ref error) if error.kind() == io::ErrorKind::NotSeekable => {
                    buf.write_to(&mut &*std)
                }
                Ok(()) => return buf.write_to(&mut &*std),
                Err(error) => Err(error),
            };
            buf.put_back(unread);
            written
        })
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().io.get_mut().poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    fn poll_seek(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        let file = self.get_mut();
        let std = file.std.clone();
        let io = file.io.get_mut();
        io.poll_seek(cx, to, move |back| seek(&std, to, back))
    }
}

impl From<StdFile> for File {
    fn from(std: StdFile) -> Self {
        Self::from_std(std)
    }
}

from_descriptor!(File);
descriptor!(File);

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("std", &self.std).finish()
    }
}
