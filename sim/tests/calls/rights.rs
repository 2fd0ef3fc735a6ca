//! Descriptors that travel in messages of Unix sockets.

use std::{
    mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
};

use libc::c_int;
use socket2::{Domain, Socket, Type};

use super::{Seen, add, compare, eventfd, owned, read, result, say};

/// Room for a header and some descriptors.
type Room = [u64; 8];

fn send(socket: &Socket, bytes: &[u8], files: &[RawFd]) -> Result<isize, Option<i32>> {
    let mut room: Room = [0; 8];
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let size = mem::size_of_val(files) as u32;
    // SAFETY: it is plain data; the buffer has room for the header and the numbers.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        if !files.is_empty() {
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size) as _;
            let header = &mut *libc::CMSG_FIRSTHDR(&message);
            (header.cmsg_level, header.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            header.cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            ptr::copy_nonoverlapping(files.as_ptr(), data, files.len());
        }
        result(libc::sendmsg(
            socket.as_raw_fd(),
            &message,
            libc::MSG_NOSIGNAL,
        ))
    }
}

/// Receives up to 9 bytes, and descriptors for which there is this much room.
fn receive(seen: &mut Seen, socket: &Socket, room_len: usize, flags: c_int) -> Vec<OwnedFd> {
    let (mut bytes, mut room): ([u8; 9], Room) = ([0; 9], [0; 8]);
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 9,
    };
    let mut files = Vec::new();
    // SAFETY: it is plain data; the buffers are as long as they say; each number is a new one.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        if room_len > 0 {
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = room_len as _;
        }
        let got = libc::recvmsg(socket.as_raw_fd(), &mut message, flags);
        say(seen, "receive", (result(got), bytes));
        let told = message.msg_flags & (libc::MSG_CTRUNC | libc::MSG_TRUNC);
        say(seen, "flags and room", (told, message.msg_controllen));
        let header = libc::CMSG_FIRSTHDR(&message);
        if got >= 0 && !header.is_null() {
            let len = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            for place in 0..len / mem::size_of::<RawFd>() {
                files.push(owned(ptr::read_unaligned(data.add(place))));
            }
        }
    }
    let closes = |file: &OwnedFd| {
        // SAFETY: the command takes no argument.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) }
    };
    say(
        seen,
        "close on exec",
        files.iter().map(closes).collect::<Vec<_>>(),
    );
    files
}

#[test]
fn a_descriptor_travels_in_a_message() {
    for kind in [Type::STREAM, Type::DGRAM, Type::SEQPACKET] {
        compare_kind(kind);
    }
}

fn compare_kind(kind: Type) {
    match kind {
        Type::STREAM => compare(|seen| travels(seen, Type::STREAM)),
        Type::DGRAM => compare(|seen| travels(seen, Type::DGRAM)),
        _ => compare(|seen| travels(seen, Type::SEQPACKET)),
    }
}

fn travels(seen: &mut Seen, kind: Type) {
    let (a, b) = Socket::pair(Domain::UNIX, kind, None).unwrap();
    b.set_nonblocking(true).unwrap();
    let (first, second) = (eventfd(7, 0), eventfd(0, 0));
    let both = [first.as_raw_fd(), second.as_raw_fd()];
    say(seen, "before", send(&a, b"xy", &[]));
    say(seen, "send", send(&a, b"abc", &both));
    say(seen, "after", send(&a, b"z", &[]));
    drop(first);
    for flags in [libc::MSG_PEEK, 0, 0, 0] {
        let got = receive(seen, &b, 64, flags | libc::MSG_CMSG_CLOEXEC);
        if let [first, other] = &got[..] {
            say(seen, "count", read(first, 8));
            say(seen, "give", add(first, 7));
            say(seen, "other", add(other, 1));
            say(seen, "second", read(&second, 8));
        }
    }
    say(seen, "closed", send(&a, b"x", &[99_999]));
}

#[test]
fn descriptors_for_which_there_is_no_room_are_closed() {
    compare(|seen| {
        let (a, b) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        ours.set_nonblocking(true).unwrap();
        let event = eventfd(0, 0);
        // SAFETY: it is arithmetic.
        let one = unsafe { libc::CMSG_LEN(4) } as usize;
        for room in [0, 8, one] {
            let files = [event.as_raw_fd(), theirs.as_raw_fd()];
            say(seen, "send", send(&a, b"x", &files));
            receive(seen, &b, room, 0);
        }
        // The last descriptor of the other end is in a message that nobody reads.
        say(seen, "send", send(&a, b"x", &[theirs.as_raw_fd()]));
        drop(theirs);
        say(seen, "open", result(peek(&ours)));
        drop(b);
        say(seen, "closed", result(peek(&ours)));
    });
}

#[test]
fn a_read_drops_descriptors() {
    compare(|seen| {
        let (a, b) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        ours.set_nonblocking(true).unwrap();
        say(seen, "send", send(&a, b"x", &[theirs.as_raw_fd()]));
        drop(theirs);
        say(seen, "open", result(peek(&ours)));
        say(seen, "read", read(&OwnedFd::from(b), 1));
        say(seen, "closed", result(peek(&ours)));
    });
}

fn peek(socket: &Socket) -> isize {
    let mut byte = 0_u8;
    // SAFETY: there is room for a byte.
    unsafe {
        libc::recv(
            socket.as_raw_fd(),
            (&raw mut byte).cast(),
            1,
            libc::MSG_PEEK,
        )
    }
}

#[test]
fn a_message_takes_so_many_descriptors_and_no_more() {
    compare(|seen| {
        let (a, _b) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        let event = eventfd(0, 0);
        for count in [1_usize, 253, 254] {
            let (mut room, files) = ([0_u64; 200], vec![event.as_raw_fd(); count]);
            let size = 4 * count as u32;
            // SAFETY: it is plain data; the buffer has room for the header and the numbers.
            let sent = unsafe {
                let mut message: libc::msghdr = mem::zeroed();
                message.msg_control = room.as_mut_ptr().cast();
                message.msg_controllen = libc::CMSG_SPACE(size) as _;
                let header = &mut *libc::CMSG_FIRSTHDR(&message);
                (header.cmsg_level, header.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
                header.cmsg_len = libc::CMSG_LEN(size) as _;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                ptr::copy_nonoverlapping(files.as_ptr(), data, count);
                libc::sendmsg(a.as_raw_fd(), &message, 0)
            };
            say(seen, "sent", (count, result(sent)));
        }
    });
}

/// Messages of these lengths.
fn with_messages<R>(lens: [usize; 3], call: impl FnOnce(*mut libc::mmsghdr) -> R) -> R {
    let mut bytes = vec![0_u8; 1 << 20];
    let mut parts = lens.map(|iov_len| libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len,
    });
    let mut all = parts.each_mut().map(|part| {
        // SAFETY: it is plain data.
        let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
        message
    });
    call(all.as_mut_ptr())
}

#[test]
fn many_messages_go_up_to_the_first_that_fails() {
    compare(|seen| {
        for lens in [[1, 2, 1 << 20], [1 << 20, 1, 2]] {
            let (a, b) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
            b.set_nonblocking(true).unwrap();
            for name in [true, false] {
                // SAFETY: there are three messages, each with a part that is valid.
                let (sent, got) = unsafe {
                    let (from, to) = (a.as_raw_fd(), b.as_raw_fd());
                    let sent = with_messages(lens, |all| match name {
                        true => libc::sendmmsg(from, all, 3, 0).into(),
                        false => libc::syscall(libc::SYS_sendmmsg, from, all, 3, 0),
                    });
                    let sent = result(sent as isize);
                    let none = ptr::null_mut();
                    let got = |all| libc::recvmmsg(to, all, 3, 0, none);
                    (sent, result(with_messages([9; 3], got) as isize))
                };
                say(seen, "sent", sent);
                say(seen, "received", got);
            }
        }
    });
}
