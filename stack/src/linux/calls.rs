//! The names of the system calls in which threads wait.

/// Their numbers and names.
macro_rules! calls {
    ($($constant:ident)*) => {
        &[$((libc::$constant, stringify!($constant))),*]
    };
}

const CALLS: &[(libc::c_long, &str)] = calls! {
    SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev
    SYS_openat SYS_close SYS_fsync SYS_fdatasync SYS_sync SYS_syncfs
    SYS_ftruncate SYS_fallocate SYS_copy_file_range SYS_sendfile SYS_splice SYS_tee SYS_vmsplice
    SYS_statx SYS_newfstatat SYS_fstat SYS_getdents64 SYS_unlinkat SYS_mkdirat SYS_renameat2
    SYS_readlinkat SYS_faccessat SYS_flock SYS_fcntl SYS_ioctl SYS_mount SYS_umount2
    SYS_futex SYS_nanosleep SYS_clock_nanosleep SYS_sched_yield SYS_membarrier
    SYS_ppoll SYS_pselect6 SYS_epoll_pwait SYS_io_uring_enter SYS_io_getevents SYS_io_submit
    SYS_accept SYS_accept4 SYS_connect SYS_recvfrom SYS_recvmsg SYS_recvmmsg SYS_sendto
    SYS_sendmsg SYS_sendmmsg SYS_shutdown
    SYS_wait4 SYS_waitid SYS_kill SYS_tgkill SYS_rt_sigtimedwait SYS_rt_sigsuspend SYS_clone
    SYS_execve SYS_exit SYS_exit_group SYS_ptrace SYS_restart_syscall
    SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_msync SYS_mlock SYS_brk
    SYS_process_vm_readv SYS_getrandom
    SYS_msgrcv SYS_msgsnd SYS_semop SYS_semtimedop SYS_mq_timedreceive SYS_mq_timedsend
};

/// Those that only x86-64 has, beside newer ones.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(libc::c_long, &str)] = calls! {
    SYS_open SYS_stat SYS_lstat SYS_access SYS_poll SYS_select SYS_epoll_wait SYS_pause SYS_fork
    SYS_vfork SYS_rename SYS_unlink SYS_mkdir SYS_rmdir SYS_readlink SYS_getdents
};
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(libc::c_long, &str)] = &[];

pub(crate) fn name_of_call(number: i64) -> Option<&'static str> {
    let mut calls = CALLS.iter().chain(OLD_CALLS);
    let (_, name) = calls.find(|call| call.0 == number)?;
    name.strip_prefix("SYS_")
}
