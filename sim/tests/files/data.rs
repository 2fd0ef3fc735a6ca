//! Programs about contents.

use std::{
    fs::{self, File, OpenOptions},
    io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
    ptr,
};

use super::trace::{Trace, cvt};

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .open(path)
        .unwrap()
}

fn read_some(file: &mut File, len: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let len = file.read(&mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

pub(crate) fn reads_and_writes_move_the_position(at: &Path, t: &mut Trace) {
    let mut file = open(&at.join("f"));
    t.say("write", file.write(b"hello world"));
    t.say("at the end", read_some(&mut file, 5));
    t.say("back", file.seek(SeekFrom::Start(6)));
    t.say("read", read_some(&mut file, 3));
    t.say("where", file.stream_position());
    t.say("from here", file.seek(SeekFrom::Current(-4)));
    t.say("read", read_some(&mut file, 100));
    t.say("from the end", file.seek(SeekFrom::End(-2)));
    t.say("write over", file.write(b"XYZ"));
    t.say("before the begin", file.seek(SeekFrom::Current(-100)));
    t.say("behind the end", file.seek(SeekFrom::End(10)));
    t.say("nothing there", read_some(&mut file, 1));
    t.say("nothing", file.write(b""));
    t.say("all", fs::read(at.join("f")));
    t.say("into it", file.write(b"!"));
    t.say("all", fs::read(at.join("f")));
    // SAFETY: it takes no pointers.
    t.say(
        "from nowhere",
        cvt(unsafe { libc::lseek(file.as_raw_fd(), 0, 99) }),
    );
}

pub(crate) fn appends_go_to_the_end(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, "begin").unwrap();
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .open(&path)
        .unwrap();
    t.say("where", file.stream_position());
    t.say("write", file.write(b"-one"));
    t.say("where", file.stream_position());
    t.say("back", file.seek(SeekFrom::Start(0)));
    t.say("write", file.write(b"-two"));
    t.say("at a place", file.write_at(b"-three", 1));
    t.say("where", file.stream_position());
    t.say("all", fs::read_to_string(&path));
}

pub(crate) fn positions_can_be_named(at: &Path, t: &mut Trace) {
    let file = open(&at.join("f"));
    t.say("write", file.write_at(b"abc", 5));
    let mut bytes = [9; 6];
    t.say("read", file.read_at(&mut bytes, 3));
    t.note("bytes", bytes);
    t.say("behind", file.read_at(&mut bytes, 100));
    t.say("where", (&file).stream_position());
    let fd = file.as_raw_fd();
    // SAFETY: it is one byte.
    t.say(
        "negative",
        cvt(unsafe { libc::pread(fd, bytes.as_mut_ptr().cast(), 1, -1) } as i64),
    );
    // SAFETY: as above.
    t.say(
        "negative",
        cvt(unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), 1, -1) } as i64),
    );
}

pub(crate) fn lengths_are_set(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    let mut file = open(&path);
    file.write_all(&[7; 5_000]).unwrap();
    t.done("shorter", file.set_len(4_100));
    t.say("where", file.stream_position());
    t.done("longer", file.set_len(6_000));
    let bytes = fs::read(&path).unwrap();
    t.note("sevens", bytes.iter().filter(|byte| **byte == 7).count());
    t.note("length", bytes.len());
    t.done("none", file.set_len(0));
    t.done("much", file.set_len(1 << 40));
    t.note("length", file.metadata().unwrap().len());
    // SAFETY: it takes no pointers.
    t.say(
        "negative",
        cvt(unsafe { libc::ftruncate(file.as_raw_fd(), -1) }),
    );
    let reads = File::open(&path).unwrap();
    t.done("read only", reads.set_len(1));
    let path = super::trace::c(&path);
    // SAFETY: the path ends with NUL.
    t.say(
        "by its name",
        cvt(unsafe { libc::truncate(path.as_ptr(), 3) }),
    );
    t.note("length", file.metadata().unwrap().len());
    let folder = super::trace::c(at);
    // SAFETY: as above.
    t.say(
        "a folder",
        cvt(unsafe { libc::truncate(folder.as_ptr(), 3) }),
    );
}

pub(crate) fn holes_are_zeros(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    let file = open(&path);
    file.write_at(b"end", 100_000).unwrap();
    let bytes = fs::read(&path).unwrap();
    t.note("length", bytes.len());
    t.note("zeros", bytes.iter().filter(|byte| **byte == 0).count());
    t.note("few blocks", file.metadata().unwrap().blocks() < 100);
    let punch = |at, len| {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: it takes no pointers.
        cvt(unsafe { libc::fallocate(file.as_raw_fd(), mode, at, len) })
    };
    file.write_at(&[5; 10_000], 0).unwrap();
    t.say("punch", punch(1_000, 8_000));
    let bytes = fs::read(&path).unwrap();
    t.note("fives", bytes.iter().filter(|byte| **byte == 5).count());
    t.note("length", bytes.len());
    t.say("punch nothing", punch(0, 0));
}

pub(crate) fn places_are_sought(at: &Path, t: &mut Trace) {
    let file = open(&at.join("f"));
    file.write_at(&[1; 4096], 3 * 65_536).unwrap();
    file.set_len(10 * 65_536).unwrap();
    // SAFETY: it takes no pointers.
    let seek = |at, what| cvt(unsafe { libc::lseek(file.as_raw_fd(), at, what) });
    t.say("data", seek(0, libc::SEEK_DATA));
    t.say("hole", seek(0, libc::SEEK_HOLE));
    t.say("hole", seek(3 * 65_536 + 5, libc::SEEK_HOLE));
    t.say("no more data", seek(5 * 65_536, libc::SEEK_DATA));
    t.say("behind", seek(11 * 65_536, libc::SEEK_HOLE));
}

pub(crate) fn wrong_modes_are_refused(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    fs::write(&path, "text").unwrap();
    let mut reads = File::open(&path).unwrap();
    t.say("write", reads.write(b"x"));
    t.say("write at", reads.write_at(b"x", 0));
    let mut writes = OpenOptions::new().write(true).open(&path).unwrap();
    t.say("read", read_some(&mut writes, 1));
    t.say("read at", writes.read_at(&mut [0], 0));
    let named = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(&path);
    let mut named = named.unwrap();
    t.say("by name alone", read_some(&mut named, 1));
    t.note("its length", named.metadata().unwrap().len());
    // SAFETY: these take no pointers.
    unsafe {
        t.say("socket call", cvt(libc::listen(reads.as_raw_fd(), 1)));
        t.say(
            "receive",
            cvt(libc::recv(reads.as_raw_fd(), ptr::null_mut(), 0, 0) as i64),
        );
        t.say("not open", cvt(libc::fsync(9_999)));
    }
}

pub(crate) fn buffers_are_gathered_and_scattered(at: &Path, t: &mut Trace) {
    let mut file = open(&at.join("f"));
    let parts = [
        IoSlice::new(b"one"),
        IoSlice::new(b""),
        IoSlice::new(b"two"),
    ];
    t.say("write", file.write_vectored(&parts));
    t.say("back", file.rewind());
    let (mut a, mut b) = ([0; 4], [0; 9]);
    let mut parts = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
    t.say("read", file.read_vectored(&mut parts));
    t.note("parts", (a, b));
    let list = [libc::iovec {
        iov_base: a.as_mut_ptr().cast(),
        iov_len: 4,
    }];
    let (fd, list) = (file.as_raw_fd(), list.as_ptr());
    // SAFETY: the list has one buffer of 4 bytes.
    unsafe {
        t.say("at a place", cvt(libc::preadv(fd, list, 1, 2) as i64));
        t.say("write there", cvt(libc::pwritev(fd, list, 1, 1) as i64));
        t.say("too many", cvt(libc::pwritev(fd, list, 2_000, 1) as i64));
    }
    t.note("part", a);
    t.say("all", fs::read_to_string(at.join("f")));
}

pub(crate) fn copies_of_a_descriptor_share_its_position(at: &Path, t: &mut Trace) {
    let mut file = open(&at.join("f"));
    let mut copy = file.try_clone().unwrap();
    t.say("write", file.write(b"abc"));
    t.say("where", copy.stream_position());
    t.say("write", copy.write(b"def"));
    drop(file);
    t.say("back", copy.seek(SeekFrom::Start(2)));
    t.say("read", read_some(&mut copy, 9));
    let mut other = File::open(at.join("f")).unwrap();
    t.say("its own", read_some(&mut other, 1));
    t.say("where", copy.stream_position());
}

pub(crate) fn files_are_copied(at: &Path, t: &mut Trace) {
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(at.join("a"), &bytes).unwrap();
    t.say("copy", fs::copy(at.join("a"), at.join("b")));
    t.note("same", fs::read(at.join("b")).unwrap() == bytes);
    t.say("of nothing", fs::copy(at.join("x"), at.join("y")));
    t.say("of a folder", fs::copy(at, at.join("y")));
    let (mut from, mut to) = (File::open(at.join("a")).unwrap(), open(&at.join("c")));
    t.say("by io", std::io::copy(&mut from, &mut to));
    t.note("same", fs::read(at.join("c")).unwrap() == bytes);
    let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
    let (mut read_at, mut write_at) = (10, 5);
    // SAFETY: the places are valid.
    unsafe {
        let copied = libc::copy_file_range(from, &mut read_at, to, &mut write_at, 100, 0);
        t.say("a range", cvt(copied as i64));
        t.note("places", (read_at, write_at));
        let sent = libc::sendfile(to, from, &mut read_at, 100);
        t.say("sent", cvt(sent as i64));
        t.note("place", read_at);
        t.say(
            "from the end",
            cvt(libc::sendfile(to, from, ptr::null_mut(), 100) as i64),
        );
    }
    t.note("length", fs::metadata(at.join("c")).unwrap().len());
}

pub(crate) fn copies_that_fail_read_nothing(at: &Path, t: &mut Trace) {
    fs::write(at.join("a"), b"all of it").unwrap();
    let mut from = File::open(at.join("a")).unwrap();
    let mut options = File::options();
    let mut end = options
        .append(true)
        .create(true)
        .open(at.join("end"))
        .unwrap();
    let none = ptr::null_mut();
    let (fd, to) = (from.as_raw_fd(), end.as_raw_fd());
    // SAFETY: there are no places.
    let copied = unsafe { libc::copy_file_range(fd, none, to, none, 9, 0) };
    t.say("to an end", cvt(copied as i64));
    t.say("position", from.stream_position());
    // std tries the same call first.
    t.say("by io", std::io::copy(&mut from, &mut end));
    t.say("what", fs::read_to_string(at.join("end")));
}

pub(crate) fn locks_exclude_others(at: &Path, t: &mut Trace) {
    let (a, b) = (open(&at.join("f")), open(&at.join("f")));
    let lock = |file: &File, how| {
        // SAFETY: it takes no pointers.
        cvt(unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) })
    };
    t.say("exclusive", lock(&a, libc::LOCK_EX));
    t.say("again", lock(&a, libc::LOCK_EX));
    t.say("another", lock(&b, libc::LOCK_EX));
    t.say("shared", lock(&b, libc::LOCK_SH));
    t.say("weaker", lock(&a, libc::LOCK_SH));
    t.say("shared now", lock(&b, libc::LOCK_SH));
    t.say("stronger", lock(&b, libc::LOCK_EX));
    t.say("given up", lock(&a, libc::LOCK_UN));
    let copy = b.try_clone().unwrap();
    t.say("alone", lock(&b, libc::LOCK_EX));
    drop(b);
    t.say("held by the copy", lock(&a, libc::LOCK_SH));
    drop(copy);
    t.say("free", lock(&a, libc::LOCK_SH));
    t.say("nothing", lock(&a, 77));
    // SAFETY: plain data, and a valid lock.
    unsafe {
        let mut range: libc::flock = std::mem::zeroed();
        range.l_type = libc::F_WRLCK as i16;
        let fd = a.as_raw_fd();
        t.say("a range", cvt(libc::fcntl(fd, libc::F_SETLK, &range)));
        t.say(
            "who has it",
            cvt(libc::fcntl(fd, libc::F_GETLK, &mut range)),
        );
        t.note("nobody else", range.l_type == libc::F_UNLCK as i16);
    }
}

pub(crate) fn folders_are_no_files(at: &Path, t: &mut Trace) {
    let mut folder = File::open(at).unwrap();
    t.say("read", read_some(&mut folder, 1));
    t.say("read at", folder.read_at(&mut [0], 0));
    t.say("write", folder.write(b"x"));
    t.done("length", folder.set_len(1));
    t.done("sync", folder.sync_all());
    t.done("sync data", folder.sync_data());
    t.note("is", folder.metadata().unwrap().is_dir());
}

pub(crate) fn space_is_reserved(at: &Path, t: &mut Trace) {
    let file = open(&at.join("f"));
    let fd = file.as_raw_fd();
    // SAFETY: these take no pointers.
    let reserve = |mode, at, len| cvt(unsafe { libc::fallocate(fd, mode, at, len) });
    t.say("reserve", reserve(0, 100, 10_000));
    t.note("length", file.metadata().unwrap().len());
    t.say(
        "behind the end",
        reserve(libc::FALLOC_FL_KEEP_SIZE, 20_000, 4_096),
    );
    t.note("length", file.metadata().unwrap().len());
    t.note("blocks", file.metadata().unwrap().blocks() >= 24);
    t.say("nothing", reserve(0, 0, 0));
    t.say("negative", reserve(0, -1, 5));
    // SAFETY: as above.
    t.note("posix", unsafe { libc::posix_fallocate(fd, 0, 50_000) });
    t.note("length", file.metadata().unwrap().len());
    // SAFETY: as above.
    t.note("posix nothing", unsafe { libc::posix_fallocate(fd, 0, 0) });
    let reads = File::open(at.join("f")).unwrap();
    // SAFETY: as above.
    t.say(
        "read only",
        cvt(unsafe { libc::fallocate(reads.as_raw_fd(), 0, 0, 1) }),
    );
}

pub(crate) fn syncs_are_answered(at: &Path, t: &mut Trace) {
    let mut file = open(&at.join("f"));
    file.write_all(b"x").unwrap();
    t.done("all", file.sync_all());
    t.done("data", file.sync_data());
    let reads = File::open(at.join("f")).unwrap();
    t.done("of a reader", reads.sync_all());
    let fd = reads.as_raw_fd();
    // SAFETY: these take no pointers.
    unsafe {
        t.say("file system", cvt(libc::syncfs(fd)));
        t.say(
            "range",
            cvt(libc::sync_file_range(fd, 0, 1, libc::SYNC_FILE_RANGE_WRITE)),
        );
        t.note(
            "advice",
            libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED),
        );
        libc::sync();
    }
    let mut options = OpenOptions::new();
    let synced = options
        .write(true)
        .custom_flags(libc::O_SYNC)
        .open(at.join("f"));
    t.done("each write", synced.unwrap().write_all(b"y"));
}

pub(crate) fn flags_are_told(at: &Path, t: &mut Trace) {
    let path = at.join("f");
    // SAFETY: these take no pointers.
    let flags = |file: &File, t: &mut Trace| unsafe {
        let known = libc::O_ACCMODE
            | libc::O_APPEND
            | libc::O_NONBLOCK
            | libc::O_PATH
            | libc::O_NOFOLLOW
            | libc::O_SYNC
            | libc::O_DIRECTORY;
        t.note(
            "flags",
            libc::fcntl(file.as_raw_fd(), libc::F_GETFL) & known,
        );
        t.note("closes", libc::fcntl(file.as_raw_fd(), libc::F_GETFD));
    };
    flags(&File::create(&path).unwrap(), t);
    flags(&File::open(&path).unwrap(), t);
    for more in [libc::O_PATH, libc::O_NOFOLLOW, libc::O_DSYNC] {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(more);
        flags(&options.open(&path).unwrap(), t);
    }
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(at);
    flags(&folder.unwrap(), t);
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .open(&path)
        .unwrap();
    flags(&file, t);
    // SAFETY: as above.
    t.say(
        "set",
        cvt(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) }),
    );
    flags(&file, t);
    t.say("write", file.write(b"abc"));
    t.say("back", file.rewind());
    t.say("not at the end", file.write(b"d"));
    t.say("all", fs::read_to_string(&path));
    for place in [0, 1, 9] {
        t.say("seek", file.seek(SeekFrom::Start(place)));
        let mut waits: libc::c_int = 0;
        // SAFETY: this request writes a number.
        let asked = unsafe { libc::ioctl(file.as_raw_fd(), libc::FIONREAD, &mut waits) };
        t.say("asked", cvt(asked));
        t.note("bytes to the end", waits);
    }
}

pub(crate) fn files_are_always_ready(at: &Path, t: &mut Trace) {
    let file = open(&at.join("f"));
    let events = libc::POLLIN | libc::POLLOUT;
    let mut one = libc::pollfd {
        fd: file.as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: it is one entry.
    t.say("poll", cvt(unsafe { libc::poll(&mut one, 1, 0) }));
    t.note("ready", one.revents);
    let mut event = libc::epoll_event { events: 1, u64: 0 };
    // SAFETY: the event is valid, and the descriptors are.
    unsafe {
        let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        let added = libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, file.as_raw_fd(), &mut event);
        t.say("epoll", cvt(added));
        libc::close(epoll);
        let map = libc::mmap(
            ptr::null_mut(),
            1,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            -1,
            0,
        );
        t.note("map of nothing", map == libc::MAP_FAILED);
    }
}
