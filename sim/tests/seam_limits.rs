//! What a host may not do: it leaves the machine's files alone, and takes only so much.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
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
fn a_host_is_in_no_control_group() {
    in_host(|| {
        for path in [
            "/proc/self/cgroup",
            "/proc/cgroups",
            "/sys/fs/cgroup",
            "/sys/fs/../fs/cgroup/cpu.max",
        ] {
            assert_eq!(error(fs::read(path)), Some(libc::ENOENT), "{path}");
            assert_eq!(error(fs::metadata(path)), Some(libc::ENOENT), "{path}");
        }
        let proc = File::open("/proc").unwrap();
        let path = c"self/cgroup".as_ptr();
        // SAFETY: the path ends with NUL.
        let opened = unsafe { libc::openat(proc.as_raw_fd(), path, libc::O_RDONLY) };
        assert_eq!(cvt(opened), Err(libc::ENOENT));
        fs::write("cgroup", "its own").unwrap();
        assert_eq!(fs::read_to_string("cgroup").unwrap(), "its own");
    });
}

/// It is this program once more, whose output is a file.
#[test]
fn standard_output_that_is_a_file_is_not_opened_again() {
    const NAME: &str = "WS_SIM_OUTPUT_IS_A_FILE";
    if std::env::var_os(NAME).is_some() {
        return in_host(|| {
            for link in ["/dev/fd/1", "/dev/stdout"] {
                let mut options = OpenOptions::new();
                let opened = options.write(true).truncate(true).open(link);
                assert_eq!(error(opened), Some(libc::EROFS));
                let opened = options.custom_flags(libc::O_APPEND).open(link);
                assert_eq!(error(opened), Some(libc::EROFS));
            }
        });
    }
    let path = std::env::temp_dir().join(format!("ws-sim-limits-{}", std::process::id()));
    fs::write(&path, "real").unwrap();
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let command = command.args([
        "standard_output_that_is_a_file_is_not_opened_again",
        "--exact",
    ]);
    let status = command.env(NAME, "1").stdout(file).status().unwrap();
    let left = fs::read_to_string(&path);
    fs::remove_file(&path).unwrap();
    let left = left.unwrap();
    assert!(status.success() && left.starts_with("real"), "{left}");
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
            for kind in [libc::S_IFIFO, libc::S_IFCHR, libc::S_IFBLK] {
                assert_eq!(cvt(libc::mknod(ptr, kind | 0o600, 0)), Err(libc::ENOSYS));
            }
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

/// Each is told by its name, on stderr.
#[test]
fn what_is_not_simulated_is_refused() {
    in_host(|| {
        // SAFETY: the calls take no pointers, or null for what they do not read.
        unsafe {
            assert_eq!(cvt(libc::inotify_init1(0)), Err(libc::ENOSYS));
            assert_eq!(
                cvt(libc::signalfd(-1, std::ptr::null(), 0)),
                Err(libc::ENOSYS)
            );
            for number in [
                libc::SYS_io_uring_setup,
                libc::SYS_signalfd4,
                libc::SYS_execve,
            ] {
                assert_eq!(cvt(libc::syscall(number, 0, 0, 0, 0)), Err(libc::ENOSYS));
            }
            let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
            assert_eq!(cvt(libc::dup2(socket, 1)), Err(libc::EBADF));
            assert_eq!(cvt(libc::close(socket)), Ok(0));
        }
    });
}

#[test]
fn descriptors_that_are_made_by_number_are_simulated() {
    in_host(|| {
        let is_simulated = |fd: libc::c_long| {
            assert!(fd >= 1 << 28, "{fd} {}", io::Error::last_os_error());
            // SAFETY: it takes no pointers.
            assert_eq!(unsafe { libc::close(fd as c_int) }, 0);
        };
        let mut both = [-1; 2];
        // SAFETY: there is room for two.
        unsafe {
            is_simulated(libc::syscall(
                libc::SYS_socket,
                libc::AF_INET,
                libc::SOCK_DGRAM,
                0,
            ));
            is_simulated(libc::syscall(libc::SYS_eventfd2, 0, 0));
            is_simulated(libc::syscall(libc::SYS_epoll_create1, 0));
            is_simulated(libc::syscall(
                libc::SYS_timerfd_create,
                libc::CLOCK_MONOTONIC,
                0,
            ));
            assert_eq!(libc::syscall(libc::SYS_pipe2, both.as_mut_ptr(), 0), 0);
        }
        both.into_iter().for_each(|fd| is_simulated(fd.into()));
    });
}

#[test]
fn calls_by_number_are_those_of_the_host() {
    in_host(|| {
        let begin = std::time::Instant::now();
        // SAFETY: each pointer is valid, and the size beside it is that of its room.
        unsafe {
            let time = [3_600_i64, 500];
            assert_eq!(libc::syscall(libc::SYS_nanosleep, time.as_ptr(), 0), 0);
            assert_eq!(begin.elapsed(), std::time::Duration::new(3_600, 500));
            let wrong = libc::syscall(libc::SYS_clock_nanosleep, 99, 0, time.as_ptr(), 0);
            assert_eq!(cvt(wrong), Err(libc::EINVAL));
            let mut now = [0_i64; 2];
            assert_eq!(
                libc::syscall(libc::SYS_gettimeofday, now.as_mut_ptr(), 0),
                0
            );
            assert_eq!(now[0], 1_893_456_000 + 3_600);

            let mut path = [0_u8; 64];
            let length = libc::syscall(libc::SYS_getcwd, path.as_mut_ptr(), path.len());
            assert_eq!(&path[..length as usize], b"/home/host\0");
            let mut set = [0_u8; 8];
            assert_eq!(
                libc::syscall(libc::SYS_sched_getaffinity, 0, 8, set.as_mut_ptr()),
                8
            );
            assert_eq!(set[1..], [0; 7], "as many CPUs as a host has workers");

            let all = libc::SOL_SOCKET;
            let socket = libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_DGRAM, 0);
            let mut name = [0_u8; 16];
            name[0] = libc::AF_INET as u8;
            assert_eq!(libc::syscall(libc::SYS_bind, socket, name.as_ptr(), 16), 0);
            let mut len = 16;
            let named = libc::syscall(
                libc::SYS_getsockname,
                socket,
                name.as_mut_ptr(),
                &raw mut len,
            );
            assert_eq!((named, len), (0, 16));
            name[4..8].copy_from_slice(&[127, 0, 0, 1]);
            assert_eq!(
                libc::syscall(libc::SYS_connect, socket, name.as_ptr(), 16),
                0
            );
            let sent = libc::syscall(libc::SYS_sendto, socket, c"abc".as_ptr(), 3, 0, 0, 0);
            assert_eq!(sent, 3);
            std::thread::sleep(std::time::Duration::from_millis(1));
            let mut bytes = [0_u8; 9];
            let wait = libc::MSG_DONTWAIT;
            let peek = wait | libc::MSG_PEEK;
            let by_name = libc::recv(socket as i32, bytes.as_mut_ptr().cast(), 9, peek);
            let by_name = cvt(by_name as libc::c_long);
            let got = libc::syscall(
                libc::SYS_recvfrom,
                socket,
                bytes.as_mut_ptr(),
                9,
                wait,
                0,
                0,
            );
            assert_eq!(cvt(got), by_name);
            let (mut kind, mut len) = (0, 4);
            let (place, len) = (&raw mut kind, &raw mut len);
            let asked = libc::syscall(libc::SYS_getsockopt, socket, all, libc::SO_TYPE, place, len);
            assert_eq!((asked, kind), (0, libc::SOCK_DGRAM));
            assert_eq!(
                cvt(libc::syscall(libc::SYS_dup3, socket, 1, 0)),
                Err(libc::EBADF)
            );
            let map = (libc::PROT_READ, libc::MAP_SHARED);
            let mapped = libc::syscall(libc::SYS_mmap, 0, 4096, map.0, map.1, socket, 0);
            assert_eq!(cvt(mapped), Err(libc::ENODEV));
            assert_eq!(libc::syscall(libc::SYS_close, socket), 0);
        }
    });
}

#[test]
fn direct_access_takes_whole_sectors_alone() {
    #[repr(align(4096))]
    struct Buffer([u8; 8192]);

    in_host(|| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = options.custom_flags(libc::O_DIRECT).open("f").unwrap();
        let mut buffer = Buffer([1; 8192]);
        let wrong = Err(libc::EINVAL);
        for (from, len, at, answer) in [
            (0, 1024, 0, Ok(1024)),
            (0, 100, 0, wrong),
            (0, 512, 3, wrong),
            (8, 512, 0, wrong),
            (512, 512, 1024, Ok(512)),
            (0, 0, 3, Ok(0)),
        ] {
            // SAFETY: the buffer is longer.
            let (written, read) = unsafe {
                let place = buffer.0.as_mut_ptr().add(from).cast::<libc::c_void>();
                (
                    libc::pwrite(file.as_raw_fd(), place, len, at),
                    libc::pread(file.as_raw_fd(), place, len, at),
                )
            };
            assert_eq!(cvt(written as i64), answer, "write {from} {len} {at}");
            assert_eq!(cvt(read as i64), answer, "read {from} {len} {at}");
        }
        // Behind the end there is nothing to read, however it is asked for.
        // SAFETY: the buffer is longer.
        let read = unsafe { libc::pread(file.as_raw_fd(), buffer.0.as_mut_ptr().cast(), 7, 1600) };
        assert_eq!(read, 0);
    });
}

#[test]
fn the_umask_is_that_of_a_program() {
    let sim = Sim::new(1);
    sim.host("host", || async {
        let mode = |path: &str| fs::metadata(path).unwrap().mode() & 0o777;
        let _ = fs::remove_dir_all("d");
        fs::write("f", "").unwrap();
        fs::create_dir("d").unwrap();
        assert_eq!((mode("f"), mode("d")), (0o644, 0o755));
        // SAFETY: it takes no pointers.
        unsafe {
            assert_eq!(libc::umask(0o1077), 0o022);
            assert_eq!(libc::umask(0o077), 0o077);
        }
        fs::remove_file("f").unwrap();
        fs::remove_dir("d").unwrap();
        fs::write("f", "").unwrap();
        fs::create_dir("d").unwrap();
        assert_eq!((mode("f"), mode("d")), (0o600, 0o700));
        fs::remove_file("f").unwrap();
        std::future::pending::<()>().await;
    });
    sim.client("client", async {
        ws::time::sleep(std::time::Duration::from_secs(2)).await
    });
    sim.after(std::time::Duration::from_secs(1), |sim| {
        sim.crash("host");
        sim.restart("host");
    });
    sim.try_run().unwrap();
}

#[test]
fn random_devices_give_what_the_seed_draws() {
    let drawn = |seed| {
        let sim = Sim::new(seed);
        let (says, said) = std::sync::mpsc::channel();
        sim.client("host", async move {
            let folder = File::open("/dev").unwrap();
            let mut bytes = Vec::new();
            for path in ["/dev/urandom", "/dev/random"] {
                let mut file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(path)
                    .unwrap();
                let mut some = [0; 16];
                file.read_exact(&mut some).unwrap();
                file.write_all(&some).unwrap();
                bytes.extend(some);
            }
            // SAFETY: the path ends with NUL, and there is room.
            unsafe {
                let fd = libc::openat(folder.as_raw_fd(), c"urandom".as_ptr(), libc::O_RDONLY);
                let mut some = [0_u8; 16];
                assert_eq!(libc::read(fd, some.as_mut_ptr().cast(), 16), 16);
                assert_eq!(libc::close(fd), 0);
                bytes.extend(some);
            }
            let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
            assert_eq!((uuid.len(), &uuid[14..15]), (37, "4"));
            assert_ne!(
                uuid,
                fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap()
            );
            says.send((bytes, uuid)).unwrap();
        });
        sim.try_run().unwrap();
        said.recv().unwrap()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}
