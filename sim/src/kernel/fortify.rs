//! The functions that C code calls if it was compiled with `_FORTIFY_SOURCE`.
//!
//! A compiler that knows how much room there is calls these in place of `read`, `readlink` and so
//! on, with the room as one more argument. glibc's make system calls of their own, which would
//! reach the machine. Here each looks at the room, as glibc's does, and is then the seam's function
//! of the plain name. On other threads that one is the system's.
//!
//! Others of that family need nothing here: `__fgets_chk` and `__fread_chk` read from streams,
//! whose descriptors are those of `fs/streams.rs`.
//!
//! musl has none of them.
#![allow(unsafe_code)]

use libc::{
    c_char, c_int, c_void, nfds_t, off_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t,
    timespec,
};

use super::unsupported::{FILES, refused};

unsafe extern "C" {
    /// Ends the process, with a message.
    fn __chk_fail() -> !;
}

/// Ends the process if a call would write more than there is room for.
fn fits(len: size_t, room: size_t) {
    if len > room {
        // SAFETY: it takes nothing and does not return.
        unsafe { __chk_fail() }
    }
}

/// Functions that are those of the plain name, after a look at the room.
macro_rules! fortified {
    ($(
        $name:ident($($argument:ident: $type:ty),*) -> $answer:ty
            = $room:expr, $plain:expr;
    )*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $answer {
                let (len, room): (size_t, size_t) = $room;
                fits(len, room);
                // SAFETY: by the contract of libc.
                unsafe { $plain }
            }
        )*

        const FORTIFIED: &[*const c_void] = &[$($name as *const c_void),*];
    };
}

fortified! {
    __read_chk(fd: c_int, out: *mut c_void, len: size_t, room: size_t) -> ssize_t
        = (len, room), libc::read(fd, out, len);
    __pread_chk(fd: c_int, out: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t
        = (len, room), libc::pread(fd, out, len, at);
    __pread64_chk(fd: c_int, out: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t
        = (len, room), libc::pread(fd, out, len, at);
    __recv_chk(fd: c_int, out: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t
        = (len, room), libc::recv(fd, out, len, flags);
    __recvfrom_chk(fd: c_int, out: *mut c_void, len: size_t, room: size_t, flags: c_int,
        from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t
        = (len, room), libc::recvfrom(fd, out, len, flags, from, from_len);
    __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int
        = of_entries(count, room), libc::poll(fds, count, timeout);
    __ppoll_chk(fds: *mut pollfd, count: nfds_t, time: *const timespec, mask: *const sigset_t,
        room: size_t) -> c_int
        = of_entries(count, room), libc::ppoll(fds, count, time, mask);
    __readlink_chk(path: *const c_char, out: *mut c_char, len: size_t, room: size_t) -> ssize_t
        = (len, room), libc::readlink(path, out, len);
    __readlinkat_chk(dir: c_int, path: *const c_char, out: *mut c_char, len: size_t,
        room: size_t) -> ssize_t
        = (len, room), libc::readlinkat(dir, path, out, len);
    __realpath_chk(path: *const c_char, out: *mut c_char, room: size_t) -> *mut c_char
        = (libc::PATH_MAX as size_t, room), libc::realpath(path, out);
    __getcwd_chk(out: *mut c_char, len: size_t, room: size_t) -> *mut c_char
        = (len, room), libc::getcwd(out, len);
    __getwd_chk(out: *mut c_char, room: size_t) -> *mut c_char
        = (0, room), libc::getcwd(out, room.min(libc::PATH_MAX as size_t));
    __gethostname_chk(out: *mut c_char, len: size_t, room: size_t) -> c_int
        = (len, room), libc::gethostname(out, len);
    __ttyname_r_chk(fd: c_int, out: *mut c_char, len: size_t, room: size_t) -> c_int
        = (len, room), libc::ttyname_r(fd, out, len);
}

/// So many entries, and those that there is room for.
fn of_entries(count: nfds_t, room: size_t) -> (size_t, size_t) {
    (count as size_t, room / size_of::<pollfd>())
}

refused! {
    REFUSED, FILES;
    __mq_open_2(name: *const c_char, flags: c_int) -> c_int = libc::ENOSYS;
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PARTS: [&[*const c_void]; 2] = [FORTIFIED, REFUSED];
