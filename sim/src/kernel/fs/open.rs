//! How files are opened, and the current folder.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString},
    io, mem, ptr,
    sync::OnceLock,
};

use libc::{c_char, c_int, c_void, mode_t, size_t};

use super::{
    super::{answer, fails, files::Kind, is_ours, number, system::call},
    At, at, c_path, on_disk, on_path_or_file,
};
use crate::{
    disk::{Open, Opened, Store},
    error::os,
    world,
};

/// The path of the program, which a backtrace reads.
fn program() -> &'static [u8] {
    static PATH: OnceLock<Vec<u8>> = OnceLock::new();
    PATH.get_or_init(|| {
        let mut path = vec![0_u8; 4096];
        let link = c"/proc/self/exe".as_ptr();
        // SAFETY: there is room for as many bytes.
        let len = unsafe {
            let place = path.as_mut_ptr();
            call()(
                libc::SYS_readlinkat,
                libc::AT_FDCWD,
                link,
                place,
                path.len(),
            )
        };
        path.truncate(usize::try_from(len).unwrap_or(0));
        path
    })
}

/// The simulated descriptor that a path below `/proc` stands for.
pub(super) fn own_descriptor(path: &[u8]) -> Option<c_int> {
    const FOLDERS: [&str; 3] = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];
    let path = std::str::from_utf8(path).ok()?;
    let number = FOLDERS
        .iter()
        .find_map(|folder| path.strip_prefix(folder))?;
    number.parse().ok().filter(|fd| is_ours(*fd))
}

/// A file that the system draws anew for each reader.
const UUID: &[u8] = b"/proc/sys/kernel/random/uuid";

/// Opens what stands for [`UUID`], from the seed.
fn open_uuid(flags: c_int) -> io::Result<c_int> {
    on_disk(|world, host| {
        world.files.have_room(1)?;
        let mut bytes = [0; 16];
        world.random.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut text = String::new();
        for (place, byte) in bytes.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text.push('\n');
        let open = world.disk_of(host).give(text.as_bytes(), flags)?;
        Ok(world.files.open(host, Kind::File(open), flags))
    })
}

/// A descriptor of the system, or one whose bytes are the seed's if it is that of random bytes.
fn seeded(fd: c_int, flags: c_int) -> io::Result<c_int> {
    // The device's major number, and the minor ones of `/dev/random` and `/dev/urandom`.
    const MEMORY: u32 = 1;
    const RANDOM: [u32; 2] = [8, 9];

    // SAFETY: plain data.
    let mut about: libc::stat64 = unsafe { mem::zeroed() };
    // SAFETY: there is room for it.
    let known = unsafe { libc::fstat64(fd, &raw mut about) };
    let is_random = about.st_mode & libc::S_IFMT == libc::S_IFCHR
        && libc::major(about.st_rdev) == MEMORY
        && RANDOM.contains(&libc::minor(about.st_rdev));
    if known != 0 || !is_random {
        return Ok(fd);
    }
    // SAFETY: it was opened here, and nobody else has it.
    unsafe { libc::close(fd) };
    on_disk(|world, host| {
        world.files.have_room(1)?;
        Ok(world.files.open(host, Kind::Random, flags))
    })
}

/// Opens the file of a simulated descriptor once more.
fn open_again(fd: c_int, flags: c_int, mode: mode_t) -> io::Result<c_int> {
    // A number that was closed has no name in that folder.
    on_disk(|world, _| world.files.of(fd).map_err(|_| os(libc::ENOENT)))?;
    let again = |disk: &mut Store, open: &mut Open| disk.open_again(open, flags, mode & 0o7777);
    match on_path_or_file(fd, libc::ENXIO, again)? {
        Opened::Here(open) => on_disk(|world, host| {
            world.files.have_room(1)?;
            Ok(world.files.open(host, Kind::File(open), flags))
        }),
        // The folders of the system are opened by the system.
        Opened::System(_) | Opened::Device(_) => Err(os(libc::ENXIO)),
    }
}

/// Opens a path for a host.
fn open_here(at: &At<'_>, flags: c_int, mode: mode_t) -> io::Result<c_int> {
    let only_reads = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) == 0;
    if only_reads && at.path == program() {
        return open_system(libc::AT_FDCWD, &c_path(at.path.to_vec()), flags);
    }
    if let Some(fd) = own_descriptor(at.path) {
        return open_again(fd, flags, mode);
    }
    match open_on_disk(at, flags, mode)? {
        Place::Here(fd) => Ok(fd),
        Place::System(path) if path.as_bytes() == UUID => open_uuid(flags),
        Place::System(path) => seeded(open_system(libc::AT_FDCWD, &path, flags)?, flags),
        Place::Device(path) => seeded(open_device(&path, flags)?, flags),
    }
}

/// What a path leads to.
enum Place {
    /// A file that was opened.
    Here(c_int),
    System(CString),
    Device(CString),
}

fn open_on_disk(at: &At<'_>, flags: c_int, mode: mode_t) -> io::Result<Place> {
    on_disk(|world, host| {
        world.files.have_room(1)?;
        let start = at.start(world, host)?;
        let disk = world.disk_of(host);
        match disk.open(start, at.path, flags, mode & 0o7777)? {
            Opened::Here(open) => Ok(Place::Here(world.files.open(host, Kind::File(open), flags))),
            Opened::System(path) => Ok(Place::System(c_path(path))),
            Opened::Device(path) => Ok(Place::Device(c_path(path))),
        }
    })
}

/// Opens a file that is there already.
fn open_system(dir: c_int, path: &CStr, flags: c_int) -> io::Result<c_int> {
    // SAFETY: the path ends with NUL.
    let fd = unsafe { call()(libc::SYS_openat, dir, path.as_ptr(), flags, 0) };
    match fd {
        -1 => Err(io::Error::last_os_error()),
        fd => Ok(fd as c_int),
    }
}

/// Opens a device for a write, or a pipe that stands for one. Anything else is `EROFS`, such as the
/// file that standard output goes to.
fn open_device(path: &CStr, flags: c_int) -> io::Result<c_int> {
    if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 {
        return Err(os(libc::EROFS));
    }
    let fd = match open_system(
        libc::AT_FDCWD,
        path,
        flags & !(libc::O_CREAT | libc::O_TRUNC),
    ) {
        Err(_) if flags & libc::O_CREAT != 0 => return Err(os(libc::EROFS)),
        opened => opened?,
    };
    // SAFETY: plain data.
    let mut about: libc::stat64 = unsafe { mem::zeroed() };
    // SAFETY: there is room for it.
    let known = unsafe { libc::fstat64(fd, &raw mut about) };
    let kind = about.st_mode & libc::S_IFMT;
    if known == 0 && matches!(kind, libc::S_IFCHR | libc::S_IFIFO) {
        return Ok(fd);
    }
    // SAFETY: it was opened here, and nobody else has it.
    unsafe { libc::close(fd) };
    Err(os(libc::EROFS))
}

/// The flags of an open that are looked at. `EINVAL` for some that exclude each other.
fn checked(flags: c_int) -> io::Result<c_int> {
    const WITH_PATH: c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    const TEMPORARY: c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;

    if flags & TEMPORARY != 0 {
        let is_folder = flags & libc::O_DIRECTORY != 0;
        if !is_folder || flags & libc::O_CREAT != 0 || flags & libc::O_ACCMODE == libc::O_RDONLY {
            return Err(os(libc::EINVAL));
        }
    }
    if flags & libc::O_PATH != 0 {
        return Ok(flags & WITH_PATH);
    }
    match flags & (libc::O_DIRECTORY | libc::O_CREAT) == libc::O_DIRECTORY | libc::O_CREAT {
        true => Err(os(libc::EINVAL)),
        false => Ok(flags),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn openat(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(dir, path) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_openat, dir, path, flags, mode) as c_int };
    };
    let flags = match checked(flags) {
        Ok(flags) => flags,
        Err(error) => return fails(number(&error)),
    };
    let opened = if !at.is_systems() {
        open_here(&at, flags, mode)
    } else if flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != 0 {
        Err(os(libc::EROFS))
    } else {
        at.stays_in_system()
            .and_then(|()| open_system(dir, &c_path(at.path.to_vec()), flags))
            .and_then(|fd| seeded(fd, flags))
    };
    opened.unwrap_or_else(|error| fails(number(&error)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { openat(dir, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    // SAFETY: by the contract of libc.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: by the contract of libc.
    unsafe { creat(path, mode) }
}

// --- as C code calls them that was compiled with `_FORTIFY_SOURCE` ---

#[unsafe(no_mangle)]
unsafe extern "C" fn __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: by the contract of libc. Nothing is created.
    unsafe { openat(dir, path, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { openat(dir, path, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { openat(libc::AT_FDCWD, path, flags, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { openat(libc::AT_FDCWD, path, flags, 0) }
}

// --- the current folder ---

#[unsafe(no_mangle)]
unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: by the contract of libc.
    let Some(at) = (unsafe { at(libc::AT_FDCWD, path) }) else {
        // SAFETY: by the contract of libc.
        return unsafe { call()(libc::SYS_chdir, path) as c_int };
    };
    answer(
        at.on(|disk, start, path| match disk.look(start, path, true)? {
            Ok(node) => disk.change_folder(node),
            // The current folder is of the host's disk.
            Err(_) => Err(os(libc::EACCES)),
        }),
    )
}

/// Why a descriptor of the system is no current folder of a host: that is of the host's disk, as
/// for `chdir`.
fn no_current_folder(fd: c_int) -> c_int {
    // SAFETY: plain data.
    let mut about: libc::stat64 = unsafe { mem::zeroed() };
    // SAFETY: there is room for it.
    match unsafe { libc::fstat64(fd, &raw mut about) } {
        0 if about.st_mode & libc::S_IFMT == libc::S_IFDIR => libc::EACCES,
        0 => libc::ENOTDIR,
        _ => libc::EBADF,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fchdir(fd: c_int) -> c_int {
    if !is_ours(fd) && world::current_host().is_some() {
        return fails(no_current_folder(fd));
    }
    if !is_ours(fd) {
        // SAFETY: it takes no pointers.
        return unsafe { call()(libc::SYS_fchdir, fd) as c_int };
    }
    answer(on_path_or_file(fd, libc::ENOTDIR, |disk, open| {
        let node = disk.folder_of(open)?;
        disk.change_folder(node)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getcwd(out: *mut c_char, size: size_t) -> *mut c_char {
    if world::current_host().is_none() {
        let system = super::system!(getcwd: fn(*mut c_char, size_t) -> *mut c_char);
        // SAFETY: by the contract of libc.
        return unsafe { system(out, size) };
    }
    let path = on_disk(|world, host| {
        let disk = world.disk_of(host);
        disk.path_of(disk.start())
    });
    let path = match path {
        Ok(path) => c_path(path),
        Err(error) => {
            fails(number(&error));
            return ptr::null_mut();
        }
    };
    let bytes = path.as_bytes_with_nul();
    let error = match (out.is_null(), size) {
        (false, 0) => libc::EINVAL,
        (true, 0) => 0,
        _ if size < bytes.len() => libc::ERANGE,
        _ => 0,
    };
    if error != 0 {
        fails(error);
        return ptr::null_mut();
    }
    let out = if out.is_null() && size > 0 {
        // SAFETY: the length is not zero.
        unsafe { libc::malloc(size).cast() }
    } else {
        out
    };
    // SAFETY: by the contract of libc, or as many bytes as were allocated.
    unsafe { give(out, bytes) }
}

/// Writes a text to a place, or to a new one from `malloc` if it is null.
///
/// # Safety
///
/// - The place is null, or there is room for the text.
pub(super) unsafe fn give(out: *mut c_char, text: &[u8]) -> *mut c_char {
    let out = if out.is_null() {
        // SAFETY: the length is not zero.
        unsafe { libc::malloc(text.len()).cast() }
    } else {
        out
    };
    if !out.is_null() {
        // SAFETY: by contract, or as it was allocated.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), text.len()) };
    }
    out
}

/// The functions of this file.
pub(super) const PART: &[*const c_void] = &[
    open as *const c_void,
    open64 as *const c_void,
    openat as *const c_void,
    openat64 as *const c_void,
    creat as *const c_void,
    creat64 as *const c_void,
    __openat_2 as *const c_void,
    __openat64_2 as *const c_void,
    __open_2 as *const c_void,
    __open64_2 as *const c_void,
    chdir as *const c_void,
    fchdir as *const c_void,
    getcwd as *const c_void,
];
