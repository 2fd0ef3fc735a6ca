//! Files, where tokio's own tests do not look.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "puts another file behind a descriptor")
)]

use std::task::{Context, Poll, Waker};

use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt},
    runtime::Builder,
};

// Fails if `poll_write` takes bytes that nothing will write.
#[test]
fn a_write_after_the_end_of_the_runtime_is_refused() {
    let path = std::env::temp_dir().join(format!("ws-tokio-late-{}", std::process::id()));
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let mut file = runtime.block_on(File::create(&path)).unwrap();
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    drop(runtime);
    let mut cx = Context::from_waker(Waker::noop());
    let polled = std::pin::pin!(file.write(b"hello")).poll(&mut cx);
    let Poll::Ready(Err(error)) = polled else {
        panic!("{polled:?}");
    };
    assert_eq!(error.to_string(), "background task failed");
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_clone_moves_as_many_bytes_at_a_time() {
    let path = std::env::temp_dir().join(format!("ws-tokio-clone-{}", std::process::id()));
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut file = File::create_new(&path).await.unwrap();
        file.set_max_buf_size(3);
        let mut clone = file.try_clone().await.unwrap();
        assert_eq!(clone.max_buf_size(), 3);
        assert_eq!(clone.write(b"abcdefgh").await.unwrap(), 3);
        clone.write_all(b"defgh").await.unwrap();
        clone.flush().await.unwrap();
        clone.rewind().await.unwrap();
        let mut bytes = [0; 8];
        assert_eq!(clone.read(&mut bytes).await.unwrap(), 3);
        assert_eq!(&bytes[..3], b"abc");
    });
    std::fs::remove_file(path).unwrap();
}

// Fails if an error is lost, or if what was read before it is. The system hands out all entries at
// its first look; the second look, which is to find the end, is at a file that is no directory.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_cannot_be_read_on_tells_it_once() {
    use std::os::fd::AsRawFd;

    /// More than are taken by one closure.
    const ENTRIES: usize = 40;
    let path = std::env::temp_dir().join(format!("ws-tokio-dir-{}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    let path = path.canonicalize().unwrap();
    for n in 0..ENTRIES {
        std::fs::write(path.join(n.to_string()), "").unwrap();
    }
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut entries = tokio::fs::read_dir(&path).await.unwrap();
        let is_it = |fd: &std::fs::DirEntry| {
            std::fs::read_link(fd.path()).is_ok_and(|behind| behind == path)
        };
        let mut fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let fd = fds.find(is_it).unwrap().file_name();
        let fd = fd.to_str().unwrap().parse().unwrap();
        let other = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the descriptor is open, and only `entries` has it.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
        let mut read = 0;
        let error = loop {
            match entries.next_entry().await {
                Ok(entry) => assert!(entry.is_some(), "the error is lost"),
                Err(error) => break error,
            }
            read += 1;
        };
        assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
        assert_eq!(read, ENTRIES);
        for _ in 0..2 {
            assert!(entries.next_entry().await.unwrap().is_none());
        }
    });
    std::fs::remove_dir_all(path).unwrap();
}
