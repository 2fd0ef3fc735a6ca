//! The operations of a file happen in the order of their begin, and none of them is torn by a
//! future that is dropped: no byte is lost or doubled, and every error of a write is told.

mod net_support;

use std::fs as std_fs;
use std::future::{Future, poll_fn};
#[cfg(unix)]
use std::io::Read;
use std::io::{self, ErrorKind, Write};
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt};
use net_support::{Folder, Limit, pattern, poll_once, runtime, with_workers};
use ws::fs::{self, DirBuilder, File, OpenOptions};
use ws::io::{AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWrite, AsyncWriteExt, SeekFrom};

/// The system's error of a write to a file that was opened for reading.
#[cfg(unix)]
const NOT_FOR_WRITING: i32 = libc::EBADF;
#[cfg(windows)]
const NOT_FOR_WRITING: i32 = 5; // ERROR_ACCESS_DENIED

/// A file that blocks: an end of a pipe, and the other end.
fn pipe() -> io::Result<(io::PipeReader, io::PipeWriter)> {
    io::pipe()
}

/// Fills a pipe, so that the next write to it blocks. Returns how many bytes that took.
#[cfg(unix)]
fn fill(pipe: &io::PipeWriter) -> io::Result<usize> {
    let socket = socket2::SockRef::from(pipe);
    socket.set_nonblocking(true)?;
    let mut filled = 0;
    loop {
        match (&mut &*pipe).write(&[0; 4096]) {
            Ok(len) => filled += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    socket.set_nonblocking(false)?;
    Ok(filled)
}

fn write_once(file: &mut File, bytes: &[u8]) -> Poll<io::Result<usize>> {
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(file).poll_write(&mut cx, bytes)
}

#[test]
fn what_is_written_is_read() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("bytes");
        let bytes = pattern(300_000, 1);
        let mut file = File::create_new(&path).await?;
        // Its buffer is smaller than a write: each takes a part.
        file.set_max_buf_size(7_001);
        file.write_all(&bytes).await?;
        file.flush().await?;
        assert_eq!(std_fs::read(&path)?, bytes);

        assert_eq!(file.seek(SeekFrom::Start(100_000)).await?, 100_000);
        let mut read = vec![0; 50_000];
        file.read_exact(&mut read).await?;
        assert_eq!(read, bytes[100_000..150_000]);
        assert_eq!(file.stream_position().await?, 150_000);
        file.write_all(b"here").await?;
        file.close().await?;
        assert_eq!(&std_fs::read(&path)?[150_000..150_004], b"here");
        Ok(())
    });
}

// Fails if a write after a read does not go back by what was read and not taken, or if `set_len` or
// a seek does not; and if a seek that fails forgets it, or moves the position.
#[test]
fn what_was_read_ahead_is_not_skipped() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("bytes");
        for step in 0..6 {
            std_fs::write(&path, b"0123456789")?;
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .await?;
            // The future is dropped, and the next read takes a part of what it has read.
            while poll_once(&mut file.read(&mut [0; 8])).await.is_ready() {
                file.seek(SeekFrom::Start(0)).await?;
            }
            let mut two = [0; 2];
            file.read_exact(&mut two).await?;
            assert_eq!(&two, b"01");
            match step {
                0 => {}
                1 => file.set_len(20).await?,
                2 => assert_eq!(file.seek(SeekFrom::Current(0)).await?, 2),
                _ => {
                    let to = [
                        SeekFrom::End(-1000),
                        SeekFrom::Current(-1000),
                        SeekFrom::Current(i64::MIN),
                    ][step - 3];
                    let refused = file.seek(to).await.unwrap_err();
                    #[cfg(unix)]
                    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
                    // ERROR_NEGATIVE_SEEK
                    #[cfg(windows)]
                    assert_eq!(refused.raw_os_error(), Some(131));
                    let mut rest = Vec::new();
                    file.read_to_end(&mut rest).await?;
                    assert_eq!(rest, b"23456789");
                    file.seek(SeekFrom::Start(2)).await?;
                }
            }
            file.write_all(b"ab").await?;
            file.flush().await?;
            assert_eq!(&std_fs::read(&path)?[..10], b"01ab456789", "step {step}");
        }
        Ok(())
    });
}

// Fails if a read takes its bytes along when its future is dropped.
#[test]
fn a_read_that_is_dropped_loses_no_byte() {
    with_workers(async || {
        let (reader, mut writer) = pipe()?;
        let mut file = File::from(OwnedFd::from(reader));
        let mut read = Vec::new();
        for byte in 0..50 {
            let mut buffer = [0; 3];
            // It is under way: there is nothing to read yet.
            let polled = poll_once(&mut file.read(&mut buffer)).await;
            assert!(polled.is_pending());
            writer.write_all(&[byte])?;
            let len = file.read(&mut buffer).await?;
            read.extend_from_slice(&buffer[..len]);
        }
        assert_eq!(read, (0..50).collect::<Vec<_>>());
        Ok(())
    });
}

// Fails if a write, or a seek that fails, takes along what was read of a file that has no position,
// or if what was to be written is read.
#[cfg(unix)]
#[test]
fn a_file_without_a_position_keeps_what_was_read() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("fifo");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&path)
                .status()?
                .success()
        );
        let std = std_fs::File::options().read(true).write(true).open(&path)?;
        let mut other = std.try_clone()?;
        let mut file = File::from(std);
        assert!(poll_once(&mut file.read(&mut [0; 4])).await.is_pending());
        other.write_all(b"abcd")?;
        let mut two = [0; 2];
        file.read_exact(&mut two).await?;
        assert_eq!(&two, b"ab");
        assert_eq!(
            file.stream_position().await.unwrap_err().kind(),
            ErrorKind::NotSeekable
        );
        file.write_all(b"xy").await?;
        file.flush().await?;
        file.read_exact(&mut two).await?;
        assert_eq!(&two, b"cd");
        file.read_exact(&mut two).await?;
        assert_eq!(&two, b"xy");
        Ok(())
    });
}

// Fails if a flush does not wait, or if a write is answered by more than one that is under way.
#[cfg(unix)]
#[test]
fn a_flush_waits_until_the_system_has_the_bytes() {
    with_workers(async || {
        let (mut reader, writer) = pipe()?;
        let filled = fill(&writer)?;
        let mut file = File::from(OwnedFd::from(writer));
        file.write_all(b"hello").await?;
        assert!(poll_once(&mut file.flush()).await.is_pending());
        let mut next = Box::pin(async { file.write_all(b"!").await.map(|()| file) });
        assert!(poll_once(&mut next).await.is_pending());
        let taken = ws::spawn_blocking(move || {
            let mut taken = vec![0; filled + 6];
            reader
                .read_exact(&mut taken)
                .map(|()| taken.split_off(filled))
        });
        next.await?.flush().await?;
        assert_eq!(taken.await??, b"hello!");
        Ok(())
    });
}

// Fails if an error is told by nobody, by the wrong operation, or twice.
#[test]
fn the_error_of_a_write_is_told_by_the_next() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("bytes");
        std_fs::write(&path, "hello")?;
        for step in 0..4 {
            // Opened for reading.
            let mut file = File::open(&path).await?;
            file.write_all(b"x").await?;
            match step {
                0 => {}
                // These do not tell of it, and keep it.
                1 => assert_eq!(file.metadata().await?.len(), 5),
                2 => assert_eq!(file.read(&mut [0; 2]).await?, 2),
                _ => {
                    // A read is under way while an error is kept.
                    assert_eq!(file.read(&mut [0; 2]).await?, 2);
                    drop(file.read(&mut [0; 2]).now_or_never());
                    // Windows wants a file that may be written.
                    #[cfg(unix)]
                    file.sync_all().await?;
                }
            }
            let told = file.flush().await.map_err(|error| error.raw_os_error());
            assert_eq!(told, Err(Some(NOT_FOR_WRITING)), "step {step}");
            file.flush().await?;
        }
        Ok(())
    });
}

#[test]
fn a_seek_that_is_dropped_is_not_done_twice() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("bytes");
        std_fs::write(&path, "0123456789")?;
        let mut file = File::open(&path).await?;
        let by_two = SeekFrom::Current(2);
        let begun = poll_fn(|cx| Poll::Ready(Pin::new(&mut file).poll_seek(cx, by_two))).await;
        if begun.is_pending() {
            assert_eq!(file.seek(by_two).await?, 2);
        }
        // Another one waits for it, and takes place.
        drop(file.seek(by_two).now_or_never());
        assert_eq!(file.seek(SeekFrom::Current(1)).await?, 5);
        // So does a read.
        drop(file.seek(by_two).now_or_never());
        let mut byte = [0];
        file.read_exact(&mut byte).await?;
        assert_eq!(&byte, b"7");
        Ok(())
    });
}

// Fails if a clone of std's file outlives the operation that was dropped.
#[test]
fn a_file_of_std_comes_and_goes() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("bytes");
        for _ in 0..50 {
            let mut file = File::from_std(std_fs::File::create(&path)?);
            file.write_all(b"hello").await?;
            drop(file.metadata().now_or_never());
            drop(file.try_clone().now_or_never());
            drop(file.into_std().await);
            assert_eq!(std_fs::read(&path)?, b"hello");
        }
        let (reader, mut writer) = pipe()?;
        let mut file = File::from(OwnedFd::from(reader));
        let mut byte = [0];
        assert!(poll_once(&mut file.read(&mut byte)).await.is_pending());
        let mut file = file.try_into_std().expect_err("a read is under way");
        writer.write_all(b"x")?;
        file.read_exact(&mut byte).await?;
        assert!(file.try_into_std().is_ok());
        Ok(())
    });
}

#[test]
fn clones_share_the_position() {
    with_workers(async || {
        let folder = Folder::new();
        let mut one = File::create_new(folder.path("bytes")).await?;
        let mut two = one.try_clone().await?;
        one.write_all(b"he").await?;
        one.flush().await?;
        two.write_all(b"llo").await?;
        two.sync_data().await?;
        assert_eq!(std_fs::read(folder.path("bytes"))?, b"hello");
        Ok(())
    });
}

// Fails if an operation that is accepted is left out at the end, or one that is lost is accepted.
#[test]
fn the_end_of_the_runtime_takes_no_write() {
    let _limit = Limit::new(1);
    let folder = Folder::new();
    let path = folder.path("bytes");
    let bytes = pattern(500_000, 2);
    let runtime = runtime(1);
    let mut file = runtime.block_on(async {
        let mut file = File::create(&path).await.expect("the folder is there");
        file.write_all(&bytes).await.expect("it is taken");
        file
    });
    let entered = runtime.handle().enter();
    drop(runtime);
    // Nobody has flushed.
    assert_eq!(std_fs::read(&path).expect("it is there"), bytes);
    let Poll::Ready(Err(error)) = write_once(&mut file, b"x") else {
        panic!("nothing would write it");
    };
    assert_eq!(error.kind(), ErrorKind::Other);
    let mut late = Box::pin(file.set_len(3));
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Err(error)) = late.as_mut().poll(&mut cx) else {
        panic!("nothing would do it");
    };
    assert_eq!(error.kind(), ErrorKind::Other);
    drop(late);
    drop(entered);
    // Another runtime may go on with the file.
    let runtime = self::runtime(2);
    runtime.block_on(async {
        let written = async {
            file.write_all(b"!").await?;
            file.flush().await
        };
        written.await.expect("the file is whole");
    });
    assert_eq!(
        std_fs::read(&path).expect("it is there").len(),
        bytes.len() + 1
    );
}

// Fails if a thread that is in the middle of an operation holds up the end.
#[test]
fn a_read_that_never_ends_does_not_hold_up_an_end_without_grace() {
    let _limit = Limit::new(1);
    let (reader, writer) = pipe().expect("there is room for a pipe");
    let mut file = File::from(OwnedFd::from(reader));
    let runtime = runtime(1);
    runtime.block_on(async {
        let mut byte = [0];
        assert!(poll_once(&mut file.read(&mut byte)).await.is_pending());
    });
    runtime.shutdown_timeout(Duration::ZERO);
    drop(writer);
}

#[test]
fn a_folder_is_read_to_its_end() {
    with_workers(async || {
        let folder = Folder::new();
        let path = folder.path("many");
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        builder.mode(0o700);
        builder.recursive(true).create(&path).await?;
        for n in 0..100 {
            fs::write(path.join(n.to_string()), [n]).await?;
        }
        let mut entries = fs::read_dir(&path).await?;
        let mut seen = Vec::new();
        // Each second future is dropped: none of them takes an entry along.
        while let Some(entry) = {
            match entries.next().now_or_never() {
                Some(entry) => entry.transpose()?,
                None => entries.try_next().await?,
            }
        } {
            assert!(entry.file_type().await?.is_file());
            assert_eq!(entry.metadata().await?.len(), 1);
            let name = entry.file_name().into_string().expect("it is a number");
            assert_eq!(entry.path(), path.join(&name));
            seen.push(name.parse::<u8>().expect("it is a number"));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert!(entries.next().await.is_none());
        Ok(())
    });
}

#[test]
fn functions_do_what_those_of_std_do() {
    with_workers(async || {
        let folder = Folder::new();
        let at = |name: &str| folder.path(name);
        fs::create_dir_all(at("a/b")).await?;
        fs::create_dir(at("a/c")).await?;
        fs::write(at("a/file"), "hello").await?;
        let copied = fs::copy(at("a/file"), at("a/copy")).await?;
        // Wine does not tell how many bytes it has copied.
        assert!(copied == 5 || cfg!(windows));
        fs::rename(at("a/copy"), at("a/other")).await?;
        assert!(!fs::try_exists(at("a/copy")).await?);
        assert_eq!(fs::read(at("a/other")).await?, b"hello");
        fs::hard_link(at("a/file"), at("a/hard")).await?;
        let real = std_fs::canonicalize(at("a/file"))?;
        // A user of Windows may not make one, as a rule.
        #[cfg(unix)]
        {
            fs::symlink(at("a/file"), at("a/soft")).await?;
            assert_eq!(fs::read_link(at("a/soft")).await?, at("a/file"));
            assert!(fs::symlink_metadata(at("a/soft")).await?.is_symlink());
            assert_eq!(fs::canonicalize(at("a/soft")).await?, real);
            fs::remove_file(at("a/soft")).await?;
        }
        assert_eq!(fs::canonicalize(at("a/b/../file")).await?, real);
        let before = fs::metadata(at("a/file")).await?.permissions();
        let mut permissions = before.clone();
        permissions.set_readonly(true);
        fs::set_permissions(at("a/file"), permissions).await?;
        assert!(std_fs::metadata(at("a/file"))?.permissions().readonly());
        // Otherwise Windows would not remove it.
        fs::set_permissions(at("a/file"), before).await?;
        fs::remove_file(at("a/other")).await?;
        fs::remove_dir(at("a/b")).await?;
        assert_eq!(fs::read_to_string(at("a/hard")).await?, "hello");
        fs::remove_dir_all(at("a")).await?;
        assert!(!Path::exists(&at("a")));
        let missing = File::open(at("a")).await.expect_err("it was removed");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        Ok(())
    });
}
