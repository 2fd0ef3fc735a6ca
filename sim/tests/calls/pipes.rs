//! Pipes: what each end answers, whole and broken.

use std::{
    mem,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use libc::{EPOLL_CTL_ADD, EPOLLIN, EPOLLOUT, EPOLLRDHUP, c_int};

use super::{
    compare, control,
    descriptors::{get, pipe, write},
    epoll, read, ready, result, say,
};

fn unread(fd: &OwnedFd) -> (isize, c_int) {
    let mut count = -1;
    // SAFETY: there is room for the number.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    (done as isize, count)
}

fn poll(fd: &OwnedFd) -> i16 {
    let mut entry = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: it is one valid entry.
    unsafe { libc::poll(&raw mut entry, 1, 0) };
    entry.revents
}

#[test]
fn each_end_tells_what_it_is() {
    compare(|seen| {
        let (reader, writer) = pipe(libc::O_NONBLOCK | libc::O_CLOEXEC);
        write(&writer, 3).unwrap();
        for end in [&reader, &writer] {
            let fd = end.as_raw_fd();
            say(seen, "unread", unread(end));
            say(seen, "poll", poll(end));
            say(seen, "flags", get(end, libc::F_GETFD));
            // SAFETY: there is room, and nothing else is pointed to.
            unsafe {
                let mut about: libc::stat = mem::zeroed();
                say(seen, "about", libc::fstat(fd, &raw mut about));
                say(seen, "mode", about.st_mode & libc::S_IFMT);
                say(seen, "length", about.st_size);
                let mut byte = 0_u8;
                let place = (&raw mut byte).cast();
                say(
                    seen,
                    "seek",
                    result(libc::lseek(fd, 0, libc::SEEK_CUR) as isize),
                );
                say(seen, "at", result(libc::pread(fd, place, 1, 0)));
                say(seen, "at", result(libc::pwrite(fd, place, 1, 0)));
                say(seen, "sync", result(libc::fsync(fd) as isize));
                say(seen, "cut", result(libc::ftruncate(fd, 0) as isize));
                say(seen, "room", result(libc::fallocate(fd, 0, 0, 1) as isize));
                say(seen, "folder", result(libc::fchdir(fd) as isize));
                let map = libc::mmap(ptr::null_mut(), 1, 1, libc::MAP_SHARED, fd, 0);
                say(seen, "map", map == libc::MAP_FAILED);
            }
        }
    });
}

#[test]
fn each_end_has_its_own_mode() {
    compare(|seen| {
        let (reader, writer) = pipe(0);
        let set = |fd: &OwnedFd, flags: c_int| {
            // SAFETY: the command takes a number.
            result(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) } as isize)
        };
        say(seen, "set", set(&reader, libc::O_NONBLOCK));
        let mode = |fd| get(fd, libc::F_GETFL);
        say(seen, "reader", mode(&reader));
        say(seen, "writer", mode(&writer));
        say(seen, "empty", read(&reader, 1).0);
        say(seen, "set", set(&writer, libc::O_NONBLOCK));
        say(seen, "set", set(&reader, 0));
        say(seen, "reader", mode(&reader));
        say(seen, "full", write(&writer, 100_000));
        say(seen, "full", write(&writer, 1));
        say(seen, "no bytes", write(&writer, 0));
    });
}

#[test]
fn a_copy_of_an_end_keeps_it_open() {
    compare(|seen| {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        let copy = writer.try_clone().unwrap();
        drop(writer);
        say(seen, "open", read(&reader, 1).0);
        say(seen, "poll", poll(&reader));
        say(seen, "write", write(&copy, 1));
        drop(copy);
        say(seen, "poll", poll(&reader));
        say(seen, "nothing", read(&reader, 0).0);
        say(seen, "rest", read(&reader, 9).0);
        say(seen, "end", read(&reader, 9).0);
        say(seen, "nothing", read(&reader, 0).0);
        say(seen, "poll", poll(&reader));
    });
}

#[test]
fn a_pipe_without_a_reader_is_broken() {
    compare(|seen| {
        let (reader, writer) = pipe(0);
        let epoll = epoll();
        let events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
        say(seen, "add", control(&epoll, EPOLL_CTL_ADD, &writer, events));
        say(seen, "write", write(&writer, 5));
        drop(reader);
        say(seen, "ready", ready(&epoll));
        say(seen, "poll", poll(&writer));
        say(seen, "unread", unread(&writer));
        // The programs of Rust ignore SIGPIPE.
        say(seen, "no bytes", write(&writer, 0));
        say(seen, "one", write(&writer, 1));
        say(seen, "many", write(&writer, 100_000));
    });
}

#[test]
fn many_buffers_are_one_read_or_write() {
    compare(|seen| {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        let mut space = [[0_u8; 3], [0; 3]];
        let mut list = space.each_mut().map(|one| libc::iovec {
            iov_base: one.as_mut_ptr().cast(),
            iov_len: 3,
        });
        list[0].iov_len = 0;
        let (list, fds) = (list.as_ptr(), (reader.as_raw_fd(), writer.as_raw_fd()));
        // SAFETY: the list has two entries, each with room for three bytes.
        unsafe {
            for count in [2, 0, -1, 2_000] {
                say(seen, "write", result(libc::writev(fds.1, list, count)));
            }
            for count in [2, 0, -1] {
                say(seen, "read", result(libc::readv(fds.0, list, count)));
            }
            say(seen, "wrong", result(libc::readv(fds.1, list, 2)));
            say(seen, "wrong", result(libc::writev(fds.0, list, 2)));
        }
    });
}

#[test]
fn flags_and_sizes_of_pipes() {
    compare(|seen| {
        for flags in [libc::O_APPEND, libc::O_RDWR, libc::O_CREAT, 1 << 30] {
            let mut both = [-1; 2];
            // SAFETY: there is room for two.
            let made = unsafe { libc::pipe2(both.as_mut_ptr(), flags) };
            say(seen, "wrong", (result(made as isize), both));
        }
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        let set = |fd: &OwnedFd, size: c_int| {
            // SAFETY: the command takes a number.
            result(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETPIPE_SZ, size) } as isize)
        };
        for size in [0, -1, 5_000, 65_536] {
            say(seen, "size", set(&writer, size));
            say(seen, "is", get(&reader, libc::F_GETPIPE_SZ));
        }
        say(seen, "small", set(&reader, 4_096));
        say(seen, "write", write(&writer, 5_000));
        say(seen, "full", write(&writer, 1));
        say(seen, "larger", set(&reader, 8_192));
        say(seen, "poll", poll(&writer));
        say(seen, "write", write(&writer, 4_096));
        say(seen, "too small", set(&reader, 4_096));
        say(seen, "no pipe", set(&epoll(), 4_096));
    });
}

#[test]
fn a_writer_hears_of_a_pipe_that_grows() {
    compare(|seen| {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        let epoll = epoll();
        say(seen, "full", write(&writer, 70_000));
        say(
            seen,
            "add",
            control(&epoll, EPOLL_CTL_ADD, &writer, EPOLLOUT),
        );
        say(seen, "ready", ready(&epoll));
        // SAFETY: the command takes a number.
        let grown = unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETPIPE_SZ, 131_072) };
        say(seen, "larger", result(grown as isize));
        say(seen, "ready", ready(&epoll));
    });
}

#[test]
fn a_short_write_is_whole_or_not_at_all() {
    compare(|seen| {
        let (_reader, writer) = pipe(libc::O_NONBLOCK);
        say(seen, "most", write(&writer, 65_436));
        say(seen, "too much", write(&writer, 200));
        say(seen, "the rest", write(&writer, 100));
    });
}

#[test]
fn a_pipe_has_a_mebibyte_at_most() {
    let sim = ws_sim::Sim::new(1);
    sim.client("host", async {
        let (_reader, writer) = pipe(libc::O_NONBLOCK);
        let set = |size: c_int| {
            // SAFETY: the command takes a number.
            let set = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, size) };
            result(set as isize)
        };
        assert_eq!(set(1 << 20), Ok(1 << 20));
        assert_eq!(set((1 << 20) + 1), Err(Some(libc::EPERM)));
        assert_eq!(write(&writer, 2_000_000), Ok(1 << 20));
    });
    sim.try_run().unwrap();
}

#[test]
fn the_end_of_a_pipe_wakes_who_waits_for_bytes() {
    let sim = ws_sim::Sim::new(1);
    sim.client("host", async {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        ws::spawn_local(async move {
            ws::time::sleep(std::time::Duration::from_secs(5)).await;
            drop(writer);
        });
        let reader = ws::io::AsyncFd::new(reader)?;
        let at_end = || match read(reader.get_ref(), 9).0 {
            Ok(len) => Ok(len),
            Err(_) => Err(std::io::ErrorKind::WouldBlock.into()),
        };
        assert_eq!(reader.io(ws::io::Interest::READABLE, at_end).await?, 0);
        std::io::Result::Ok(())
    });
    sim.try_run().unwrap();
    assert_eq!(sim.elapsed().as_secs(), 5);
}
