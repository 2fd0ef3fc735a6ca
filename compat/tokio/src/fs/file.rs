//! A file.
//!
//! One operation at a time is under way on a thread for blocking code. It takes the buffer along
//! and brings it back. A write is accepted once its bytes are in the buffer; its error is told by
//! the next operation.

use std::{
    fmt,
    fs::{File as StdFile, Metadata, Permissions},
    future::{Future, poll_fn},
    io::{self, IoSlice, Seek, SeekFrom},
    mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::SystemTime,
};

use super::{OpenOptions, asyncify};
use crate::{
    io::{
        AsyncRead, AsyncSeek, AsyncWrite, ReadBuf,
        buf::{Buf, DEFAULT_MAX_BUF_SIZE},
    },
    runtime::Handle,
    sync::Mutex,
    task::{JoinHandle, spawn_blocking},
};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/struct.File.html).
pub struct File {
    std: Arc<StdFile>,
    inner: Mutex<Inner>,
    max_buf_size: usize,
}

struct Inner {
    state: State,
    /// Of a write that ended in an operation that does not tell of it.
    write_error: Option<io::ErrorKind>,
    /// Where the last seek has led.
    position: u64,
}

enum State {
    Idle(Buf),
    Busy(JoinHandle<(Done, Buf)>),
}

enum Done {
    Read(io::Result<()>),
    Write(io::Result<()>),
    Seek(io::Result<u64>),
    SetLen(io::Result<()>),
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As std's function.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::options().read(true).open(path).await
    }

    /// Makes a file, or an existing one empty, for writing.
    ///
    /// # Errors
    ///
    /// As std's function.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut options = Self::options();
        options.write(true).create(true).truncate(true);
        options.open(path).await
    }

    /// Makes a file that is not there yet, for reading and writing.
    ///
    /// # Errors
    ///
    /// As std's function.
    pub async fn create_new<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let mut options = Self::options();
        options.read(true).write(true).create_new(true);
        options.open(path).await
    }

    /// How a file is opened.
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// A file of std.
    pub fn from_std(std: StdFile) -> Self {
        Self {
            std: Arc::new(std),
            inner: Mutex::new(Inner {
                state: State::Idle(Buf::default()),
                write_error: None,
                position: 0,
            }),
            max_buf_size: DEFAULT_MAX_BUF_SIZE,
        }
    }

    /// Waits until the contents and what is known of the file are on the disk.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.settled(StdFile::sync_all).await
    }

    /// Waits until the contents are on the disk.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.settled(StdFile::sync_data).await
    }

    /// Makes the file shorter, or longer by zeroes.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        let mut inner = self.inner.lock().await;
        inner.settle().await;
        let back = inner.idle().discard();
        let std = self.std.clone();
        inner.start(move |_| Done::SetLen(rewind(&std, back).and_then(|()| std.set_len(size))));
        match poll_fn(|cx| inner.poll_done(cx)).await? {
            Some(Done::SetLen(result)) => result,
            _ => unreachable!("it was started here, under the lock"),
        }
    }

    /// What the system knows of the file.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let std = self.std.clone();
        asyncify(move || std.metadata()).await
    }

    /// Another descriptor of the same file, with the same position.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn try_clone(&self) -> io::Result<Self> {
        let std = self.settled(StdFile::try_clone).await?;
        let mut file = Self::from_std(std);
        file.max_buf_size = self.max_buf_size;
        Ok(file)
    }

    /// The file of std, once no operation is under way.
    pub async fn into_std(mut self) -> StdFile {
        self.inner.get_mut().settle().await;
        Arc::try_unwrap(self.std).expect("an operation has ended, and its clone with it")
    }

    /// The file of std, unless an operation is under way.
    ///
    /// # Errors
    ///
    /// The file itself.
    #[cfg_attr(
        all(tokio_unstable, feature = "tracing"),
        expect(clippy::result_large_err, reason = "it has the spans of two locks")
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
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let std = self.std.clone();
        asyncify(move || std.set_permissions(permissions)).await
    }

    /// Sets the times of the last access and of the last change.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.settled(move |std| std.set_times(times.0)).await
    }

    /// Sets the time of the last change.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time)).await
    }

    /// Sets how many bytes one read or write moves at most.
    ///
    /// # Panics
    ///
    /// If none.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.max_buf_size = max_buf_size;
    }

    /// How many bytes one read or write moves at most.
    pub fn max_buf_size(&self) -> usize {
        self.max_buf_size
    }

    /// Runs `f` after the operation that is under way.
    async fn settled<T: Send + 'static>(
        &self,
        f: impl FnOnce(&StdFile) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let mut inner = self.inner.lock().await;
        inner.settle().await;
        let std = self.std.clone();
        asyncify(move || f(&std)).await
    }

    fn poll_write_slices(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = self.inner.get_mut();
        ready!(inner.poll_flush(cx))?;
        if Handle::current().ws.is_ending() {
            return Poll::Ready(Err(io::Error::other("background task failed")));
        }
        let buf = inner.idle();
        let back = buf.discard();
        let len = buf.copy_from(slices, self.max_buf_size);
        let std = self.std.clone();
        inner.start(move |buf| {
            Done::Write(rewind(&std, back).and_then(|()| buf.write_to(&mut &*std)))
        });
        Poll::Ready(Ok(len))
    }
}

/// Goes back by what was read and not taken.
fn rewind(mut std: &StdFile, back: usize) -> io::Result<()> {
    if back > 0 {
        std.seek(SeekFrom::Current(-(back as i64)))?;
    }
    Ok(())
}

impl Inner {
    /// The buffer. Nothing may be under way.
    fn idle(&mut self) -> &mut Buf {
        match &mut self.state {
            State::Idle(buf) => buf,
            State::Busy(_) => unreachable!("the caller waited for it"),
        }
    }

    fn start(&mut self, f: impl FnOnce(&mut Buf) -> Done + Send + 'static) {
        let mut buf = mem::take(self.idle());
        self.state = State::Busy(spawn_blocking(move || {
            let done = f(&mut buf);
            (done, buf)
        }));
    }

    /// Waits for the operation that is under way, and says what it said. If it was lost, so is what
    /// was in the buffer.
    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Done>>> {
        let State::Busy(handle) = &mut self.state else {
            return Poll::Ready(Ok(None));
        };
        let ended = ready!(Pin::new(handle).poll(cx));
        self.state = State::Idle(Buf::default());
        let (done, buf) = ended?;
        self.state = State::Idle(buf);
        if let Done::Seek(Ok(position)) = done {
            self.position = position;
        }
        Poll::Ready(Ok(Some(done)))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.write_error.take() {
            return Poll::Ready(Err(error.into()));
        }
        match ready!(self.poll_done(cx))? {
            Some(Done::Write(result)) => Poll::Ready(result),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Waits for the operation that is under way. The next write or flush tells of its error.
    async fn settle(&mut self) {
        if let Err(error) = poll_fn(|cx| self.poll_flush(cx)).await {
            self.write_error = Some(error.kind());
        }
    }
}

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let file = self.get_mut();
        let inner = file.inner.get_mut();
        loop {
            match ready!(inner.poll_done(cx))? {
                Some(Done::Read(result)) => {
                    inner.idle().copy_to(dst);
                    return Poll::Ready(result);
                }
                Some(Done::Write(Err(error))) => inner.write_error = Some(error.kind()),
                _ => {}
            }
            if dst.remaining() == 0 || !inner.idle().is_empty() {
                inner.idle().copy_to(dst);
                return Poll::Ready(Ok(()));
            }
            let max = dst.remaining().min(file.max_buf_size);
            let std = file.std.clone();
            inner.start(move |buf| Done::Read(buf.read_from(&mut &*std, max)));
        }
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        let file = self.get_mut();
        let inner = file.inner.get_mut();
        if let State::Busy(_) = inner.state {
            return Err(io::Error::other(
                "other file operation is pending, call poll_complete before start_seek",
            ));
        }
        let back = inner.idle().discard();
        let std = file.std.clone();
        inner.start(move |_| {
            let mut std = &*std;
            Done::Seek(match to {
                // In one call, unless the sum is too small for it.
                SeekFrom::Current(offset) => match offset.checked_sub(back as i64) {
                    Some(offset) => std.seek(SeekFrom::Current(offset)),
                    None => rewind(std, back).and_then(|()| std.seek(to)),
                },
                _ => std.seek(to),
            })
        });
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let inner = self.get_mut().inner.get_mut();
        match ready!(inner.poll_done(cx))? {
            Some(Done::Seek(result)) => return Poll::Ready(result),
            Some(Done::Write(Err(error))) => inner.write_error = Some(error.kind()),
            _ => {}
        }
        Poll::Ready(Ok(inner.position))
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        src: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_slices(cx, &[IoSlice::new(src)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_slices(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().inner.get_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl From<StdFile> for File {
    fn from(std: StdFile) -> Self {
        Self::from_std(std)
    }
}

impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self::from_std(fd.into())
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.std.as_raw_fd()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.std.as_fd()
    }
}

impl FromRawFd for File {
    #[expect(unsafe_code, reason = "the trait's function is unsafe")]
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller promises what std's function asks for.
        unsafe { StdFile::from_raw_fd(fd) }.into()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("tokio::fs::File")
            .field("std", &self.std)
            .finish()
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/struct.FileTimes.html).
#[derive(Clone, Debug, Default)]
#[must_use = "must be applied to a file via `File::set_times` to have any effect"]
pub struct FileTimes(std::fs::FileTimes);

impl FileTimes {
    /// No time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of the last access.
    pub fn set_accessed(self, time: SystemTime) -> Self {
        Self(self.0.set_accessed(time))
    }

    /// Of the last change.
    pub fn set_modified(self, time: SystemTime) -> Self {
        Self(self.0.set_modified(time))
    }

    /// Of its making.
    #[cfg(target_vendor = "apple")]
    pub fn set_created(self, time: SystemTime) -> Self {
        Self(std::os::darwin::fs::FileTimesExt::set_created(self.0, time))
    }
}
