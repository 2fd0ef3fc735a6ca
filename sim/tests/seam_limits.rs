//! What a host may not do: it leaves the machine's files alone, and takes only so much.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, OpenOptionsExt, chown, fchown, lchown},
        },
    },
    time::SystemTime,
};

use libc::c_int;
use ws_sim::Sim;

/// Runs `f` in a host.
fn in_host(f: impl FnOnce() + 'static) {
    let sim = Sim::new(1);
    sim.client("host", async move { f() });
    sim.try_run().unwrap();
}

fn cvt(answer: impl Into<i64>) -> Result<i64, i32> {
    match answer.into() {
        -1 => Err(io::Error::last_os_error().raw_os_error().unwrap()),
        answer => Ok(answer),
    }
}

fn error<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn devices_are_written_and_no_other_file_of_the_machine() {
    let path = format!("/dev/shm/ws-sim-{}", std::process::id());
    fs::write(&path, "real").unwrap();
    let at = path.clone();
    in_host(move || {
        fs::write("/dev/null", "x").unwrap();
        assert_eq!(error(fs::write(&at, "changed")), Some(libc::EACCES));
        assert_eq!(error(fs::read(&at)), Some(libc::EACCES));
        assert_eq!(error(fs::read_dir("/dev/shm")), Some(libc::EACCES));
        assert_eq!(error(fs::write("/dev/new", "x")), Some(libc::EROFS));
        assert_eq!(error(fs::write("/proc/self/comm", "x")), Some(libc::EROFS));
        assert_eq!(error(fs::read_dir("/proc/self/cwd")), Some(libc::EACCES));
        assert_eq!(
            error(fs::read_dir("/proc/self/root/tmp")),
            Some(libc::EACCES)
        );
        let proc = File::open("/proc").unwrap();
        for path in ["self/cwd", "../tmp"] {
            let path = CString::new(path).unwrap();
            let flags = libc::O_RDONLY | libc::O_DIRECTORY;
            // SAFETY: the path ends with NUL.
            let opened = unsafe { libc::openat(proc.as_raw_fd(), path.as_ptr(), flags) };
            assert_eq!(cvt(opened), Err(libc::EACCES));
        }
    });
    let left = fs::read_to_string(&path);
    fs::remove_file(&path).unwrap();
    assert_eq!(left.unwrap(), "real");
}

#[test]
fn standard_output_that_is_a_file_is_not_opened_again() {
    let path = std::env::temp_dir().join(format!("ws-sim-limits-{}", std::process::id()));
    fs::write(&path, "real").unwrap();
    let file = File::open(&path).unwrap();
    let link = format!("/dev/fd/{}", file.as_raw_fd());
    in_host(move || {
        let mut options = OpenOptions::new();
        let opened = options.write(true).truncate(true).open(&link);
        assert_eq!(error(opened), Some(libc::EROFS));
        let opened = options.custom_flags(libc::O_APPEND).open(&link);
        assert_eq!(error(opened), Some(libc::EROFS));
    });
    let left = fs::read_to_string(&path);
    fs::remove_file(&path).unwrap();
    assert_eq!(left.unwrap(), "real");
}

#[test]
fn owners_have_no_effect_and_pipes_are_refused() {
    let path = std::env::temp_dir().join(format!("ws-sim-owners-{}", std::process::id()));
    fs::write(&path, "real").unwrap();
    let before = fs::metadata(&path).unwrap();
    let at = path.clone();
    in_host(move || {
        let name = CString::new(at.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with NUL.
        let call = |number, a: i64, b: i64| unsafe { libc::syscall(number, a, b, 0, 0) };
        assert_eq!(error(chown(&at, Some(1), None)), Some(libc::ENOENT));
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let file = File::create(&at).unwrap();
        for done in [
            chown(&at, Some(1), None),
            lchown(&at, None, Some(1)),
            fchown(&file, None, None),
        ] {
            done.unwrap();
        }
        assert_eq!(error(chown("/etc/passwd", None, None)), Some(libc::EROFS));
        let real = File::open("/etc/passwd").unwrap();
        assert_eq!(error(fchown(&real, None, None)), Some(libc::EROFS));
        assert_eq!(
            error(real.set_modified(SystemTime::UNIX_EPOCH)),
            Some(libc::EROFS)
        );
        assert_eq!(
            error(real.set_permissions(real.metadata().unwrap().permissions())),
            Some(libc::EROFS)
        );
        let ptr = name.as_ptr();
        // SAFETY: the path ends with NUL, and the value has a byte.
        unsafe {
            assert_eq!(cvt(libc::mkfifo(ptr, 0o600)), Err(libc::ENOSYS));
            assert_eq!(
                cvt(libc::mknod(ptr, libc::S_IFREG | 0o600, 0)),
                Err(libc::ENOSYS)
            );
            assert_eq!(cvt(libc::chroot(ptr)), Err(libc::ENOSYS));
            let set = libc::setxattr(ptr, c"user.x".as_ptr(), c"x".as_ptr().cast(), 1, 0);
            assert_eq!(cvt(set), Err(libc::EOPNOTSUPP));
        }
        // Where it would be the machine's file.
        let ptr = ptr.addr() as i64;
        let here = i64::from(libc::AT_FDCWD);
        assert_eq!(cvt(call(libc::SYS_openat, here, ptr)), Err(libc::ENOSYS));
        assert_eq!(cvt(call(libc::SYS_unlinkat, here, ptr)), Err(libc::ENOSYS));
        assert_eq!(cvt(call(libc::SYS_truncate, ptr, 0)), Err(libc::ENOSYS));
    });
    let after = fs::metadata(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(
        (after.uid(), after.gid(), after.len()),
        (before.uid(), before.gid(), 4)
    );
}

// As ext4. A tmpfs allows it.
#[test]
fn a_folder_that_was_removed_takes_no_temporary_file() {
    in_host(|| {
        fs::create_dir("d").unwrap();
        let folder = File::open("d").unwrap();
        fs::remove_dir("d").unwrap();
        let flags = libc::O_TMPFILE | libc::O_RDWR;
        // SAFETY: the path ends with NUL.
        let made = unsafe { libc::openat(folder.as_raw_fd(), c".".as_ptr(), flags, 0o600) };
        assert_eq!(cvt(made), Err(libc::EPERM));
    });
}

#[test]
fn a_host_has_so_many_descriptors() {
    in_host(|| {
        let file = File::create("f").unwrap();
        // SAFETY: they take no pointers, and nobody else has the numbers.
        unsafe {
            let first = libc::dup(file.as_raw_fd());
            let mut last = first;
            let failed = loop {
                match cvt(libc::dup(file.as_raw_fd())) {
                    Ok(fd) => last = fd as c_int,
                    Err(error) => break error,
                }
            };
            assert_eq!(failed, libc::EMFILE);
            assert_eq!(error(File::open("f")), Some(libc::EMFILE));
            assert_eq!(
                error(std::net::UdpSocket::bind("0.0.0.0:7")),
                Some(libc::EMFILE)
            );
            assert!(last - first < 1 << 20);
            assert_eq!(libc::close(last), 0);
        }
        File::open("f").unwrap();
    });
}

#[test]
fn a_reservation_takes_no_more_than_a_gibibyte() {
    in_host(|| {
        let file = File::create("f").unwrap();
        // SAFETY: it takes no pointers.
        let reserve = |at, len| cvt(unsafe { libc::fallocate(file.as_raw_fd(), 0, at, len) });
        assert_eq!(reserve(0, 1 << 43), Err(libc::ENOSPC));
        assert_eq!(reserve(1 << 40, 1 << 20), Ok(0));
        assert_eq!(reserve(0, 1 << 30), Err(libc::ENOSPC));
    });
}

#[test]
fn a_bit_that_rots_in_a_hole_takes_a_page() {
    let sim = Sim::new(1);
    let disk = std::rc::Rc::new(std::cell::OnceCell::new());
    let own = disk.clone();
    sim.client("host", async move {
        let file = File::create("f").unwrap();
        file.set_len(1 << 20).unwrap();
        let disk: &ws_sim::Disk = own.get().unwrap();
        disk.rot("f").unwrap();
        assert_eq!(
            fs::read("f")
                .unwrap()
                .iter()
                .filter(|byte| **byte != 0)
                .count(),
            1
        );
        file.set_len(0).unwrap();
    });
    assert!(disk.set(sim.disk("host")).is_ok());
    sim.try_run().unwrap();
}
