//! System calls that a host makes by their number, through `syscall`.
//!
//! getrandom 0.2 asks for random bytes so, and with it ring and rand 0.8. Other crates make
//! sockets, poll and read by number.
//!
//! | a call that | in a host |
//! | --- | --- |
//! | has a function of libc that the seam knows | is that function |
//! | names a file | `ENOSYS`, as in an older kernel: callers then use the function of libc |
//! | the seam refuses by its name | is refused as well: see `unsupported.rs` |
//! | does anything else | is the system's, which knows no simulated descriptor |
#![allow(unsafe_code)]

use libc::{c_int, c_long, c_uint, c_void, timespec};

use super::{cpus, descriptors, fails, unsupported};

/// Answers a call of the host that runs. None: it is the system's.
///
/// # Safety
///
/// - That of the system call.
pub(super) unsafe fn call(number: c_long, arguments: [c_long; 6]) -> Option<c_long> {
    if names_a_file(number) {
        return Some(fails(libc::ENOSYS).into());
    }
    if is_of_attributes(number) {
        return Some(fails(libc::EOPNOTSUPP).into());
    }
    if let Some((name, instead)) = unsupported::by_number(number) {
        unsupported::in_host(name, instead);
        return Some(fails(libc::ENOSYS).into());
    }
    // SAFETY: by contract.
    unsafe {
        old(number, arguments)
            .or_else(|| of_descriptors(number, arguments))
            .or_else(|| of_sockets(number, arguments))
            .or_else(|| of_the_host(number, arguments))
            .or_else(|| of_owners(number, arguments))
    }
}

/// A pointer among the arguments.
fn at<T>(argument: c_long) -> *mut T {
    std::ptr::with_exposed_provenance_mut(argument as usize)
}

/// Calls that newer systems do not have.
///
/// # Safety
///
/// - That of the system call.
#[cfg(target_arch = "x86_64")]
unsafe fn old(number: c_long, [a, b, c, d, e, _]: [c_long; 6]) -> Option<c_long> {
    let (fd, count) = (a as c_int, b as c_int);
    // SAFETY: by contract.
    let answer = unsafe {
        match number {
            libc::SYS_pipe => libc::pipe(at(a)),
            libc::SYS_eventfd => libc::eventfd(a as c_uint, 0),
            libc::SYS_epoll_create => libc::epoll_create(fd),
            libc::SYS_epoll_wait => libc::epoll_wait(fd, at(b), c as c_int, d as c_int),
            libc::SYS_poll => libc::poll(at(a), b as libc::nfds_t, c as c_int),
            libc::SYS_select => libc::select(fd, at(b), at(c), at(d), at(e)),
            libc::SYS_dup2 => libc::dup2(fd, count),
            libc::SYS_time => return Some(libc::time(at(a))),
            _ => return None,
        }
    };
    Some(answer.into())
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn old(_: c_long, _: [c_long; 6]) -> Option<c_long> {
    None
}

/// Calls that make, wait for or take any descriptor, and those of files.
///
/// # Safety
///
/// - That of the system call.
unsafe fn of_descriptors(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Option<c_long> {
    let (fd, flags, size, count) = (a as c_int, b as c_int, c as usize, c as c_int);
    let place = at::<c_void>(b);
    // SAFETY: by contract.
    let answer = unsafe {
        match number {
            libc::SYS_read => return Some(libc::read(fd, place, size) as c_long),
            libc::SYS_write => return Some(libc::write(fd, place, size) as c_long),
            libc::SYS_readv => return Some(libc::readv(fd, at(b), count) as c_long),
            libc::SYS_writev => return Some(libc::writev(fd, at(b), count) as c_long),
            libc::SYS_pread64 => return Some(libc::pread(fd, place, size, d) as c_long),
            libc::SYS_pwrite64 => return Some(libc::pwrite(fd, place, size, d) as c_long),
            libc::SYS_preadv => return Some(libc::preadv(fd, at(b), count, d) as c_long),
            libc::SYS_pwritev => return Some(libc::pwritev(fd, at(b), count, d) as c_long),
            // The fifth argument is the upper half of the place where a word has 32 bits.
            libc::SYS_preadv2 => {
                return Some(libc::preadv2(fd, at(b), count, d, f as c_int) as c_long);
            }
            libc::SYS_pwritev2 => {
                return Some(libc::pwritev2(fd, at(b), count, d, f as c_int) as c_long);
            }
            libc::SYS_lseek => return Some(libc::lseek(fd, b, count)),
            libc::SYS_sendfile => {
                return Some(libc::sendfile(fd, flags, at(c), d as usize) as c_long);
            }
            libc::SYS_copy_file_range => {
                let (to, len) = (c as c_int, e as usize);
                let copied = libc::copy_file_range(fd, at(b), to, at(d), len, f as c_uint);
                return Some(copied as c_long);
            }
            libc::SYS_mmap => {
                let (protection, flags, fd) = (c as c_int, d as c_int, e as c_int);
                return Some(libc::mmap(at(a), b as usize, protection, flags, fd, f) as c_long);
            }
            libc::SYS_pipe2 => libc::pipe2(at(a), flags),
            libc::SYS_eventfd2 => libc::eventfd(a as c_uint, flags),
            libc::SYS_epoll_create1 => libc::epoll_create1(fd),
            libc::SYS_epoll_ctl => libc::epoll_ctl(fd, flags, count, at(d)),
            libc::SYS_epoll_pwait => libc::epoll_pwait(fd, at(b), count, d as c_int, at(e)),
            #[cfg(target_env = "gnu")]
            libc::SYS_epoll_pwait2 => libc::epoll_pwait2(fd, at(b), count, at(d), at(e)),
            libc::SYS_ppoll => libc::ppoll(at(a), b as libc::nfds_t, at(c), at(d)),
            libc::SYS_pselect6 => {
                // The last is a mask with its length, or null.
                let mask = at::<*const libc::sigset_t>(f).as_ref();
                let mask = mask.map_or(std::ptr::null(), |mask| *mask);
                libc::pselect(fd, at(b), at(c), at(d), at(e), mask)
            }
            libc::SYS_timerfd_create => libc::timerfd_create(fd, flags),
            libc::SYS_timerfd_settime => libc::timerfd_settime(fd, flags, at(c), at(d)),
            libc::SYS_timerfd_gettime => libc::timerfd_gettime(fd, at(b)),
            libc::SYS_readahead => return Some(libc::readahead(fd, b, size) as c_long),
            libc::SYS_fsync => libc::fsync(fd),
            libc::SYS_fdatasync => libc::fdatasync(fd),
            libc::SYS_syncfs => libc::syncfs(fd),
            libc::SYS_sync_file_range => libc::sync_file_range(fd, b, c, d as c_uint),
            libc::SYS_ftruncate => libc::ftruncate(fd, b),
            libc::SYS_fallocate => libc::fallocate(fd, flags, c, d),
            libc::SYS_fadvise64 => match libc::posix_fadvise(fd, b, c, d as c_int) {
                0 => 0,
                error => fails(error),
            },
            libc::SYS_flock => libc::flock(fd, flags),
            libc::SYS_fstat => libc::fstat(fd, at(b)),
            libc::SYS_fstatfs => libc::fstatfs(fd, at(b)),
            libc::SYS_fchmod => libc::fchmod(fd, b as libc::mode_t),
            libc::SYS_fchown => libc::fchown(fd, b as libc::uid_t, c as libc::gid_t),
            libc::SYS_fchdir => libc::fchdir(fd),
            libc::SYS_fcntl => libc::fcntl(fd, flags, c),
            libc::SYS_ioctl => libc::ioctl(fd, b as libc::Ioctl, c),
            libc::SYS_dup => libc::dup(fd),
            libc::SYS_dup3 => libc::dup3(fd, flags, count),
            libc::SYS_close => libc::close(fd),
            libc::SYS_close_range => descriptors::close_range(a as c_uint, b as c_uint, c as c_int),
            libc::SYS_splice => {
                let (to, len) = (c as c_int, e as usize);
                return Some(libc::splice(fd, at(b), to, at(d), len, f as c_uint) as c_long);
            }
            libc::SYS_tee => return Some(libc::tee(fd, flags, size, d as c_uint) as c_long),
            libc::SYS_vmsplice => {
                return Some(libc::vmsplice(fd, at(b), size, d as c_uint) as c_long);
            }
            _ => return None,
        }
    };
    Some(answer.into())
}

/// Calls of sockets.
///
/// # Safety
///
/// - That of the system call.
unsafe fn of_sockets(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Option<c_long> {
    let (fd, x, y) = (a as c_int, b as c_int, c as c_int);
    let (size, name_len) = (c as usize, c as libc::socklen_t);
    // SAFETY: by contract.
    let answer = unsafe {
        match number {
            libc::SYS_sendto => {
                let (flags, len) = (d as c_int, f as libc::socklen_t);
                return Some(libc::sendto(fd, at(b), size, flags, at(e), len) as c_long);
            }
            libc::SYS_recvfrom => {
                return Some(libc::recvfrom(fd, at(b), size, d as c_int, at(e), at(f)) as c_long);
            }
            libc::SYS_sendmsg => return Some(libc::sendmsg(fd, at(b), y) as c_long),
            libc::SYS_recvmsg => return Some(libc::recvmsg(fd, at(b), y) as c_long),
            libc::SYS_sendmmsg => libc::sendmmsg(fd, at(b), c as c_uint, d as _),
            libc::SYS_recvmmsg => libc::recvmmsg(fd, at(b), c as c_uint, d as _, at(e)),
            libc::SYS_socket => libc::socket(fd, x, y),
            libc::SYS_socketpair => libc::socketpair(fd, x, y, at(d)),
            libc::SYS_bind => libc::bind(fd, at(b), name_len),
            libc::SYS_listen => libc::listen(fd, x),
            libc::SYS_accept => libc::accept(fd, at(b), at(c)),
            libc::SYS_accept4 => libc::accept4(fd, at(b), at(c), d as c_int),
            libc::SYS_connect => libc::connect(fd, at(b), name_len),
            libc::SYS_getsockname => libc::getsockname(fd, at(b), at(c)),
            libc::SYS_getpeername => libc::getpeername(fd, at(b), at(c)),
            libc::SYS_getsockopt => libc::getsockopt(fd, x, y, at(d), at(e)),
            libc::SYS_setsockopt => libc::setsockopt(fd, x, y, at(d), e as libc::socklen_t),
            libc::SYS_shutdown => libc::shutdown(fd, x),
            _ => return None,
        }
    };
    Some(answer.into())
}

/// Calls about the host itself: its time, random bytes, name, process and CPUs.
///
/// # Safety
///
/// - That of the system call.
unsafe fn of_the_host(number: c_long, [a, b, c, d, ..]: [c_long; 6]) -> Option<c_long> {
    let (x, y) = (a as c_int, b as c_int);
    // SAFETY: by contract.
    let answer = unsafe {
        match number {
            libc::SYS_getrandom => {
                return Some(libc::getrandom(at(a), b as usize, c as c_uint) as c_long);
            }
            libc::SYS_times => return Some(libc::times(at(a))),
            // Unlike the function, the call allocates no room.
            libc::SYS_getcwd if b == 0 => return Some(fails(libc::ERANGE).into()),
            libc::SYS_getcwd if a == 0 => return Some(fails(libc::EFAULT).into()),
            libc::SYS_getcwd => {
                let found = libc::getcwd(at(a), b as usize);
                // The system answers the length, with the NUL.
                return Some(match found.is_null() {
                    true => -1,
                    false => libc::strlen(found) as c_long + 1,
                });
            }
            libc::SYS_sched_getaffinity => {
                // The system answers how many bytes it has written.
                return Some(match libc::sched_getaffinity(x, b as usize, at(c)) {
                    0 => b,
                    failed => failed.into(),
                });
            }
            libc::SYS_clock_gettime => libc::clock_gettime(x, at(b)),
            libc::SYS_gettimeofday => libc::gettimeofday(at(a), at(b)),
            libc::SYS_getrusage => libc::getrusage(x as _, at(b)),
            libc::SYS_nanosleep => libc::nanosleep(at(a), at(b)),
            libc::SYS_clock_nanosleep => {
                match libc::clock_nanosleep(x, y, at::<timespec>(c), at(d)) {
                    0 => 0,
                    error => fails(error),
                }
            }
            libc::SYS_sched_setaffinity => libc::sched_setaffinity(x, b as usize, at(c)),
            libc::SYS_getcpu => cpus::getcpu(at(a), at(b)),
            libc::SYS_sysinfo => libc::sysinfo(at(a)),
            libc::SYS_getpid => libc::getpid(),
            libc::SYS_kill => libc::kill(x, y),
            libc::SYS_wait4 => libc::wait4(x, at(b), c as c_int, at(d)),
            libc::SYS_waitid => {
                libc::waitid(a as libc::idtype_t, b as libc::id_t, at(c), d as c_int)
            }
            libc::SYS_uname => libc::uname(at(a)),
            libc::SYS_umask => libc::umask(a as libc::mode_t) as c_int,
            libc::SYS_sync => {
                libc::sync();
                0
            }
            // The thread is that of all hosts.
            libc::SYS_exit | libc::SYS_exit_group => libc::_exit(x),
            _ => return None,
        }
    };
    Some(answer.into())
}

/// Calls about the user of the process and its limits.
///
/// # Safety
///
/// - That of the system call.
unsafe fn of_owners(number: c_long, [a, b, c, d, ..]: [c_long; 6]) -> Option<c_long> {
    /// The package `libc` does not have it for each system.
    const SETRLIMIT: c_long = if cfg!(target_arch = "x86_64") {
        160
    } else {
        164
    };

    let [x, y, z] = [a, b, c].map(|id| id as c_uint);
    // SAFETY: by contract.
    let answer = unsafe {
        match number {
            libc::SYS_setuid => libc::setuid(x),
            libc::SYS_setgid => libc::setgid(x),
            libc::SYS_setreuid => libc::setreuid(x, y),
            libc::SYS_setregid => libc::setregid(x, y),
            libc::SYS_setresuid => libc::setresuid(x, y, z),
            libc::SYS_setresgid => libc::setresgid(x, y, z),
            libc::SYS_setgroups => libc::setgroups(a as _, at(b)),
            libc::SYS_setsid => libc::setsid(),
            libc::SYS_setpgid => libc::setpgid(a as c_int, b as c_int),
            libc::SYS_prlimit64 => libc::prlimit(a as c_int, b as _, at(c), at(d)),
            SETRLIMIT => libc::setrlimit(a as _, at(b)),
            _ => return None,
        }
    };
    Some(answer.into())
}

/// Whether a call names a file. The functions of the seam do not come here with it: they make such
/// calls by [`call`], for the machine's files that a host may read.
fn names_a_file(number: c_long) -> bool {
    let is_old = match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open
        | libc::SYS_creat
        | libc::SYS_stat
        | libc::SYS_lstat
        | libc::SYS_access
        | libc::SYS_rename
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_link
        | libc::SYS_unlink
        | libc::SYS_symlink
        | libc::SYS_readlink
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_lchown
        | libc::SYS_mknod
        | libc::SYS_utime
        | libc::SYS_utimes
        | libc::SYS_futimesat => true,
        // RISC-V has `renameat2` alone.
        #[cfg(not(target_arch = "riscv64"))]
        libc::SYS_renameat => true,
        _ => false,
    };
    is_old
        || matches!(
            number,
            libc::SYS_openat
                | libc::SYS_openat2
                | libc::SYS_newfstatat
                | libc::SYS_statx
                | libc::SYS_statfs
                | libc::SYS_faccessat
                | libc::SYS_faccessat2
                | libc::SYS_renameat2
                | libc::SYS_mkdirat
                | libc::SYS_linkat
                | libc::SYS_unlinkat
                | libc::SYS_symlinkat
                | libc::SYS_readlinkat
                | libc::SYS_fchmodat
                | libc::SYS_fchownat
                | libc::SYS_mknodat
                | libc::SYS_utimensat
                | libc::SYS_truncate
                | libc::SYS_chdir
                | libc::SYS_chroot
                | libc::SYS_name_to_handle_at
        )
}

/// Whether a call is about extended attributes, which no file of a host has.
fn is_of_attributes(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_setxattr
            | libc::SYS_lsetxattr
            | libc::SYS_fsetxattr
            | libc::SYS_getxattr
            | libc::SYS_lgetxattr
            | libc::SYS_fgetxattr
            | libc::SYS_listxattr
            | libc::SYS_llistxattr
            | libc::SYS_flistxattr
            | libc::SYS_removexattr
            | libc::SYS_lremovexattr
            | libc::SYS_fremovexattr
    )
}
