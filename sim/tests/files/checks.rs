//! Programs about what Linux checks, and about less common calls.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, Write},
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
    ptr,
};

use libc::{c_int, iovec};

use super::trace::{Trace, c, cvt};

pub(crate) fn locks_of_ranges_are_checked(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, [1; 100]).unwrap();
    let open = |read, write| {
        let mut options = OpenOptions::new();
        options.read(read).write(write).open(&path).unwrap()
    };
    let files = [open(true, false), open(false, true), open(true, true)];
    let kinds = [libc::F_RDLCK, libc::F_WRLCK, libc::F_UNLCK, 99];
    let ranges = [
        (0, 0),
        (0, 10),
        (50, -50),
        (50, -51),
        (-1, 2),
        (-50, 0),
        (i64::MAX, 1),
    ];
    for (number, file) in files.iter().enumerate() {
        for command in [libc::F_SETLK, libc::F_SETLKW, libc::F_GETLK] {
            for kind in kinds {
                for from in [libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END, 7] {
                    for (start, len) in ranges {
                        // SAFETY: plain data.
                        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
                        lock.l_type = kind as libc::c_short;
                        lock.l_whence = from as libc::c_short;
                        (lock.l_start, lock.l_len) = (start, len);
                        // SAFETY: the lock is valid.
                        let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) };
                        t.say(
                            &format!("{number} {command} {kind} {from} {start} {len}"),
                            cvt(done),
                        );
                    }
                }
            }
        }
        for command in [libc::F_TEST, libc::F_TLOCK, libc::F_LOCK, libc::F_ULOCK, 9] {
            // SAFETY: it takes no pointers.
            t.say(
                "lockf",
                cvt(unsafe { libc::lockf(file.as_raw_fd(), command, 10) }),
            );
        }
    }
}

pub(crate) fn wrong_arguments_are_refused(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, [1; 100]).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let fd = file.as_raw_fd();
    for (from, to, len, flags) in [
        (0, 50, 50, 0),
        (0, 50, 51, 0),
        (50, 0, 51, 0),
        (0, 0, 1, 0),
        (100, 100, 9, 0),
        (90, 99, 100, 0),
        (0, 200, 10, 1),
        (200, 0, 10, 0),
    ] {
        let (mut a, mut b) = (from, to);
        // SAFETY: the places are valid.
        let copied = unsafe { libc::copy_file_range(fd, &mut a, fd, &mut b, len, flags) };
        t.say(
            &format!("copy {from} {to} {len} {flags}"),
            cvt(copied as i64),
        );
        t.note("places", (a, b));
    }
    for (len, advice) in [(0, 0), (0, 5), (0, 6), (0, 99), (0, -1), (-1, 0)] {
        // SAFETY: it takes no pointers.
        let advised = unsafe { libc::posix_fadvise(fd, 0, len, advice) };
        t.note(&format!("advice {len} {advice}"), advised);
    }
    let name = c(&path);
    for how in [0, 7, 8, 99, -1] {
        // SAFETY: the path ends with NUL.
        t.say("access", cvt(unsafe { libc::access(name.as_ptr(), how) }));
    }
    t.say("all", fs::read(&path));
}

pub(crate) fn places_and_flags_in_one_call(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true);
    let file = file.open(&path).unwrap();
    let only_reads = File::open(&path).unwrap();
    let mut bytes = *b"hello";
    let list = [iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }];
    for (place, flags) in [
        (0, 0),
        (-1, 0),
        (0, libc::RWF_APPEND),
        (-1, libc::RWF_APPEND | libc::RWF_DSYNC),
        (3, libc::RWF_SYNC),
        (-2, 0),
        (0, 1 << 30),
    ] {
        for file in [&file, &only_reads] {
            let fd = file.as_raw_fd();
            // SAFETY: the buffer is valid, and nothing else uses it.
            let written = unsafe { libc::pwritev2(fd, list.as_ptr(), 1, place, flags) };
            t.say(&format!("write {place} {flags}"), cvt(written as i64));
            // SAFETY: it takes no pointers.
            t.say(
                "position",
                cvt(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }),
            );
        }
    }
    t.say("all", fs::read_to_string(&path));
    for (place, flags) in [(0, 0), (4, 0), (-1, 0), (-2, 0), (0, 1 << 30)] {
        let fd = file.as_raw_fd();
        // SAFETY: the buffer is valid, and nothing else uses it.
        let read = unsafe { libc::preadv2(fd, list.as_ptr(), 1, place, flags) };
        t.say(&format!("read {place} {flags}"), cvt(read as i64));
    }
    t.note("bytes", bytes);
}

pub(crate) fn a_file_without_a_name_gets_one(at: &Path, t: &mut Trace) {
    let temporary = |flags| {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let file = options.custom_flags(libc::O_TMPFILE | flags).open(at);
        file.unwrap()
    };
    let here = libc::AT_FDCWD;
    let follow = libc::AT_SYMLINK_FOLLOW;
    for (name, flags) in [("a", 0), ("b", libc::O_EXCL)] {
        let mut file = temporary(flags);
        t.say("write", file.write(b"text"));
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        t.say("read again", fs::read_to_string(&link));
        t.say(
            "more",
            OpenOptions::new()
                .append(true)
                .open(&link)
                .and_then(|mut file| file.write(b"!")),
        );
        t.done(
            "new",
            OpenOptions::new().write(true).create_new(true).open(&link),
        );
        let (from, to) = (c(&link), c(at.join(name)));
        let other = c(at.join(format!("{name}2")));
        // SAFETY: the paths end with NUL.
        unsafe {
            let linked = libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow);
            t.say("link", cvt(linked));
            let linked = libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow);
            t.say("link again", cvt(linked));
            let empty = libc::AT_EMPTY_PATH;
            let fd = file.as_raw_fd();
            let linked = libc::linkat(fd, c"".as_ptr(), here, other.as_ptr(), empty);
            t.say("link by descriptor", cvt(linked));
        }
        t.say("all", fs::read_to_string(at.join(name)));
        t.say("all", fs::read_to_string(at.join(format!("{name}2"))));
    }
    fs::write(at.join("f"), "x").unwrap();
    let file = File::open(at.join("f")).unwrap();
    fs::remove_file(at.join("f")).unwrap();
    let (from, to) = (c(format!("/dev/fd/{}", file.as_raw_fd())), c(at.join("g")));
    // SAFETY: the paths end with NUL.
    let linked = unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) };
    t.say("removed", cvt(linked));
}

/// Gives an open file a name, by its descriptor.
fn name_it(file: &File, to: &Path) -> std::io::Result<i64> {
    let from = c(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let (here, to) = (libc::AT_FDCWD, c(to));
    let follow = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: the paths end with NUL.
    cvt(unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) })
}

pub(crate) fn a_file_may_get_a_name_whoever_opened_it(at: &Path, t: &mut Trace) {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let temporary = |flags| {
        let mut options = options.clone();
        options
            .custom_flags(libc::O_TMPFILE | flags)
            .open(at)
            .unwrap()
    };
    let again = |file: &File| File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
    let file = temporary(0);
    t.say("opened again", name_it(&again(&file), &at.join("a")));
    // It is a file as others are now: without its name it is removed.
    fs::remove_file(at.join("a")).unwrap();
    t.say("once more", name_it(&file, &at.join("b")));
    let exclusive = temporary(libc::O_EXCL);
    t.say("exclusive", name_it(&again(&exclusive), &at.join("c")));
    t.say("names", fs::read_dir(at).map(|all| all.count()));
}

/// `O_LARGEFILE` of the kernel: libc says 0 where it is always on.
const LARGE_FILE: i32 = if cfg!(target_arch = "aarch64") {
    0o400_000
} else {
    0o100_000
};

pub(crate) fn open_files_are_opened_once_more(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, "hello").unwrap();
    std::os::unix::fs::symlink("f", at.join("l")).unwrap();
    let with = |flags: i32, path: &Path| {
        let path = c(path);
        // SAFETY: the path ends with NUL, and nobody else has the descriptor.
        cvt(unsafe { libc::open(path.as_ptr(), flags, 0o600) })
            .map(|fd| unsafe { File::from_raw_fd(fd as i32) })
    };
    let link = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let only_reads = with(libc::O_RDONLY, &path).unwrap();
    let place_only = with(libc::O_PATH, &path).unwrap();
    let folder = with(libc::O_RDONLY | libc::O_DIRECTORY, at).unwrap();
    let symlink = with(libc::O_PATH | libc::O_NOFOLLOW, &at.join("l")).unwrap();
    for (what, file) in [
        ("read", &only_reads),
        ("place", &place_only),
        ("folder", &folder),
        ("link", &symlink),
    ] {
        for flags in [
            libc::O_RDONLY,
            libc::O_RDWR,
            libc::O_RDONLY | libc::O_CREAT,
            libc::O_RDONLY | libc::O_CREAT | libc::O_EXCL,
            libc::O_RDONLY | libc::O_DIRECTORY,
            libc::O_RDONLY | libc::O_NOFOLLOW,
            libc::O_RDWR | libc::O_TMPFILE,
            libc::O_PATH,
            libc::O_RDWR | libc::O_APPEND,
        ] {
            let mut text = String::new();
            let opened = with(flags, &link(file));
            let flags = opened.as_ref().map(|file| {
                // SAFETY: it takes no pointers.
                let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
                flags & !LARGE_FILE
            });
            t.say(&format!("{what}: flags"), flags.map_err(copy));
            if let Ok(mut file) = opened {
                t.say("at", file.stream_position());
                t.say("read", file.read_to_string(&mut text));
            }
        }
    }
    t.say(
        "written",
        with(libc::O_WRONLY, &link(&only_reads)).and_then(|mut it| it.write(b"J")),
    );
    t.say("all", fs::read_to_string(&path));
    t.done(
        "cut",
        with(libc::O_WRONLY | libc::O_TRUNC, &link(&place_only)),
    );
    t.say("all", fs::read_to_string(&path));
    fs::remove_file(&path).unwrap();
    t.done("removed", with(libc::O_RDWR, &link(&only_reads)));
    let closed = link(&only_reads);
    drop(only_reads);
    t.done("closed", with(libc::O_RDONLY, &closed));
    t.done("created", with(libc::O_RDWR | libc::O_CREAT, &closed));
}

/// The same error once more.
fn copy(error: &std::io::Error) -> std::io::Error {
    std::io::Error::from_raw_os_error(error.raw_os_error().unwrap())
}

pub(crate) fn calls_by_number_and_hints(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, "hello").unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let fd = file.as_raw_fd();
    let mut bytes = [0_u8; 4];
    let place = bytes.as_mut_ptr();
    // SAFETY: there is room for what is read, and the other calls take no pointers.
    unsafe {
        t.say("sync", cvt(libc::syscall(libc::SYS_fsync, fd)));
        t.say("sync data", cvt(libc::syscall(libc::SYS_fdatasync, fd)));
        t.say("read", cvt(libc::syscall(libc::SYS_read, fd, place, 4)));
        t.say(
            "read at",
            cvt(libc::syscall(libc::SYS_pread64, fd, place, 4, 1)),
        );
        t.say("write", cvt(libc::syscall(libc::SYS_write, fd, place, 4)));
        t.say(
            "seek",
            cvt(libc::syscall(libc::SYS_lseek, fd, -1, libc::SEEK_END)),
        );
        t.say("length", cvt(libc::syscall(libc::SYS_ftruncate, fd, 6)));
        t.say(
            "lock",
            cvt(libc::syscall(libc::SYS_flock, fd, libc::LOCK_EX)),
        );
        t.say(
            "flags",
            cvt(libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD, 0)),
        );
        t.say("readahead", cvt(libc::readahead(fd, 0, 10) as i64));
        let null = ptr::null::<u8>();
        t.say("nothing", cvt(libc::syscall(libc::SYS_write, fd, null, 0)));
    }
    t.note("bytes", bytes);
    t.say("all", fs::read_to_string(&path));
    let limits: [c_int; 4] = [
        libc::_PC_NAME_MAX,
        libc::_PC_PATH_MAX,
        libc::_PC_PIPE_BUF,
        libc::_PC_NO_TRUNC,
    ];
    let name = c(&path);
    for limit in limits {
        // SAFETY: the path ends with NUL.
        unsafe {
            t.say("limit", cvt(libc::pathconf(name.as_ptr(), limit)));
            t.say("limit", cvt(libc::fpathconf(fd, limit)));
        }
    }
}
