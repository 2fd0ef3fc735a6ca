//! A file.

use std::{
    fmt,
    fs::{File as StdFile, Metadata, Permissions},
    io::{self, IoSlice, SeekFrom},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::Path,
    pin::Pin,
    task::{Context, Poll, ready},
    time::SystemTime,
};

use ws_net::{fs as ws, futures::io::AsyncWrite as _};

use super::{OpenOptions, poll, run, runtime};
use crate::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/struct.File.html).
pub struct File(ws::File);

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
        Self(ws::File::on(std, runtime))
    }

    /// Waits until the contents and what is known of the file are on the disk.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn sync_all(&self) -> io::Result<()> {
        run(self.0.sync_all()).await
    }

    /// Waits until the contents are on the disk.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn sync_data(&self) -> io::Result<()> {
        run(self.0.sync_data()).await
    }

    /// Makes the file shorter, or longer by zeroes.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        run(self.0.set_len(size)).await
    }

    /// What the system knows of the file.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        run(self.0.metadata()).await
    }

    /// Another descriptor of the same file, with the same position.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn try_clone(&self) -> io::Result<Self> {
        run(self.0.try_clone()).await.map(Self)
    }

    /// The file of std, once no operation is under way.
    pub async fn into_std(self) -> StdFile {
        self.0.into_std().await
    }

    /// The file of std, unless an operation is under way.
    ///
    /// # Errors
    ///
    /// The file itself.
    #[expect(clippy::result_large_err, reason = "as in tokio")]
    pub fn try_into_std(self) -> Result<StdFile, Self> {
        self.0.try_into_std().map_err(Self)
    }

    /// Sets the permissions.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        run(self.0.set_permissions(permissions)).await
    }

    /// Sets the times of the last access and of the last change.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        run(self.0.set_times(times.0)).await
    }

    /// Sets the time of the last change.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        run(self.0.set_modified(time)).await
    }

    /// Sets how many bytes one read or write moves at most.
    ///
    /// # Panics
    ///
    /// If none.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        self.0.set_max_buf_size(max_buf_size);
    }

    /// How many bytes one read or write moves at most.
    pub fn max_buf_size(&self) -> usize {
        self.0.max_buf_size()
    }

    fn ws(self: Pin<&mut Self>) -> Pin<&mut ws::File> {
        Pin::new(&mut self.get_mut().0)
    }
}

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let file = &mut self.get_mut().0;
        let bytes = ready!(poll(cx, |cx| file.poll_fill(cx, dst.remaining())))?;
        let len = bytes.len().min(dst.remaining());
        dst.put_slice(&bytes[..len]);
        file.consume(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        self.get_mut().0.start_seek(to)
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        poll(cx, |cx| self.get_mut().0.poll_complete(cx))
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        src: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll(cx, |cx| self.ws().poll_write(cx, src))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll(cx, |cx| self.ws().poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll(cx, |cx| self.ws().poll_flush(cx))
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
        self.0.as_raw_fd()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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
            .field("std", self.0.std())
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
