//! A filter of seccomp: some system calls of this process fail, in all of its threads.
//!
//! Written by hand, for it is six instructions: a crate would be one more dependency of the tests.

use std::io;

/// From now on each of `calls` fails with `errno`. For good: a filter cannot be taken away.
pub(crate) fn refuse(calls: &[libc::c_long], errno: i32) -> io::Result<()> {
    let load = |offset: usize| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset as u32, 0);
    let answer = |value: u32| step(libc::BPF_RET | libc::BPF_K, value, 0);
    // One architecture alone makes calls here, so its numbers need no check.
    let mut program = vec![load(std::mem::offset_of!(libc::seccomp_data, nr))];
    for &call in calls {
        // If it is another one, the next step is left out.
        let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(step(
            is,
            u32::try_from(call).expect("a number of a call"),
            1,
        ));
        program.push(answer(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()));
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("a short program"),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the call has no pointers.
    let no_more_rights = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if no_more_rights != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the filter and its program live until the call has copied them.
    let set = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const filter,
        )
    };
    match set {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!(
            "thread {thread} has another filter"
        ))),
    }
}

fn step(code: u32, k: u32, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: u16::try_from(code).expect("a code of 16 bits"),
        jt: 0,
        jf: otherwise,
        k,
    }
}
