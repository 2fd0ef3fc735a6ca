//! Bytes that go from one descriptor to another through a pipe.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::fd::{AsRawFd, OwnedFd},
    ptr,
};

use libc::{SPLICE_F_NONBLOCK, c_int, c_uint, iovec};
use socket2::{Domain, SockRef, Socket, Type};
use ws_sim::Sim;

use super::{
    Seen, compare,
    descriptors::{pipe, write},
    epoll, eventfd, read, result, say,
};

type Answer = Result<isize, Option<c_int>>;

fn splice(from: &impl AsRawFd, to: &impl AsRawFd, len: usize, flags: c_uint) -> Answer {
    let (from, to, no) = (from.as_raw_fd(), to.as_raw_fd(), ptr::null_mut());
    // SAFETY: the places may be null.
    result(unsafe { libc::splice(from, no, to, no, len, flags) })
}

fn tee(from: &OwnedFd, to: &OwnedFd, len: usize, flags: c_uint) -> Answer {
    // SAFETY: it takes no pointers.
    result(unsafe { libc::tee(from.as_raw_fd(), to.as_raw_fd(), len, flags) })
}

fn vmsplice(fd: &impl AsRawFd, bytes: &mut [u8], count: usize, flags: c_uint) -> Answer {
    let list = [iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }];
    // SAFETY: the list has one entry, and more are not looked at.
    result(unsafe { libc::vmsplice(fd.as_raw_fd(), list.as_ptr(), count, flags) })
}

fn pair() -> (OwnedFd, OwnedFd) {
    let (a, b) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    for one in [&a, &b] {
        one.set_nonblocking(true).unwrap();
    }
    (a.into(), b.into())
}

#[test]
fn a_splice_moves_bytes_and_a_tee_copies_them() {
    compare(|seen| {
        let (first, second) = (pipe(libc::O_NONBLOCK), pipe(libc::O_NONBLOCK));
        for call in [splice, |from: &OwnedFd, to: &OwnedFd, len, flags| {
            tee(from, to, len, flags)
        }] {
            say(seen, "empty", call(&first.0, &second.1, 9, 0));
            say(seen, "write", write(&first.1, 5));
            say(seen, "some", call(&first.0, &second.1, 3, 0));
            say(seen, "none", call(&first.0, &second.1, 0, 0));
            say(seen, "flags", call(&first.0, &second.1, 9, 16));
            say(seen, "all flags", call(&first.0, &second.1, 9, 15));
            say(seen, "itself", call(&first.0, &first.1, 9, 0));
            say(seen, "wrong end", call(&first.1, &second.1, 9, 0));
            say(seen, "wrong end", call(&first.0, &second.0, 9, 0));
            say(seen, "wrong ends", call(&first.1, &second.0, 9, 0));
            say(seen, "left", read(&first.0, 9));
            say(seen, "moved", read(&second.0, 20));
        }
        say(seen, "write", write(&first.1, 9));
        drop(second.0);
        say(seen, "broken", splice(&first.0, &second.1, 9, 0));
        say(seen, "left", read(&first.0, 9).0);
        drop(first.1);
        say(seen, "end", splice(&first.0, &second.1, 9, 0));
        say(seen, "end", tee(&first.0, &second.1, 9, 0));
    });
}

#[test]
fn a_splice_reads_and_writes_sockets() {
    compare(|seen| {
        let ((reader, writer), (a, b)) = (pipe(libc::O_NONBLOCK), pair());
        say(seen, "nothing", splice(&reader, &a, 9, 0));
        say(seen, "nothing", splice(&a, &writer, 9, 0));
        say(seen, "no pipe", splice(&a, &b, 9, 0));
        say(seen, "write", write(&writer, 5));
        say(seen, "out", splice(&reader, &a, 3, 0));
        say(seen, "got", read(&b, 9));
        say(seen, "out", splice(&reader, &a, 9, SPLICE_F_NONBLOCK));
        say(seen, "in", splice(&b, &writer, 1, 0));
        say(seen, "in", splice(&b, &writer, 9, SPLICE_F_NONBLOCK));
        say(seen, "got", read(&reader, 9));
        let mut place = 0_i64;
        let (from, to, no) = (reader.as_raw_fd(), a.as_raw_fd(), ptr::null_mut());
        // SAFETY: the place is valid, or null.
        unsafe {
            let at = &raw mut place;
            say(seen, "place", result(libc::splice(from, at, to, no, 9, 0)));
            let to = writer.as_raw_fd();
            say(
                seen,
                "place",
                result(libc::splice(b.as_raw_fd(), no, to, at, 9, 0)),
            );
        }
        drop(a);
        say(seen, "end", splice(&b, &writer, 9, 0));
        say(seen, "write", write(&writer, 5));
        say(seen, "broken", splice(&reader, &b, 9, 0));
        say(seen, "left", read(&reader, 9).0);
    });
}

#[test]
fn a_splice_reads_and_writes_files() {
    compare(|seen| {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        // SAFETY: the text ends with NUL.
        let file = super::owned(unsafe {
            let flags = libc::O_TMPFILE | libc::O_RDWR;
            libc::open(c"/tmp".as_ptr(), flags, 0o600)
        });
        let mut file = File::from(file);
        file.write_all(b"0123456789").unwrap();
        say(seen, "end", splice(&file, &writer, 9, 0));
        file.rewind().unwrap();
        say(seen, "in", splice(&file, &writer, 4, 0));
        say(seen, "at", file.stream_position().unwrap());
        let mut place = 6_i64;
        let (fd, no) = (file.as_raw_fd(), ptr::null_mut());
        // SAFETY: the place is valid, or null.
        unsafe {
            let at = &raw mut place;
            let to = writer.as_raw_fd();
            say(
                seen,
                "at a place",
                result(libc::splice(fd, at, to, no, 2, 0)),
            );
            say(seen, "place", place);
            let from = reader.as_raw_fd();
            say(
                seen,
                "at a place",
                result(libc::splice(from, no, fd, at, 3, 0)),
            );
            say(seen, "place", place);
        }
        say(seen, "out", splice(&reader, &file, 99, 0));
        say(seen, "at", file.stream_position().unwrap());
        let mut all = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut all).unwrap();
        say(seen, "all", all);
    });
}

#[test]
fn a_vmsplice_writes_and_reads_a_pipe() {
    fn each(seen: &mut Seen, fd: &impl AsRawFd, count: usize, flags: c_uint) {
        // A pipe of Linux has the page itself, so its bytes have to stay as they are.
        let bytes = Box::leak(Box::new(*b"hello"));
        say(seen, "vmsplice", vmsplice(fd, bytes, count, flags));
    }
    compare(|seen| {
        let (reader, writer) = pipe(0);
        each(seen, &writer, 1, SPLICE_F_NONBLOCK);
        each(seen, &writer, 0, 0);
        each(seen, &writer, usize::MAX, 0);
        each(seen, &writer, 1, 16);
        let mut bytes = [0; 3];
        say(seen, "read", vmsplice(&reader, &mut bytes, 1, 0));
        say(seen, "bytes", bytes);
        say(seen, "rest", read(&reader, 9));
        each(seen, &reader, 1, SPLICE_F_NONBLOCK);
        each(seen, &pair().0, 1, 0);
        each(seen, &eventfd(0, 0), 1, 0);
        drop(reader);
        each(seen, &writer, 1, 0);
    });
}

#[test]
fn calls_by_number_are_the_same() {
    compare(|seen| {
        let (first, second) = (pipe(libc::O_NONBLOCK), pipe(libc::O_NONBLOCK));
        let ends = [first.0.as_raw_fd(), second.1.as_raw_fd()];
        let no = ptr::null_mut::<i64>();
        let bytes = Box::leak(Box::new(*b"hello"));
        let list = [iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: 5,
        }];
        let (all, list) = (9_usize, list.as_ptr());
        // SAFETY: the places are null, and the list has one entry, whose bytes stay.
        unsafe {
            let into = first.1.as_raw_fd();
            let put = libc::syscall(libc::SYS_vmsplice, into, list, 1_usize, 0);
            say(seen, "vmsplice", result(put as isize));
            let copied = libc::syscall(libc::SYS_tee, ends[0], ends[1], all, 0);
            say(seen, "tee", result(copied as isize));
            for flags in [16, 0, 0] {
                let call = libc::SYS_splice;
                let moved = libc::syscall(call, ends[0], no, ends[1], no, all, flags);
                say(seen, "splice", result(moved as isize));
            }
        }
        say(seen, "all", read(&second.0, 20));
    });
}

#[test]
fn what_cannot_be_spliced_says_so() {
    compare(|seen| {
        let (reader, writer) = pipe(libc::O_NONBLOCK);
        write(&writer, 8).unwrap();
        for other in [eventfd(1, 0), epoll()] {
            say(seen, "out", splice(&reader, &other, 8, 0));
            say(seen, "in", splice(&other, &writer, 8, 0));
        }
        // Descriptors that are closed.
        let closed = [pipe(0), pair()].map(|(fd, _)| fd.as_raw_fd());
        for fd in closed {
            say(seen, "out", splice(&reader, &fd, 8, 0));
            say(seen, "in", splice(&fd, &writer, 8, 0));
            say(seen, "nothing", splice(&fd, &writer, 0, 0));
        }
    });
}

/// A file without a name and with so many bytes. The next read begins at the first one.
fn file_of(len: usize, flags: c_int) -> File {
    // SAFETY: the text ends with NUL.
    let file = super::owned(unsafe {
        let flags = libc::O_TMPFILE | libc::O_RDWR | flags;
        libc::open(c"/tmp".as_ptr(), flags, 0o600)
    });
    let mut file = File::from(file);
    file.write_all(&vec![7; len]).unwrap();
    file.rewind().unwrap();
    file
}

#[test]
fn a_splice_reads_no_more_of_a_file_than_the_pipe_takes() {
    compare(|seen| {
        let ((reader, writer), mut file) = (pipe(libc::O_NONBLOCK), file_of(10_000, 0));
        say(seen, "all but a page", write(&writer, 61_440));
        say(seen, "a page", splice(&file, &writer, 10_000, 0));
        say(seen, "at", file.stream_position().unwrap());
        say(seen, "full", splice(&file, &writer, 10_000, 0));
        say(seen, "read", read(&reader, 70_000).0);
        say(seen, "the rest", splice(&file, &writer, 10_000, 0));
        say(seen, "at", file.stream_position().unwrap());
    });
}

// How much of it a socket of Linux takes depends on the version.
#[test]
fn what_a_socket_does_not_take_stays_in_the_pipe() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let ((reader, writer), (a, _b)) = (pipe(libc::O_NONBLOCK), pair());
        SockRef::from(&a).set_send_buffer_size(8_192).unwrap();
        write(&writer, 60_000).unwrap();
        let moved = splice(&reader, &a, 60_000, 0).unwrap();
        assert!((1..60_000).contains(&moved), "{moved}");
        let left = read(&reader, 60_000).0.unwrap();
        assert_eq!(moved + left, 60_000);
    });
    sim.try_run().unwrap();
}

#[test]
fn a_file_that_grows_at_its_end_takes_no_splice() {
    compare(|seen| {
        let ((reader, writer), file) = (pipe(libc::O_NONBLOCK), file_of(1, libc::O_APPEND));
        say(seen, "write", write(&writer, 5));
        say(seen, "out", splice(&reader, &file, 5, 0));
        say(seen, "left", read(&reader, 9));
    });
}

#[test]
fn a_splice_may_say_that_it_does_not_wait() {
    compare(|seen| {
        let ((reader, writer), (other, full), (a, b)) = (pipe(0), pipe(0), pair());
        say(seen, "out", splice(&reader, &a, 9, SPLICE_F_NONBLOCK));
        say(
            seen,
            "between",
            splice(&reader, &full, 9, SPLICE_F_NONBLOCK),
        );
        say(seen, "copy", tee(&reader, &full, 9, SPLICE_F_NONBLOCK));
        // SAFETY: there are as many bytes.
        let sent = unsafe { libc::write(b.as_raw_fd(), c"hello".as_ptr().cast(), 5) };
        say(seen, "sent", result(sent));
        say(seen, "all", write(&full, 65_536));
        say(seen, "in", splice(&a, &full, 9, SPLICE_F_NONBLOCK));
        drop((writer, other));
        say(seen, "end", splice(&reader, &a, 9, SPLICE_F_NONBLOCK));
    });
}

// The thread that would wait is the one that would have to read.
#[test]
fn a_vmsplice_waits_also_at_a_pipe_that_says_it_does_not() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let (_reader, writer) = pipe(libc::O_NONBLOCK);
        write(&writer, 65_536).unwrap();
        let mut bytes = *b"hello";
        let mut put = |flags| vmsplice(&writer, &mut bytes, 1, flags);
        assert_eq!(put(0), Err(Some(libc::EDEADLK)));
        assert_eq!(put(SPLICE_F_NONBLOCK), Err(Some(libc::EAGAIN)));
    });
    sim.try_run().unwrap();
}
