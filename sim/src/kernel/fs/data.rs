//! How files are read, written and synced.
#![allow(unsafe_code)]

use std::io;

use libc::{c_int, c_uint, c_void, iovec, off_t, size_t, ssize_t};

use super::{
    super::{
        answer, fails,
        files::Kind,
        is_ours, number, pipes,
        system::call,
        transfer::{bytes_of, entries, one, scatter, write},
        transferred,
    },
    has_no_node, is, is_file, on_disk, on_file,
};
use crate::{disk::Seek, error::os, world};

/// Bytes that one call copies at most.
const AT_ONCE: usize = 1 << 20;

/// What `O_DIRECT` wants lengths, places and addresses to be multiples of, in bytes.
const SECTOR: usize = 512;

/// Reads into buffers, at a place or at the file's position.
///
/// # Safety
///
/// - Each buffer is valid for writes.
pub(in super::super) unsafe fn read_file(
    fd: c_int,
    into: &[iovec],
    at: Option<u64>,
) -> io::Result<usize> {
    let lens = into.iter().map(|one| one.iov_len);
    let room = lens.fold(0_usize, usize::saturating_add);
    if is(fd, |kind| matches!(kind, Kind::Random)) {
        let mut all = vec![0; room.min(AT_ONCE)];
        world::with(|world| world.random.fill(&mut all));
        // SAFETY: by contract.
        unsafe { scatter(&all, into) };
        return Ok(all.len());
    }
    on_file(fd, libc::ESPIPE, |disk, open| {
        if open.flags & libc::O_DIRECT != 0 && open.reads() && room > 0 {
            is_aligned(into, disk.place(open, at, false)?)?;
        }
        // As long as the file is at most, since a caller may have more room than there is memory.
        let rest = disk.about_open(open)?.len as usize;
        let mut all = vec![0; room.min(rest.max(1))];
        let len = disk.read(open, &mut all, at)?;
        // SAFETY: by contract.
        unsafe { scatter(&all[..len], into) };
        Ok(len)
    })
}

/// Writes buffers, at a place or at the file's position.
///
/// # Safety
///
/// - Each buffer is valid for reads.
pub(in super::super) unsafe fn write_file(
    fd: c_int,
    from: &[iovec],
    at: Option<u64>,
) -> io::Result<usize> {
    // SAFETY: by contract.
    let bytes = unsafe { bytes_of(from) };
    if is(fd, |kind| matches!(kind, Kind::Random)) {
        // What is mixed into it changes nothing.
        return Ok(bytes.len());
    }
    on_file(fd, libc::ESPIPE, |disk, open| {
        if open.flags & libc::O_DIRECT != 0 && open.writes() && !bytes.is_empty() {
            is_aligned(from, disk.place(open, at, true)?)?;
        }
        disk.write(open, &bytes, at)
    })
}

/// Whether buffers and a place are such that `O_DIRECT` takes them: `EINVAL` if not.
fn is_aligned(list: &[iovec], at: Option<u64>) -> io::Result<()> {
    let Some(at) = at else { return Ok(()) };
    let buffers = list
        .iter()
        .flat_map(|one| [one.iov_base.addr(), one.iov_len]);
    let all = buffers.fold(at as usize, |all, one| all | one);
    match all % SECTOR {
        0 => Ok(()),
        _ => Err(os(libc::EINVAL)),
    }
}

pub(super) fn place(at: off_t) -> io::Result<Option<u64>> {
    u64::try_from(at).map(Some).map_err(|_| os(libc::EINVAL))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread(fd: c_int, out: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_pread64, fd, out, len, at) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    transferred(place(at).and_then(|at| unsafe { read_file(fd, &one(out, len), at) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(fd: c_int, out: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: by the contract of libc.
    unsafe { pread(fd, out, len, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_pwrite64, fd, from, len, at) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    transferred(place(at).and_then(|at| unsafe { write_file(fd, &one(from, len), at) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: by the contract of libc.
    unsafe { pwrite(fd, from, len, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn preadv(fd: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc. The last one is the upper half of the place.
        return unsafe { call()(libc::SYS_preadv, fd, list, count, at, 0) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    transferred(
        place(at).and_then(|at| unsafe { read_file(fd, entries(list, count as usize)?, at) }),
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn preadv64(fd: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: by the contract of libc.
    unsafe { preadv(fd, list, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev(fd: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t {
    if !is_ours(fd) {
        // SAFETY: by the contract of libc. The last one is the upper half of the place.
        return unsafe { call()(libc::SYS_pwritev, fd, list, count, at, 0) as ssize_t };
    }
    // SAFETY: by the contract of libc.
    transferred(
        place(at).and_then(|at| unsafe { write_file(fd, entries(list, count as usize)?, at) }),
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(fd: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: by the contract of libc.
    unsafe { pwritev(fd, list, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lseek(fd: c_int, by: off_t, from: c_int) -> off_t {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_lseek, fd, by, from) };
    }
    let has_no_place =
        |kind: &Kind| matches!(kind, Kind::Event { .. } | Kind::Timer(_) | Kind::Epoll(_));
    let from = match from {
        libc::SEEK_SET..=libc::SEEK_HOLE if is(fd, has_no_place) => return 0,
        libc::SEEK_SET => Seek::Start,
        libc::SEEK_CUR => Seek::Current,
        libc::SEEK_END => Seek::End,
        libc::SEEK_DATA => Seek::Data,
        libc::SEEK_HOLE => Seek::Hole,
        _ => return off_t::from(fails(libc::EINVAL)),
    };
    match on_file(fd, libc::ESPIPE, |disk, open| disk.seek(open, from, by)) {
        Ok(at) => at as off_t,
        Err(error) => off_t::from(fails(number(&error))),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lseek64(fd: c_int, by: off_t, from: c_int) -> off_t {
    // SAFETY: it takes no pointers.
    unsafe { lseek(fd, by, from) }
}

// --- the platter ---

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_fsync, fd) as c_int };
    }
    answer(on_file(fd, libc::EINVAL, |disk, open| disk.sync(open)))
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_fdatasync, fd) as c_int };
    }
    answer(on_file(fd, libc::EINVAL, |disk, open| disk.sync(open)))
}

/// It promises nothing for a crash, as its manual page says, and so it does nothing here.
#[unsafe(no_mangle)]
unsafe extern "C" fn sync_file_range(fd: c_int, at: off_t, len: off_t, flags: c_uint) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_sync_file_range, fd, at, len, flags) as c_int };
    }
    const KNOWN: c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;

    let is_range = at >= 0 && len >= 0 && at.checked_add(len).is_some();
    let is_open = world::with(|world| world.files.used(fd).map(drop));
    answer(
        is_open
            .unwrap_or_else(|| Err(os(libc::EBADF)))
            .and_then(|()| {
                if flags & !KNOWN != 0 || !is_range {
                    return Err(os(libc::EINVAL));
                }
                on_file(fd, libc::ESPIPE, |disk, open| disk.node_of(open).map(drop))
            }),
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn syncfs(fd: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_syncfs, fd) as c_int };
    }
    answer(on_file(fd, libc::EBADF, |disk, _| {
        disk.sync_all();
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sync() {
    if crate::world::current_host().is_none() {
        // SAFETY: it takes no pointers.
        unsafe { call()(libc::SYS_sync) };
        return;
    }
    // It has no answer: after a crash it does nothing.
    let _ = on_disk(|world, host| {
        world.disk_of(host).sync_all();
        Ok(())
    });
}

// --- lengths ---

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(fd: c_int, len: off_t) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_ftruncate, fd, len) as c_int };
    }
    answer(on_file(fd, libc::EINVAL, |disk, open| {
        disk.set_len(open, len)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    // SAFETY: it takes no pointers.
    unsafe { ftruncate(fd, len) }
}

fn allocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> io::Result<()> {
    let end = pipes::of(fd).map(|(end, _)| end.writes);
    let other = match end {
        Some(true) => libc::ESPIPE,
        Some(false) => libc::EBADF,
        None => libc::ENODEV,
    };
    on_file(fd, other, |disk, open| disk.allocate(open, mode, at, len))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_fallocate, fd, mode, at, len) as c_int };
    }
    answer(allocate(fd, mode, at, len))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate64(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: it takes no pointers.
    unsafe { fallocate(fd, mode, at, len) }
}

/// Answers the error, and leaves `errno`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fallocate(fd: c_int, at: off_t, len: off_t) -> c_int {
    if !is_ours(fd) {
        let system = super::system!(posix_fallocate: fn(c_int, off_t, off_t) -> c_int);
        // SAFETY: it takes no pointers.
        return unsafe { system(fd, at, len) };
    }
    let done = allocate(fd, 0, at, len);
    done.map_or_else(|error| number(&error), |()| 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fallocate64(fd: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: it takes no pointers.
    unsafe { posix_fallocate(fd, at, len) }
}

/// Advice has no effect.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fadvise(fd: c_int, at: off_t, len: off_t, advice: c_int) -> c_int {
    if !is_ours(fd) {
        let system = super::system!(posix_fadvise: fn(c_int, off_t, off_t, c_int) -> c_int);
        // SAFETY: it takes no pointers.
        return unsafe { system(fd, at, len, advice) };
    }
    match is_file(fd) {
        _ if is(fd, Kind::is_path) => libc::EBADF,
        false => libc::ESPIPE,
        true if len < 0 || !(0..=libc::POSIX_FADV_NOREUSE).contains(&advice) => libc::EINVAL,
        true => 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn flock(fd: c_int, command: c_int) -> c_int {
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_flock, fd, command) as c_int };
    }
    let known = [libc::LOCK_SH, libc::LOCK_EX, libc::LOCK_UN];
    if !known.contains(&(command & !libc::LOCK_NB)) {
        return fails(libc::EINVAL);
    }
    if has_no_node(fd) {
        return 0;
    }
    let done = on_file(fd, libc::EBADF, |disk, open| disk.lock(open, command));
    answer(match done {
        // The thread that would have to give the lock up is the one that would wait here.
        Err(error)
            if error.raw_os_error() == Some(libc::EWOULDBLOCK) && command & libc::LOCK_NB == 0 =>
        {
            Err(os(libc::EDEADLK))
        }
        done => done,
    })
}

// --- from one descriptor to another ---

/// The place that the caller of a copy keeps. None is the file's position.
///
/// # Safety
///
/// - `at` is null or valid for reads.
unsafe fn kept(at: *const off_t) -> io::Result<Option<u64>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: by contract.
    place(unsafe { *at })
}

/// What a copy reads: the bytes at a place that the caller keeps, or else at the file's position,
/// which stays where it is until they are written.
///
/// # Safety
///
/// - `at` is null or valid for reads.
unsafe fn ahead(from: c_int, at: *const off_t, len: size_t) -> io::Result<Vec<u8>> {
    // SAFETY: by contract.
    let kept = unsafe { kept(at)? };
    on_file(from, libc::EINVAL, |disk, open| {
        let start = disk.seek(open, Seek::Current, 0)?;
        let rest = disk.about_open(open)?.len as usize;
        let mut all = vec![0; len.min(AT_ONCE).min(rest.max(1))];
        let len = disk.read(open, &mut all, Some(kept.unwrap_or(start)))?;
        all.truncate(len);
        Ok(all)
    })
}

/// Moves the place of a copy, which is the caller's or the file's, behind what was written.
///
/// # Safety
///
/// - `at` is null or valid for reads and writes.
unsafe fn moves(from: c_int, at: *mut off_t, written: usize) {
    if at.is_null() {
        let moved = on_file(from, libc::EINVAL, |disk, open| {
            disk.seek(open, Seek::Current, written as i64)
        });
        moved.expect("it was read just now");
    } else {
        // SAFETY: by contract.
        unsafe { *at += written as off_t };
    }
}

/// `EINVAL` for a copy with flags, or onto its own source.
///
/// # Safety
///
/// - The places are null or valid for reads.
unsafe fn may_copy(
    from: (c_int, *const off_t),
    to: (c_int, *const off_t),
    len: size_t,
    flags: c_uint,
) -> io::Result<()> {
    let about = |(fd, at): (c_int, *const off_t)| {
        // SAFETY: by contract.
        let kept = unsafe { kept(at)? };
        on_file(fd, libc::EINVAL, |disk, open| {
            let at = kept.map_or_else(|| disk.seek(open, Seek::Current, 0), Ok)?;
            Ok((disk.node_of(open)?, at, disk.about_open(open)?.len))
        })
    };
    let ((source, start, end), (target, place, _)) = (about(from)?, about(to)?);
    let len = (len as u64).min(end.saturating_sub(start));
    let overlaps = source == target && place < start + len && start < place.saturating_add(len);
    if flags != 0 || overlaps {
        return Err(os(libc::EINVAL));
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if !is_ours(from) && !is_ours(to) {
        // SAFETY: by the contract of libc.
        return unsafe {
            let number = libc::SYS_copy_file_range;
            call()(number, from, from_at, to, to_at, len, flags) as ssize_t
        };
    }
    if !is_ours(from) || !is_ours(to) {
        // As between two file systems. Callers read and write then.
        return fails(libc::EXDEV) as ssize_t;
    }
    let copy = || {
        // SAFETY: by the contract of libc.
        unsafe { may_copy((from, from_at), (to, to_at), len, flags)? };
        // SAFETY: by the contract of libc.
        let (bytes, kept) = unsafe { (ahead(from, from_at, len)?, kept(to_at)?) };
        let written = on_file(to, libc::EINVAL, |disk, open| {
            if open.flags & libc::O_APPEND != 0 {
                return Err(os(libc::EBADF));
            }
            disk.write(open, &bytes, kept)
        })?;
        // SAFETY: by the contract of libc.
        unsafe {
            moves(from, from_at, written);
            if !to_at.is_null() {
                *to_at += written as off_t;
            }
        }
        Ok(written)
    };
    transferred(copy())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    if !is_ours(from) && !is_ours(to) {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_sendfile, to, from, at, len) as ssize_t };
    }
    if !is_ours(from) {
        // Callers read and write then.
        return fails(libc::EINVAL) as ssize_t;
    }
    // SAFETY: by the contract of libc.
    let bytes = match unsafe { ahead(from, at, len) } {
        Ok(bytes) => bytes,
        Err(error) => return fails(number(&error)) as ssize_t,
    };
    // SAFETY: the bytes are valid for reads.
    let written = unsafe { write(to, bytes.as_ptr().cast(), bytes.len()) };
    if written > 0 {
        // SAFETY: by the contract of libc.
        unsafe { moves(from, at, written as usize) };
    }
    written
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: by the contract of libc.
    unsafe { sendfile(to, from, at, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    from: off_t,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS == 0 && is_ours(fd) {
        fails(match is(fd, Kind::is_path) {
            true => libc::EBADF,
            false => libc::ENODEV,
        });
        return libc::MAP_FAILED;
    }
    // SAFETY: by the contract of libc.
    unsafe {
        let number = libc::SYS_mmap;
        call()(number, at, len, protection, flags, fd, from) as *mut c_void
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    at: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    from: off_t,
) -> *mut c_void {
    // SAFETY: by the contract of libc.
    unsafe { mmap(at, len, protection, flags, fd, from) }
}

/// The functions of this file.
pub(super) const PART: &[*const c_void] = &[
    pread as *const c_void,
    pread64 as *const c_void,
    pwrite as *const c_void,
    pwrite64 as *const c_void,
    preadv as *const c_void,
    preadv64 as *const c_void,
    pwritev as *const c_void,
    pwritev64 as *const c_void,
    lseek as *const c_void,
    lseek64 as *const c_void,
    fsync as *const c_void,
    fdatasync as *const c_void,
    sync_file_range as *const c_void,
    syncfs as *const c_void,
    sync as *const c_void,
    ftruncate as *const c_void,
    ftruncate64 as *const c_void,
    fallocate as *const c_void,
    fallocate64 as *const c_void,
    posix_fallocate as *const c_void,
    posix_fallocate64 as *const c_void,
    posix_fadvise as *const c_void,
    flock as *const c_void,
    copy_file_range as *const c_void,
    sendfile as *const c_void,
    sendfile64 as *const c_void,
    mmap as *const c_void,
    mmap64 as *const c_void,
];
