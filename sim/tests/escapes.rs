//! No function of libc that takes a path reaches the machine from inside a host.
//!
//! Each test has a folder on the machine, and calls the functions in a host with its path. What is
//! in that folder afterwards is what was there before.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

#[cfg(target_env = "gnu")]
#[path = "escapes/fortified.rs"]
mod fortified;

use std::{
    ffi::{CStr, CString},
    fs, io,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::{Path, PathBuf},
    ptr,
    sync::mpsc,
};

use libc::{FILE, c_char, c_int};
use ws_sim::Sim;

unsafe extern "C" {
    fn __open_2(path: *const c_char, flags: c_int) -> c_int;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int;
    fn euidaccess(path: *const c_char, how: c_int) -> c_int;
    fn eaccess(path: *const c_char, how: c_int) -> c_int;
    fn tempnam(folder: *const c_char, start: *const c_char) -> *mut c_char;
    fn scandir(
        path: *const c_char,
        list: *mut *mut *mut libc::dirent,
        filter: Option<extern "C" fn(*const libc::dirent) -> c_int>,
        compare: Option<Compare>,
    ) -> c_int;
    #[cfg(target_env = "gnu")]
    fn fts64_open(
        paths: *const *mut c_char,
        flags: c_int,
        compare: *const libc::c_void,
    ) -> *mut libc::c_void;
    fn nftw(path: *const c_char, f: Visit, fds: c_int, flags: c_int) -> c_int;
}

type Compare = extern "C" fn(*mut *const libc::dirent, *mut *const libc::dirent) -> c_int;
type Visit = extern "C" fn(*const c_char, *const libc::stat, c_int, *mut libc::c_void) -> c_int;

extern "C" fn visit(
    _: *const c_char,
    _: *const libc::stat,
    _: c_int,
    _: *mut libc::c_void,
) -> c_int {
    panic!("a file of the machine is seen");
}

/// A folder of the machine with a file `victim`, that is removed at the end.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let name = format!("ws-sim-escape-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("victim"), "real").unwrap();
        Self(path)
    }

    /// Runs `f` in a host. The folder is as it was.
    #[track_caller]
    fn is_left_alone(&self, f: impl FnOnce(&Path) + 'static) {
        let sim = Sim::new(1);
        let path = self.0.clone();
        sim.client("host", async move { f(&path) });
        sim.try_run().unwrap();
        let names = fs::read_dir(&self.0).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["victim"]);
        assert_eq!(fs::read_to_string(self.0.join("victim")).unwrap(), "real");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

fn cvt(answer: c_int) -> Result<c_int, i32> {
    match answer {
        -1 => Err(io::Error::last_os_error().raw_os_error().unwrap()),
        answer => Ok(answer),
    }
}

/// The answer of a call that gives a pointer.
fn made<T>(answer: *mut T) -> Result<(), i32> {
    cvt(if answer.is_null() { -1 } else { 0 }).map(drop)
}

#[test]
fn remove_removes_files_and_folders_of_the_host() {
    Machine::new("remove").is_left_alone(|at| {
        let victim = c(at.join("victim"));
        // SAFETY: the path ends with NUL.
        let remove = || cvt(unsafe { libc::remove(victim.as_ptr()) });
        assert_eq!(remove(), Err(libc::ENOENT));
        fs::create_dir_all(at.join("victim/inner")).unwrap();
        assert_eq!(remove(), Err(libc::ENOTEMPTY));
        fs::remove_dir(at.join("victim/inner")).unwrap();
        assert_eq!(remove(), Ok(0));
        fs::write(at.join("victim"), "simulated").unwrap();
        assert_eq!(remove(), Ok(0));
        assert!(!at.join("victim").exists());
    });
}

#[test]
fn temporary_names_are_made_on_the_disk_of_the_host() {
    Machine::new("temporary").is_left_alone(|at| {
        let template = || c(at.join("tXXXXXX.end")).into_bytes_with_nul();
        let short = || c(at.join("tXXXXXX")).into_bytes_with_nul();
        let mut name = short();
        // SAFETY: the templates end with NUL.
        unsafe {
            assert_eq!(
                cvt(libc::mkstemp(name.as_mut_ptr().cast())),
                Err(libc::ENOENT)
            );
            fs::create_dir_all(at).unwrap();
            let mut names = [short(), short(), template(), template()];
            let places = names
                .each_mut()
                .map(|name| name.as_mut_ptr().cast::<c_char>());
            let files = [
                libc::mkstemp(places[0]),
                libc::mkostemp(places[1], libc::O_APPEND),
                libc::mkstemps(places[2], 4),
                libc::mkostemps(places[3], 4, 0),
            ];
            for (fd, place) in files.into_iter().zip(places) {
                assert_eq!(libc::write(cvt(fd).unwrap(), c"x".as_ptr().cast(), 1), 1);
                assert_eq!(libc::close(fd), 0);
                let path = CStr::from_ptr(place).to_str().unwrap();
                assert!(!path.contains("XXXXXX"), "{path}");
                assert_eq!(fs::read_to_string(path).unwrap(), "x");
            }
            name = short();
            made(libc::mkdtemp(name.as_mut_ptr().cast())).unwrap();
            assert_eq!(fs::read_dir(at).unwrap().count(), 5);
            let mut wrong = c(at.join("tXXXXX")).into_bytes_with_nul();
            assert_eq!(
                cvt(libc::mkstemp(wrong.as_mut_ptr().cast())),
                Err(libc::EINVAL)
            );
            assert_eq!(
                made(tempnam(c(at).as_ptr(), ptr::null())),
                Err(libc::ENOSYS)
            );
        }
    });
}

/// Writes a text with the C library's own buffers, and reads it.
///
/// # Safety
///
/// - None of the files is closed.
unsafe fn write_and_read(file: *mut FILE, text: &CStr) -> Vec<u8> {
    let mut back = vec![0_u8; 100];
    // SAFETY: by contract, and there is room.
    unsafe {
        assert!(!file.is_null(), "{}", io::Error::last_os_error());
        assert!(libc::fputs(text.as_ptr(), file) >= 0);
        assert_eq!(libc::fseek(file, 0, libc::SEEK_SET), 0);
        let len = libc::fread(back.as_mut_ptr().cast(), 1, back.len(), file);
        back.truncate(len);
        assert_eq!(libc::fclose(file), 0);
    }
    back
}

#[test]
fn streams_of_the_c_library_are_files_of_the_host() {
    Machine::new("streams").is_left_alone(|at| {
        let (victim, new) = (c(at.join("victim")), c(at.join("new")));
        // SAFETY: paths and modes end with NUL, and the files are those that were opened.
        unsafe {
            assert_eq!(
                made(libc::fopen(victim.as_ptr(), c"r".as_ptr())),
                Err(libc::ENOENT)
            );
            fs::create_dir_all(at).unwrap();
            let file = libc::fopen(new.as_ptr(), c"w+".as_ptr());
            assert_eq!(write_and_read(file, c"hello"), b"hello");
            assert_eq!(fs::read_to_string(at.join("new")).unwrap(), "hello");
            let file = libc::fopen(new.as_ptr(), c"a+".as_ptr());
            assert_eq!(libc::fsync(libc::fileno(file)), 0);
            assert_eq!(write_and_read(file, c", world"), b"hello, world");
            assert_eq!(
                made(libc::fopen(new.as_ptr(), c"wx".as_ptr())),
                Err(libc::EEXIST)
            );
            assert_eq!(
                made(libc::fopen(new.as_ptr(), c"q".as_ptr())),
                Err(libc::EINVAL)
            );
            assert_eq!(write_and_read(libc::tmpfile(), c"x"), b"x");
            let fd = libc::open(new.as_ptr(), libc::O_RDWR);
            let file = libc::fdopen(fd, c"r+".as_ptr());
            assert_eq!(write_and_read(file, c"HELLO"), b"HELLO, world");
            let file = libc::fopen(c"/etc/passwd".as_ptr(), c"r".as_ptr());
            assert!(!file.is_null());
            assert_eq!(
                made(libc::freopen(victim.as_ptr(), c"w".as_ptr(), file)),
                Err(libc::ENOSYS)
            );
            assert_eq!(libc::fclose(file), 0);
            assert_eq!(
                made(libc::fopen(c"/etc/passwd".as_ptr(), c"a".as_ptr())),
                Err(libc::EROFS)
            );
        }
    });
}

/// Opens a stream in a host of a new thread, and gives it to `f` there, with its descriptor.
fn with_stream<R: Send + 'static>(f: impl FnOnce(*mut FILE, c_int) -> R + Send + 'static) -> R {
    let thread = std::thread::spawn(|| {
        let sim = Sim::new(1);
        let (says, said) = mpsc::channel();
        sim.client("host", async move {
            // SAFETY: the texts end with NUL, and the stream is that which was opened.
            let fd = unsafe {
                let file = libc::fopen(c"f".as_ptr(), c"w".as_ptr());
                assert!(!file.is_null());
                f(file, libc::fileno(file))
            };
            says.send(fd).unwrap();
        });
        sim.try_run().unwrap();
        said.recv().unwrap()
    });
    thread.join().unwrap()
}

#[test]
fn a_stream_is_no_stream_of_another_thread_with_its_number() {
    // Each thread with a simulation has the same numbers.
    let (stream, fd) = with_stream(|file, fd| (file.expose_provenance(), fd));
    let other = with_stream(|file, fd| {
        // SAFETY: the stream is that which was opened.
        assert_eq!(unsafe { libc::fclose(file) }, 0);
        fd
    });
    assert_eq!(other, fd);
    let stream = ptr::with_exposed_provenance_mut(stream);
    // SAFETY: the stream is open. Here it is closed by another thread than the one that opened it.
    unsafe {
        assert_eq!(libc::fileno(stream), fd);
        assert_eq!(libc::fclose(stream), 0);
    }
}

#[test]
fn names_are_looked_for_on_the_disk_of_the_host() {
    Machine::new("names").is_left_alone(|at| {
        let found = |pattern: &str| {
            let pattern = c(at.join(pattern));
            // SAFETY: plain data; the pattern ends with NUL, and the names are as many.
            unsafe {
                let mut all: libc::glob_t = std::mem::zeroed();
                let answer = libc::glob(pattern.as_ptr(), 0, None, &raw mut all);
                let names = (0..all.gl_pathc).map(|one| CStr::from_ptr(*all.gl_pathv.add(one)));
                let names: Vec<_> = names.map(|name| name.to_owned()).collect();
                libc::globfree(&raw mut all);
                (answer, names)
            }
        };
        let (victim, other) = (c(at.join("victim")), c(at.join("other")));
        assert_eq!(found("*").0, libc::GLOB_NOMATCH);
        // SAFETY: the paths end with NUL.
        unsafe {
            for open in [__open_2, __open64_2] {
                assert_eq!(cvt(open(victim.as_ptr(), libc::O_RDWR)), Err(libc::ENOENT));
            }
            for access in [euidaccess, eaccess] {
                assert_eq!(cvt(access(victim.as_ptr(), libc::F_OK)), Err(libc::ENOENT));
            }
            assert_eq!(cvt(nftw(c(at).as_ptr(), visit, 8, 0)), Err(libc::ENOSYS));
            let mut list = ptr::null_mut();
            let scanned = scandir(c(at).as_ptr(), &raw mut list, None, None);
            assert_eq!(cvt(scanned), Err(libc::ENOSYS));
            #[cfg(target_env = "gnu")]
            {
                let folder = c(at);
                let all = [folder.as_ptr().cast_mut(), ptr::null_mut()];
                let walk = fts64_open(all.as_ptr(), 0x10, ptr::null());
                assert_eq!(made(walk), Err(libc::ENOSYS));
            }
        }
        fs::create_dir_all(at).unwrap();
        fs::write(at.join("other"), "").unwrap();
        assert_eq!(found("*"), (0, vec![other.clone()]));
        assert_eq!(found("o[a-z]her").1, vec![other.clone()]);
        // SAFETY: the paths end with NUL.
        unsafe {
            for access in [euidaccess, eaccess] {
                assert_eq!(cvt(access(other.as_ptr(), libc::F_OK)), Ok(0));
            }
        }
    });
}

#[test]
fn memory_and_queues_with_a_name_and_mounts_are_refused() {
    Machine::new("shared").is_left_alone(|at| {
        let (name, at) = (c(format!("/ws-sim-{}", std::process::id())), c(at));
        // SAFETY: the paths end with NUL. If a call is not refused, it fails for want of a type.
        unsafe {
            assert_eq!(
                cvt(libc::shm_open(
                    name.as_ptr(),
                    libc::O_CREAT | libc::O_RDWR,
                    0o600
                )),
                Err(libc::ENOSYS)
            );
            assert_eq!(cvt(libc::shm_unlink(name.as_ptr())), Err(libc::ENOSYS));
            let flags = libc::O_CREAT;
            assert_eq!(
                made(libc::sem_open(name.as_ptr(), flags, 0o600, 1)),
                Err(libc::ENOSYS)
            );
            let (none, data) = (ptr::null(), ptr::null());
            assert_eq!(
                cvt(libc::mount(none, at.as_ptr(), c"none".as_ptr(), 0, data)),
                Err(libc::ENOSYS)
            );
            assert_eq!(cvt(libc::umount(at.as_ptr())), Err(libc::ENOSYS));
        }
    });
}

#[test]
fn the_space_of_a_disk_is_that_of_the_host() {
    Machine::new("space").is_left_alone(|at| {
        let at = c(at);
        // SAFETY: plain data, and the paths end with NUL.
        unsafe {
            let mut space: libc::statvfs = std::mem::zeroed();
            assert_eq!(
                cvt(libc::statvfs(at.as_ptr(), &raw mut space)),
                Err(libc::ENOENT)
            );
            let mut other: libc::statfs = std::mem::zeroed();
            assert_eq!(
                cvt(libc::statfs(at.as_ptr(), &raw mut other)),
                Err(libc::ENOENT)
            );
            assert_eq!(cvt(libc::statvfs(c".".as_ptr(), &raw mut space)), Ok(0));
            assert_eq!(cvt(libc::statfs(c".".as_ptr(), &raw mut other)), Ok(0));
            assert_eq!((space.f_bsize, space.f_namemax), (4096, 255));
            assert_eq!(other.f_blocks, space.f_blocks);
            fs::write("file", [1; 5000]).unwrap();
            let before = space.f_bfree;
            let fd = libc::open(c"file".as_ptr(), libc::O_RDONLY);
            assert_eq!(cvt(libc::fstatvfs(fd, &raw mut space)), Ok(0));
            assert_eq!(before - space.f_bfree, 2);
            assert_eq!(libc::pathconf(c"file".as_ptr(), libc::_PC_NAME_MAX), 255);
            assert_eq!(libc::fpathconf(fd, libc::_PC_PIPE_BUF), 4096);
            assert_eq!(libc::pathconf(at.as_ptr(), libc::_PC_NAME_MAX), -1);
            assert_eq!(libc::close(fd), 0);
        }
    });
}

#[test]
fn new_files_and_folders_have_the_rights_and_flags_that_they_are_to_have() {
    Machine::new("rights").is_left_alone(|at| {
        fs::create_dir_all(at).unwrap();
        let mode = |path: &CStr| {
            let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        // SAFETY: the texts end with NUL, and the templates may be written.
        unsafe {
            let template = || c(at.join("tXXXXXX")).into_raw();
            let [folder, file] = [template(), template()];
            made(libc::mkdtemp(folder)).unwrap();
            assert_eq!(mode(CStr::from_ptr(folder)), 0o700);
            let fd = cvt(libc::mkostemp(file, libc::O_APPEND | libc::O_CLOEXEC)).unwrap();
            assert_eq!(mode(CStr::from_ptr(file)), 0o600);
            assert_ne!(libc::fcntl(fd, libc::F_GETFL) & libc::O_APPEND, 0);
            assert_eq!(libc::fcntl(fd, libc::F_GETFD), libc::FD_CLOEXEC);
            for (how, flag) in [(c"r", 0), (c"re", libc::FD_CLOEXEC)] {
                let stream = libc::fopen(file, how.as_ptr());
                assert_eq!(libc::fcntl(libc::fileno(stream), libc::F_GETFD), flag);
                assert_eq!(libc::fclose(stream), 0);
            }
            drop([folder, file].map(|text| CString::from_raw(text)));
        }
    });
}

#[test]
fn what_is_free_on_a_disk_is_free_for_the_host() {
    let sim = Sim::new(1);
    sim.client("host", async {
        fs::write("file", [1; 50_000]).unwrap();
        // SAFETY: plain data, and the path ends with NUL.
        unsafe {
            let mut space: libc::statvfs = std::mem::zeroed();
            assert_eq!(libc::statvfs(c".".as_ptr(), &raw mut space), 0);
            assert_eq!(
                (space.f_bavail, space.f_favail),
                (space.f_bfree, space.f_ffree)
            );
            let mut other: libc::statfs = std::mem::zeroed();
            assert_eq!(libc::statfs(c".".as_ptr(), &raw mut other), 0);
            assert_eq!(
                (other.f_bavail, other.f_bfree),
                (space.f_bfree, space.f_bfree)
            );
            assert!(space.f_bfree < space.f_blocks);
        }
    });
    sim.try_run().unwrap();
}

#[test]
fn a_folder_of_the_machine_is_no_current_folder() {
    let before = std::env::current_dir().unwrap();
    Machine::new("folder").is_left_alone(|_| {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        // SAFETY: the paths end with NUL.
        unsafe {
            let fd = cvt(libc::open(c"/etc".as_ptr(), flags)).unwrap();
            assert_eq!(cvt(libc::fchdir(fd)), Err(libc::EACCES));
            assert_eq!(
                cvt(libc::syscall(libc::SYS_fchdir, fd) as c_int),
                Err(libc::EACCES)
            );
            assert_eq!(libc::close(fd), 0);
            assert_eq!(cvt(libc::chdir(c"/etc".as_ptr())), Err(libc::EACCES));
            let fd = cvt(libc::open(c"/etc/passwd".as_ptr(), libc::O_RDONLY)).unwrap();
            assert_eq!(cvt(libc::fchdir(fd)), Err(libc::ENOTDIR));
            assert_eq!(libc::close(fd), 0);
            assert_eq!(cvt(libc::fchdir(-1)), Err(libc::EBADF));
        }
        assert_eq!(std::env::current_dir().unwrap(), Path::new("/home/host"));
        fs::create_dir("inner").unwrap();
        let inner = fs::File::open("inner").unwrap();
        // SAFETY: it takes no pointers.
        assert_eq!(cvt(unsafe { libc::fchdir(inner.as_raw_fd()) }), Ok(0));
        let now = std::env::current_dir().unwrap();
        assert_eq!(now, Path::new("/home/host/inner"));
    });
    assert_eq!(std::env::current_dir().unwrap(), before);
}

#[test]
fn descriptors_of_the_test_have_no_path_in_a_host() {
    let machine = Machine::new("descriptors");
    let folder = fs::File::open(&machine.0).unwrap();
    let victim = fs::File::options()
        .append(true)
        .open(machine.0.join("victim"));
    let victim = victim.unwrap();
    let (number, file) = (folder.as_raw_fd(), victim.as_raw_fd());
    // SAFETY: it takes no pointers.
    let (process, thread) = (std::process::id(), unsafe { libc::gettid() });
    machine.is_left_alone(move |_| {
        let folders = [
            "/proc/self/fd".to_owned(),
            "/proc/thread-self/fd".to_owned(),
            format!("/proc/self/task/{thread}/fd"),
            format!("/proc/{process}/fd"),
            "/dev/fd".to_owned(),
        ];
        let none = |path: &str| {
            let error = |answer: c_int| assert_eq!(cvt(answer), Err(libc::ENOENT), "{path}");
            let (path, mut out) = (c(path), [0; 64]);
            let path = path.as_ptr();
            // SAFETY: the paths end with NUL, and there is room.
            unsafe {
                error(libc::open(path, libc::O_RDONLY));
                error(libc::open(path, libc::O_RDWR));
                error(libc::open(path, libc::O_WRONLY | libc::O_CREAT, 0o600));
                error(libc::access(path, libc::F_OK));
                error(libc::readlink(path, out.as_mut_ptr(), out.len()) as c_int);
                error(libc::chdir(path));
                error(made(libc::opendir(path)).map_or(-1, |()| 0));
            }
        };
        for folder in folders {
            none(&format!("{folder}/{number}"));
            none(&format!("{folder}/{number}/victim"));
            none(&format!("{folder}/./{number}//victim"));
            none(&format!("{folder}/{number}/new"));
            none(&format!("{folder}/{file}"));
            // Those of the program are the machine's, such as its output.
            assert!(fs::metadata(format!("{folder}/2")).is_ok());
        }
        none(&format!("/dev/stdin/{number}"));
        // The same from an open folder.
        let path = c(format!("{number}/victim"));
        let all = c(format!("fd/{number}/victim"));
        for (folder, path) in [(c"/proc/self/fd", &path), (c"/proc/self", &all)] {
            let flags = libc::O_RDONLY | libc::O_DIRECTORY;
            let (path, mut out) = (path.as_ptr(), [0; 64]);
            // SAFETY: the paths end with NUL, and there is room.
            unsafe {
                let dir = cvt(libc::open(folder.as_ptr(), flags)).unwrap();
                for answer in [
                    libc::openat(dir, path, libc::O_RDONLY),
                    libc::faccessat(dir, path, libc::F_OK, 0),
                    libc::readlinkat(dir, path, out.as_mut_ptr(), out.len()) as c_int,
                    libc::fstatat(dir, path, &mut std::mem::zeroed(), 0),
                ] {
                    assert_eq!(cvt(answer), Err(libc::ENOENT));
                }
                assert_eq!(libc::close(dir), 0);
            }
        }
    });
}
