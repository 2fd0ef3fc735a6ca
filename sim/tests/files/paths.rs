//! Programs about descriptors that stand for a path alone, and about flags and arguments that Linux
//! checks before it looks at a file.

use std::{
    fs::{self, File, OpenOptions},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    ptr,
};

use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, c_int, timespec};

use super::trace::{Trace, c, cvt};

unsafe extern "C" {
    fn ftok(path: *const libc::c_char, project: c_int) -> c_int;
}

fn time(tv_nsec: libc::c_long) -> timespec {
    timespec { tv_sec: 1, tv_nsec }
}

pub(crate) fn a_path_is_no_open_file(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, "hello").unwrap();
    let mut options = OpenOptions::new();
    let only = options.read(true).custom_flags(libc::O_PATH);
    let (file, folder) = (only.open(&path).unwrap(), only.open(at).unwrap());
    for fd in [file.as_raw_fd(), folder.as_raw_fd()] {
        let (mut room, mut len) = ([0_u8; 512], 64_u32);
        let out = room.as_mut_ptr();
        let times = [time(0); 2];
        let list = [libc::iovec {
            iov_base: out.cast(),
            iov_len: 8,
        }];
        // SAFETY: plain data.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_RDLCK as libc::c_short;
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: there is room for each answer, and each text ends with NUL.
        unsafe {
            let set = libc::F_SETFL;
            for (what, done) in [
                ("fsync", cvt(libc::fsync(fd))),
                ("fdatasync", cvt(libc::fdatasync(fd))),
                ("syncfs", cvt(libc::syncfs(fd))),
                ("sync_file_range", cvt(libc::sync_file_range(fd, 0, 0, 0))),
                ("fchmod", cvt(libc::fchmod(fd, 0o600))),
                ("fchown", cvt(libc::fchown(fd, 0, 0))),
                ("ftruncate", cvt(libc::ftruncate(fd, 0))),
                ("fallocate", cvt(libc::fallocate(fd, 0, 0, 1))),
                ("futimens", cvt(libc::futimens(fd, times.as_ptr()))),
                ("flock", cvt(libc::flock(fd, libc::LOCK_SH))),
                ("flock", cvt(libc::flock(fd, 16))),
                ("F_SETFL", cvt(libc::fcntl(fd, set, 0))),
                ("F_GETFL", cvt(libc::fcntl(fd, libc::F_GETFL))),
                ("F_GETFD", cvt(libc::fcntl(fd, libc::F_GETFD))),
                ("F_SETFD", cvt(libc::fcntl(fd, libc::F_SETFD, 0))),
                ("F_GETOWN", cvt(libc::fcntl(fd, libc::F_GETOWN))),
                (
                    "F_SETLK",
                    cvt(libc::fcntl(fd, libc::F_SETLK, &raw mut lock)),
                ),
                ("F_GETPIPE_SZ", cvt(libc::fcntl(fd, libc::F_GETPIPE_SZ))),
                ("FIONBIO", cvt(libc::ioctl(fd, libc::FIONBIO, out))),
                ("FIONREAD", cvt(libc::ioctl(fd, libc::FIONREAD, out))),
                ("unknown", cvt(libc::ioctl(fd, 99, out))),
                ("shutdown", cvt(libc::shutdown(fd, libc::SHUT_RD))),
                ("listen", cvt(libc::listen(fd, 1))),
                ("name", cvt(libc::getsockname(fd, out.cast(), &raw mut len))),
                ("fchdir", cvt(libc::fchdir(fd))),
                ("fstat", cvt(libc::fstat(fd, out.cast()))),
                ("poll", cvt(libc::poll(&raw mut entry, 1, 0))),
            ] {
                t.say(what, done);
            }
            for (what, done) in [
                ("read", cvt(libc::read(fd, out.cast(), 8) as i64)),
                ("readv", cvt(libc::readv(fd, list.as_ptr(), 1) as i64)),
                ("pread", cvt(libc::pread(fd, out.cast(), 8, 0) as i64)),
                ("write", cvt(libc::write(fd, out.cast(), 8) as i64)),
                ("pwrite", cvt(libc::pwrite(fd, out.cast(), 8, 0) as i64)),
                ("recv", cvt(libc::recv(fd, out.cast(), 8, 0) as i64)),
                ("send", cvt(libc::send(fd, out.cast(), 8, 0) as i64)),
                ("lseek", cvt(libc::lseek(fd, 0, libc::SEEK_SET))),
                ("readahead", cvt(libc::readahead(fd, 0, 8) as i64)),
            ] {
                t.say(what, done);
            }
            t.note("room", libc::posix_fallocate(fd, 0, 1));
            t.note("advice", libc::posix_fadvise(fd, 0, 0, 0));
            t.note("poll", entry.revents);
            let (flags, null) = (libc::MAP_PRIVATE, ptr::null_mut());
            let map = libc::mmap(null, 8, libc::PROT_READ, flags, fd, 0);
            t.note("mmap", map == libc::MAP_FAILED);
            t.say("mmap", cvt(-1));
            let epoll = OwnedFd::from_raw_fd(libc::epoll_create1(0));
            let (control, add) = (epoll.as_raw_fd(), libc::EPOLL_CTL_ADD);
            let mut event = libc::epoll_event { events: 1, u64: 0 };
            t.say("watch", cvt(libc::epoll_ctl(control, add, fd, &mut event)));
            t.say("epoll", cvt(libc::epoll_ctl(fd, add, control, &mut event)));
            let empty = c"".as_ptr();
            let set = libc::utimensat(fd, empty, times.as_ptr(), AT_EMPTY_PATH);
            t.say("times", cvt(set));
            let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0);
            t.say("copy", cvt(copy.min(0)));
            drop(OwnedFd::from_raw_fd(copy));
        }
    }
    std::env::set_current_dir("/").unwrap();
    t.say("left", fs::read_to_string(&path));
}

pub(crate) fn flags_of_an_open_exclude_each_other(at: &Path, t: &mut Trace) {
    fs::create_dir(at.join("d")).unwrap();
    fs::write(at.join("f"), "hello").unwrap();
    let temporary = libc::O_TMPFILE & !libc::O_DIRECTORY;
    let all = [
        libc::O_DIRECTORY | libc::O_CREAT,
        libc::O_DIRECTORY | libc::O_CREAT | libc::O_EXCL,
        libc::O_DIRECTORY | libc::O_TRUNC,
        libc::O_PATH | libc::O_CREAT,
        libc::O_PATH | libc::O_CREAT | libc::O_DIRECTORY,
        libc::O_PATH | libc::O_TRUNC | libc::O_RDWR | libc::O_APPEND,
        libc::O_TMPFILE,
        libc::O_TMPFILE | libc::O_RDWR,
        libc::O_TMPFILE | libc::O_RDWR | libc::O_CREAT,
        temporary | libc::O_RDWR,
        libc::O_NONBLOCK,
        libc::O_CLOEXEC | libc::O_NOCTTY,
    ];
    for name in ["d", "f", "none", ""] {
        for flags in all {
            let path = c(at.join(name));
            let path = if name.is_empty() { c("") } else { path };
            // SAFETY: the path ends with NUL. The descriptor is a new one.
            let opened = unsafe {
                let fd = libc::open(path.as_ptr(), flags, 0o600);
                cvt(fd).map(|_| {
                    let told = libc::fcntl(fd, libc::F_GETFL);
                    drop(OwnedFd::from_raw_fd(fd));
                    told
                })
            };
            t.say(&format!("{name} {flags:o}"), opened);
        }
        t.say("left", fs::read_to_string(at.join("f")));
    }
    let file = File::open(at.join("f")).unwrap();
    for dir in [file.as_raw_fd(), -1] {
        for path in [c"", c"x"] {
            // SAFETY: the path ends with NUL.
            let opened = unsafe { libc::openat(dir, path.as_ptr(), libc::O_RDONLY) };
            t.say("openat", cvt(opened));
            // SAFETY: as above.
            t.say(
                "mkdirat",
                cvt(unsafe { libc::mkdirat(dir, path.as_ptr(), 0o700) }),
            );
            // SAFETY: as above.
            t.say(
                "unlinkat",
                cvt(unsafe { libc::unlinkat(dir, path.as_ptr(), 0) }),
            );
        }
    }
}

pub(crate) fn flags_of_calls_with_a_path_are_checked(at: &Path, t: &mut Trace) {
    let path = c(at.join("f"));
    fs::write(at.join("f"), "hello").unwrap();
    let mut room = [0_u64; 64];
    let out = room.as_mut_ptr();
    for flags in [
        0,
        1,
        AT_SYMLINK_NOFOLLOW,
        AT_SYMLINK_NOFOLLOW | 1,
        0x4000,
        0x6000,
        1 << 20,
    ] {
        let other = c(at.join("g"));
        // SAFETY: the paths end with NUL, and there is room for each answer.
        unsafe {
            let (one, two, here) = (path.as_ptr(), other.as_ptr(), AT_FDCWD);
            for (what, done) in [
                ("linkat", cvt(libc::linkat(here, one, here, two, flags))),
                ("fstatat", cvt(libc::fstatat(here, one, out.cast(), flags))),
                (
                    "statx",
                    cvt(libc::statx(here, one, flags, libc::STATX_ALL, out.cast())),
                ),
                (
                    "faccessat",
                    cvt(libc::faccessat(here, one, libc::R_OK, flags)),
                ),
                (
                    "utimensat",
                    cvt(libc::utimensat(here, one, ptr::null(), flags)),
                ),
                ("unlinkat", cvt(libc::unlinkat(here, two, flags))),
            ] {
                t.say(&format!("{what} {flags:x}"), done);
            }
        }
        let _ = fs::remove_file(at.join("g"));
    }
    for flags in [1, 0x4000] {
        // SAFETY: as above.
        unsafe {
            let one = path.as_ptr();
            t.say("fchownat", cvt(libc::fchownat(AT_FDCWD, one, 0, 0, flags)));
            t.say("fchmodat", cvt(libc::fchmodat(AT_FDCWD, one, 0o600, flags)));
            let mask = 1 << 31;
            t.say(
                "statx",
                cvt(libc::statx(AT_FDCWD, one, 0, mask, out.cast())),
            );
        }
    }
}

pub(crate) fn lengths_and_times_of_paths_are_checked(at: &Path, t: &mut Trace) {
    for len in [4_095, 4_096] {
        let (target, path) = (c("x".repeat(len)), c(at.join("long")));
        // SAFETY: the paths end with NUL.
        let made = unsafe { libc::symlink(target.as_ptr(), path.as_ptr()) };
        t.say("symlink", cvt(made));
    }
    std::os::unix::fs::symlink("target", at.join("link")).unwrap();
    for name in ["link", "none", "/proc/self"] {
        let (path, mut room) = (c(at.join(name)), [0; 8]);
        for size in [0, 3] {
            // SAFETY: there is room for so much.
            let read = unsafe { libc::readlink(path.as_ptr(), room.as_mut_ptr(), size) };
            t.say(
                &format!("readlink {name} {size}"),
                cvt((read as i64).min(4)),
            );
        }
    }
    fs::write(at.join("f"), "").unwrap();
    let all = [
        [time(libc::UTIME_OMIT); 2],
        [time(libc::UTIME_OMIT), time(1_000_000_000)],
        [time(-1), time(0)],
        [time(0), time(libc::UTIME_NOW)],
    ];
    for name in ["f", "none"] {
        for (number, times) in all.iter().enumerate() {
            let path = c(at.join(name));
            for flags in [0, 1] {
                // SAFETY: the path ends with NUL, and there are two times.
                let set =
                    unsafe { libc::utimensat(AT_FDCWD, path.as_ptr(), times.as_ptr(), flags) };
                t.say(&format!("times {name} {number} {flags}"), cvt(set));
            }
        }
    }
}

pub(crate) fn files_are_made_without_an_open(at: &Path, t: &mut Trace) {
    let make = |name: &str, mode| {
        let path = c(at.join(name));
        // SAFETY: the path ends with NUL.
        cvt(unsafe { libc::mknod(path.as_ptr(), mode, 0) })
    };
    t.say("file", make("file", libc::S_IFREG | 0o640));
    t.say("again", make("file", libc::S_IFREG | 0o640));
    t.say("no kind", make("plain", 0o666));
    t.say("socket", make("socket", libc::S_IFSOCK | 0o600));
    t.say("folder", make("folder", libc::S_IFDIR | 0o700));
    t.say("link", make("link", libc::S_IFLNK | 0o700));
    t.say("slash", make("slash/", libc::S_IFREG | 0o600));
    t.say("slash", make("file/", libc::S_IFREG | 0o600));
    t.say("nowhere", make("none/file", libc::S_IFREG | 0o600));
    t.say("in a file", make("file/file", libc::S_IFREG | 0o600));
    for name in ["file", "plain", "socket"] {
        use std::os::unix::fs::MetadataExt;

        let about = fs::metadata(at.join(name)).unwrap();
        t.note(name, (format!("{:o}", about.mode()), about.len()));
    }
    t.done("write", fs::write(at.join("file"), "hello"));
    t.say("read", fs::read_to_string(at.join("file")));
    t.done("open", File::open(at.join("socket")));
}

pub(crate) fn keys_are_those_of_the_file(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, "").unwrap();
    let key = |path: &Path, project| {
        let path = c(path);
        // SAFETY: the path ends with NUL.
        unsafe { ftok(path.as_ptr(), project) }
    };
    t.say("none", cvt(key(&at.join("none"), 1)));
    use std::os::unix::fs::MetadataExt;
    let about = fs::metadata(&path).unwrap();
    for project in [1, 255, 256] {
        let found = key(&path, project).cast_unsigned();
        t.note("project", found >> 24);
        // Both are the function of the seam.
        assert_eq!(found >> 24, project.cast_unsigned() & 0xff);
        t.note("disk", found >> 16 & 0xff == about.dev() as u32 & 0xff);
        t.note("file", found & 0xffff == about.ino() as u32 & 0xffff);
    }
}

pub(crate) fn ranges_are_checked(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, [7; 100]).unwrap();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(&path).unwrap();
    let fd = file.as_raw_fd();
    for (from, len, flags) in [
        (0, 10, 7),
        (-1, 10, 7),
        (0, -1, 7),
        (0, 10, 8),
        (i64::MAX, 1, 0),
        (5, 0, 2),
    ] {
        // SAFETY: it takes no pointers.
        let done = unsafe { libc::sync_file_range(fd, from, len, flags) };
        t.say("sync_file_range", cvt(done));
    }
    let zeroes = libc::FALLOC_FL_ZERO_RANGE;
    for (mode, from, len) in [
        (zeroes, 1, 2),
        (zeroes, 98, 10),
        (zeroes | libc::FALLOC_FL_KEEP_SIZE, 100, 100),
        (zeroes | libc::FALLOC_FL_PUNCH_HOLE, 0, 1),
        (zeroes, 0, 0),
        (zeroes, -1, 1),
    ] {
        // SAFETY: it takes no pointers.
        let done = unsafe { libc::fallocate(fd, mode, from, len) };
        t.say(&format!("fallocate {mode} {from} {len}"), cvt(done));
        t.say("all", fs::read(&path));
    }
    // SAFETY: these take no pointers.
    unsafe {
        t.say("dup3", cvt(libc::dup3(fd, fd, 0)));
        t.say("dup3", cvt(libc::dup3(fd, fd, 1)));
        t.note("dup2", libc::dup2(fd, fd) == fd);
        t.say("F_GETFL", cvt(libc::fcntl(fd, libc::F_GETFL)));
    }
}

#[cfg(target_env = "gnu")]
pub(crate) fn limits_without_a_file(at: &Path, t: &mut Trace) {
    for name in ["none", ""] {
        let path = if name.is_empty() {
            c("")
        } else {
            c(at.join(name))
        };
        for limit in 0..=20 {
            // SAFETY: the path ends with NUL.
            let told = unsafe {
                *libc::__errno_location() = 0;
                libc::pathconf(path.as_ptr(), limit)
            };
            // -1 without an error is a limit that is not there.
            t.say(&format!("{limit}"), cvt(told));
        }
    }
}
