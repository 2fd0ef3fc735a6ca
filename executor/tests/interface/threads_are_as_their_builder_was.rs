//! L5: the threads of a runtime have the CPUs, the niceness and the signal mask of the thread that
//! built it, whichever thread started them.
//!
//! It fails when `Shared::start` in `sched/threads.rs` does not apply what was noted at the build,
//! and, for one of the three, when `Inherited::apply` in `reactor/src/inherited.rs` leaves that one
//! out.
//!
//! The niceness can be lowered by root alone; otherwise a thread keeps that of the thread that
//! started it.

#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "std changes neither niceness nor signal masks")]

use crate::common;

use std::{fs, mem, ptr, sync::Arc, thread};

use common::{Count, Gate, limited};
use ws_executor::runtime::{Builder, Handle};
use ws_reactor::{CpuSet, ThreadId, current_cpu};

/// What the system says of the calling thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    cpus: String,
    blocked: String,
    nice: String,
}

impl Own {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let field = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The state is the first field behind the name, and the third of all; the niceness is the
        // 19th.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        Self {
            cpus: field("Cpus_allowed_list:"),
            blocked: field("SigBlk:"),
            nice: fields.split(' ').nth(16).unwrap().to_owned(),
        }
    }
}

fn is_root() -> bool {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Gives the calling thread one CPU, a higher niceness and a blocked signal.
fn become_another() {
    let thread = ThreadId::current();
    let mut before = CpuSet::default();
    // It stays off.
    while current_cpu().is_some_and(|cpu| thread.keep_off(cpu, &mut before)) {}
    let nice = Own::now().nice.parse::<libc::c_int>().unwrap() + 1;
    // SAFETY: the call has no pointers; 0 is the calling thread.
    let changed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    assert_eq!(changed, 0);
    // SAFETY: a set is a plain array of bits, for which all zeroes is a value.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: the set is valid for a write.
    assert_eq!(unsafe { libc::sigaddset(&raw mut set, libc::SIGUSR2) }, 0);
    // SAFETY: the set is valid for a read, and null says that the old mask is not wanted.
    let blocked =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    assert_eq!(blocked, 0);
}

/// Three threads of the runtime at once: two for tasks and one for a call, all of them started by
/// the calling thread or one another.
fn of_three_threads(handle: &Handle) -> Vec<Own> {
    let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
    let own = || {
        let (begun, gate) = (begun.clone(), gate.clone());
        move || {
            begun.add();
            gate.pass();
            Own::now()
        }
    };
    let (first, second, call) = (own(), own(), own());
    let tasks = [
        handle.spawn(async move { first() }),
        handle.spawn(async move { second() }),
        handle.spawn_blocking(call),
    ];
    begun.wait_for(3);
    gate.open();
    let own = tasks.map(|task| common::block_on_elsewhere(task).unwrap());
    own.to_vec()
}

#[test]
fn whichever_thread_wakes_them_first() {
    limited(|| {
        let expected = Own::now();
        let runtime = Builder::new().workers(2).build().unwrap();
        let handle = runtime.handle().clone();
        let waker = thread::spawn(move || {
            become_another();
            let another = Own::now();
            (another, of_three_threads(&handle))
        });
        let (another, seen) = waker.join().unwrap();
        assert_ne!(another.blocked, expected.blocked);
        assert_ne!(another.nice, expected.nice);
        for mut own in seen {
            if !is_root() && own.nice == another.nice {
                own.nice.clone_from(&expected.nice);
            }
            assert_eq!(own, expected, "{another:?}");
        }
    });
}
