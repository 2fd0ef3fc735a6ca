//! A FIFO without writers is at its end, and stays ready: a read returns the end of file. Once
//! another writer has opened it, there is nothing to read. A reader that finds that out waits for
//! the writer, and does not spin.
//!
//! The first test fails if an `EAGAIN` of the system leaves a closed direction ready
//! (`clear_blocked` in `reactor/src/registration.rs`), the second if `AsyncFd::clear_ready` does.
//! The third fails if `clear_ready_of` in `reactor/src/registration.rs` forgets the end without
//! asking the system again.

use crate::net_support;

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::task::Poll;

use net_support::{Folder, with_workers};
use ws::io::{AsyncFd, Direction, Interest};

/// More than events of the past can make ready again.
const ROUNDS: usize = 100;

struct Fifo {
    path: PathBuf,
    reader: AsyncFd<File>,
    _folder: Folder,
}

impl Fifo {
    /// One that nobody has written to.
    fn new() -> io::Result<Self> {
        let folder = Folder::new();
        let path = folder.path("fifo");
        let made = Command::new("mkfifo").arg(&path).status()?;
        assert!(made.success());
        let reader = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)?;
        Ok(Self {
            reader: AsyncFd::with_interest(reader, Interest::READABLE)?,
            path,
            _folder: folder,
        })
    }

    fn open_to_write(&self) -> io::Result<File> {
        File::options().write(true).open(&self.path)
    }

    fn read(&self) -> io::Result<usize> {
        self.reader.get_ref().read(&mut [0])
    }

    /// A writer comes and goes, and the reader reads all of it, and the end.
    async fn read_to_the_end(&self) -> io::Result<()> {
        self.open_to_write()?.write_all(b"x")?;
        for len in [1, 0] {
            self.reader.ready(Direction::Read).await?;
            let read = self.reader.io(Interest::READABLE, || self.read());
            assert_eq!(read.await?, len);
        }
        Ok(())
    }

    /// Asks for readiness until it has to wait, and calls `found_nothing` each time that it is
    /// ready. Says whether it had to wait.
    async fn comes_to_wait(&self, found_nothing: impl Fn(ws::io::Ready)) -> io::Result<bool> {
        for _ in 0..ROUNDS {
            let polled = poll_fn(|cx| Poll::Ready(self.reader.poll_ready(cx, Direction::Read)));
            match polled.await {
                Poll::Ready(ready) => found_nothing(ready?),
                Poll::Pending => return Ok(true),
            }
            // Events that are under way come meanwhile.
            ws::task::yield_now().await;
        }
        Ok(false)
    }

    /// Waits for what is written then, and for the next end.
    async fn goes_on(&self, mut writer: File) -> io::Result<()> {
        writer.write_all(b"y")?;
        self.reader.ready(Direction::Read).await?;
        assert_eq!(self.read()?, 1);
        drop(writer);
        let read = self.reader.io(Interest::READABLE, || self.read());
        assert_eq!(read.await?, 0);
        self.reader.ready(Direction::Read).await?;
        Ok(())
    }
}

fn would_block(answer: io::Result<usize>) -> io::Error {
    let error = answer.expect_err("there is nothing to read");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    error
}

#[test]
fn an_operation_that_finds_nothing_waits_again() {
    with_workers(async || {
        let fifo = Fifo::new()?;
        fifo.read_to_the_end().await?;
        let writer = fifo.open_to_write()?;
        let waits = fifo.comes_to_wait(|_| {
            would_block(fifo.reader.try_io(Interest::READABLE, || fifo.read()));
        });
        assert!(waits.await?, "ready {ROUNDS} times, and nothing to read");
        fifo.goes_on(writer).await
    });
}

#[test]
fn a_readiness_that_is_cleared_waits_again() {
    with_workers(async || {
        let fifo = Fifo::new()?;
        fifo.read_to_the_end().await?;
        let writer = fifo.open_to_write()?;
        let waits = fifo.comes_to_wait(|ready| {
            would_block(fifo.read());
            fifo.reader.clear_ready(ready);
        });
        assert!(waits.await?, "ready {ROUNDS} times, and nothing to read");
        fifo.goes_on(writer).await
    });
}

#[test]
fn an_end_that_is_cleared_comes_again() {
    with_workers(async || {
        let fifo = Fifo::new()?;
        fifo.read_to_the_end().await?;
        for _ in 0..ROUNDS {
            let ready = fifo.reader.ready(Direction::Read).await?;
            assert_eq!(fifo.read()?, 0);
            // The direction is closed, so this is wrong, and does no harm.
            fifo.reader.clear_ready(ready);
        }
        Ok(())
    });
}
