//! The functions by which C code calls libc that was compiled with `_FORTIFY_SOURCE`. They are
//! glibc's.

use std::{
    ffi::{CStr, c_void},
    fs,
    os::fd::AsRawFd,
    path::Path,
    ptr,
    time::{Duration, Instant},
};

use libc::{c_char, c_int, size_t, ssize_t};
use socket2::{Domain, Socket, Type};
use ws_sim::Sim;

use super::{Machine, c, cvt, made};

unsafe extern "C" {
    fn __readlink_chk(path: *const c_char, out: *mut c_char, len: size_t, room: size_t) -> ssize_t;
    fn __readlinkat_chk(
        dir: c_int,
        path: *const c_char,
        out: *mut c_char,
        len: size_t,
        room: size_t,
    ) -> ssize_t;
    fn __realpath_chk(path: *const c_char, out: *mut c_char, room: size_t) -> *mut c_char;
    fn __getcwd_chk(out: *mut c_char, len: size_t, room: size_t) -> *mut c_char;
    fn __getwd_chk(out: *mut c_char, room: size_t) -> *mut c_char;
    fn __gethostname_chk(out: *mut c_char, len: size_t, room: size_t) -> c_int;
    fn __read_chk(fd: c_int, out: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    fn __pread_chk(fd: c_int, out: *mut c_void, len: size_t, at: i64, room: size_t) -> ssize_t;
    fn __pread64_chk(fd: c_int, out: *mut c_void, len: size_t, at: i64, room: size_t) -> ssize_t;
    fn __recv_chk(fd: c_int, out: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t;
    fn __recvfrom_chk(
        fd: c_int,
        out: *mut c_void,
        len: size_t,
        room: size_t,
        flags: c_int,
        from: *mut libc::sockaddr,
        from_len: *mut libc::socklen_t,
    ) -> ssize_t;
    fn __poll_chk(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        timeout: c_int,
        room: size_t,
    ) -> c_int;
    fn __ppoll_chk(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        time: *const libc::timespec,
        mask: *const libc::sigset_t,
        room: size_t,
    ) -> c_int;
    fn __mq_open_2(name: *const c_char, flags: c_int) -> c_int;
}

const ROOM: usize = libc::PATH_MAX as usize;

fn text(bytes: &[c_char]) -> &str {
    // SAFETY: the calls end what they write with NUL, or the bytes are zero.
    unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_str().unwrap()
}

#[test]
fn fortified_calls_of_paths_are_those_of_the_host() {
    Machine::new("fortified").is_left_alone(|at| {
        let mut out = [0; ROOM];
        let place = out.as_mut_ptr();
        let (exe, victim) = (c"/proc/self/exe".as_ptr(), c(at.join("victim")));
        let victim = victim.as_ptr();
        // SAFETY: paths end with NUL, and there is room.
        unsafe {
            assert!(__readlink_chk(exe, place, ROOM, ROOM) > 0);
            let read = __readlink_chk(victim, place, ROOM, ROOM);
            assert_eq!(cvt(read as c_int), Err(libc::ENOENT));
            let read = __readlinkat_chk(libc::AT_FDCWD, victim, place, ROOM, ROOM);
            assert_eq!(cvt(read as c_int), Err(libc::ENOENT));
            let found = __realpath_chk(victim, place, ROOM);
            assert_eq!(made(found), Err(libc::ENOENT));
            out.fill(0);
            made(__getcwd_chk(out.as_mut_ptr(), ROOM, ROOM)).unwrap();
            assert_eq!(text(&out), "/home/host");
            out.fill(0);
            made(__getwd_chk(out.as_mut_ptr(), ROOM)).unwrap();
            assert_eq!(text(&out), "/home/host");
            std::os::unix::fs::symlink("to", "link").unwrap();
            out.fill(0);
            let read = __readlink_chk(c"link".as_ptr(), out.as_mut_ptr(), ROOM, ROOM);
            assert_eq!((read, text(&out)), (2, "to"));
            out.fill(0);
            assert_eq!(cvt(__gethostname_chk(out.as_mut_ptr(), 65, ROOM)), Ok(0));
            assert_eq!(text(&out), "host");
            let opened = __mq_open_2(c"/ws-sim".as_ptr(), libc::O_RDWR);
            assert_eq!(cvt(opened), Err(libc::ENOSYS));
        }
    });
}

/// Sees the bytes that a call has read.
#[track_caller]
fn reads(expected: &[u8], call: impl FnOnce(*mut c_void, usize) -> ssize_t) {
    let mut bytes = [0_u8; 16];
    let len = call(bytes.as_mut_ptr().cast(), bytes.len());
    assert_eq!(len, expected.len() as ssize_t);
    assert_eq!(&bytes[..expected.len()], expected);
}

#[test]
fn fortified_calls_of_descriptors_are_those_of_the_host() {
    let sim = Sim::new(1);
    sim.client("host", async {
        fs::write("file", "hello").unwrap();
        let opened = fs::File::open("file").unwrap();
        let file = opened.as_raw_fd();
        let (a, b) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
        for _ in 0..3 {
            a.send(b"x").unwrap();
        }
        let fd = b.as_raw_fd();
        // SAFETY: there is room for as many bytes as is said, and for one entry.
        unsafe {
            reads(b"ello", |out, len| __pread_chk(file, out, len, 1, len));
            reads(b"llo", |out, len| __pread64_chk(file, out, len, 2, len));
            reads(b"hello", |out, len| __read_chk(file, out, len, len));
            reads(b"x", |out, len| __read_chk(fd, out, len, len));
            reads(b"x", |out, len| __recv_chk(fd, out, len, len, 0));
            let (events, revents) = (libc::POLLIN, 0);
            let mut one = [libc::pollfd {
                fd,
                events,
                revents,
            }];
            let room = size_of_val(&one);
            assert_eq!(__poll_chk(one.as_mut_ptr(), 1, 0, room), 1);
            reads(b"x", |out, len| {
                __recvfrom_chk(fd, out, len, len, 0, ptr::null_mut(), ptr::null_mut())
            });
            let (time, mask) = (ptr::null(), ptr::null());
            assert_eq!(__poll_chk(one.as_mut_ptr(), 1, 0, room), 0);
            a.send(b"x").unwrap();
            assert_eq!(__ppoll_chk(one.as_mut_ptr(), 1, time, mask, room), 1);
            let begin = Instant::now();
            assert_eq!(__poll_chk(ptr::null_mut(), 0, 1_000, 0), 0);
            assert_eq!(begin.elapsed(), Duration::from_secs(1));
        }
    });
    sim.try_run().unwrap();
}

/// This program once more, which ends as one whose buffer is too short.
#[test]
fn a_fortified_call_with_too_little_room_ends_the_process() {
    const NAME: &str = "WS_SIM_OVERFLOWS";
    if std::env::var_os(NAME).is_some() {
        let sim = Sim::new(1);
        sim.client("host", async {
            let mut out = [0; 4];
            // SAFETY: it does not write more than there is room for.
            unsafe { __gethostname_chk(out.as_mut_ptr(), 5, 4) };
        });
        return sim.try_run().unwrap();
    }
    let test = "fortified::a_fortified_call_with_too_little_room_ends_the_process";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let command = command
        .args([test, "--exact", "--nocapture"])
        .env(NAME, "1");
    let output = command.current_dir(Path::new("/")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("buffer overflow detected"), "{text}");
}
