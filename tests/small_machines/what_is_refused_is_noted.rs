//! What the system refuses is noted where it is seen, with its error, and told by the first runtime
//! that is heard. What is no refusal is not noted.
//!
//! Seen to fail: without the note of each of the two calls; with one file of `/proc`, or a missing
//! descriptor, as a refusal of all of it; and with a runtime that nobody hears, or a paused one,
//! that takes the words. Also with a count of what was told instead of what was noted, with a child
//! that is forgotten if there is no descriptor for it, and with a niceness of -1 that counts as an
//! error.

use std::{
    io,
    process::{Command, Stdio},
    thread,
};

use ws::{
    process::Child,
    runtime::{Builder, Clock, Reports},
};
use ws_reactor::{
    CpuSet, Facility, Inherited, ThreadId, current_cpu, note_of_proc, untold_refusals,
};

use crate::{
    net_support::skipped,
    support::{child, seccomp, work},
};

/// The soft limit of descriptors, as it was. It comes back with the drop.
struct NoDescriptor(libc::rlimit);

impl NoDescriptor {
    fn new() -> Self {
        let mut before = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the pointer is valid for a write of one `rlimit`.
        let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        let none = libc::rlimit {
            rlim_cur: 3,
            ..before
        };
        Self::set(&none);
        Self(before)
    }

    fn set(limit: &libc::rlimit) {
        // SAFETY: the pointer is valid for a read of one `rlimit`.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}

impl Drop for NoDescriptor {
    fn drop(&mut self) {
        Self::set(&self.0);
    }
}

/// Runs a test in a child, which has to end it well, and gives back what was told there.
fn ends_well(test: &str, order: &str) -> Vec<String> {
    let test = format!("what_is_refused_is_noted::{test}");
    let said = child::run(&test, order, |_| ());
    assert!(said.went_well("all"), "{said:?}");
    said.told
}

fn all_went_well() {
    work::row("all", Ok(()));
}

#[test]
fn one_file_alone_is_no_refusal_of_proc() {
    if child::order().is_none() {
        ends_well("one_file_alone_is_no_refusal_of_proc", "notes");
        return;
    }
    let own = ThreadId::current();
    // A rule about one file, and a thread that is gone.
    for error in [libc::EACCES, libc::ENOENT] {
        note_of_proc(&io::Error::from_raw_os_error(error));
    }
    {
        let _none = NoDescriptor::new();
        assert_eq!(own.is_waiting(), None);
    }
    assert_eq!(untold_refusals(), []);
    assert_eq!(own.is_waiting(), Some(false));
    all_went_well();
}

#[test]
fn each_call_is_noted_by_itself() {
    if child::order().is_none() {
        ends_well("each_call_is_noted_by_itself", "notes");
        return;
    }
    let noted = || {
        let noted = untold_refusals();
        Vec::from_iter(noted.iter().map(|refusal| refusal.facility()))
    };
    let own = ThreadId::current();
    seccomp::refuse(&[libc::SYS_clock_gettime], libc::EACCES).expect("a filter can be set");
    assert_eq!(own.cpu_time_ns(), None);
    assert_eq!(noted(), [Facility::ThreadClock]);
    if ws_reactor::allowed_cpus() < Some(2) {
        skipped("a thread that is kept off its CPU: this process has one");
    } else {
        seccomp::refuse(&[libc::SYS_sched_setaffinity], libc::EPERM).expect("a filter can be set");
        let cpu = current_cpu().expect("Linux tells");
        assert!(!own.keep_off(cpu, &mut CpuSet::default()));
        assert_eq!(noted(), [Facility::Affinity]);
    }
    all_went_well();
}

#[test]
fn it_is_told_by_one_that_is_heard() {
    const TEST: &str = "it_is_told_by_one_that_is_heard";
    let Some(order) = child::order() else {
        // A runtime with virtual time needs none, and tells nothing of the others.
        assert_eq!(ends_well(TEST, "unheard paused"), [""; 0]);
        let told = ends_well(TEST, "unheard paused heard");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("a timerfd is refused ("), "{told:?}");
        return;
    };
    seccomp::refuse(&[libc::SYS_timerfd_create], libc::EPERM).expect("a filter can be set");
    for kind in order.split(' ') {
        let builder = Builder::new().workers(1);
        let builder = match kind {
            "unheard" => builder.reports(Reports::TracingOnly),
            "paused" => builder.clock(Clock::Paused),
            _ => builder,
        };
        let runtime = builder.build().expect("it is not needed");
        // Whether somebody was told or not. One with virtual time needs no such facility.
        let refused = usize::from(kind != "paused");
        assert_eq!(runtime.metrics().facilities_refused, refused, "{kind}");
    }
    all_went_well();
}

#[test]
fn a_child_without_a_descriptor_is_reaped_in_the_end() {
    if child::order().is_none() {
        ends_well("a_child_without_a_descriptor_is_reaped_in_the_end", "cat");
        return;
    }
    let runtime = Builder::new().workers(1).build().expect("all is allowed");
    runtime.block_on(async {
        let mut cat = Command::new("cat");
        let mut cat = cat.stdin(Stdio::piped()).spawn().expect("there is one");
        let (id, input) = (cat.id(), cat.stdin.take());
        let none = NoDescriptor::new();
        Child::new(cat).expect_err("there is no descriptor for it");
        drop(none);
        drop(input);
        let is_there = || std::path::Path::new(&format!("/proc/{id}")).exists();
        while is_there() {
            let next = Command::new("true").spawn().expect("there is one");
            let mut next = Child::new(next).expect("there are descriptors");
            assert!(next.wait().await.expect("it ends").success());
        }
    });
    all_went_well();
}

#[test]
fn a_niceness_of_minus_one_is_no_error() {
    // SAFETY: the calls have no pointers.
    let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: as above.
    let set = |nice| unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } == 0;
    let on_a_thread_of_its_own = move || {
        if !set(-1) {
            skipped("a niceness of -1: this user may not have one");
            return;
        }
        let own = Inherited::of_this_thread();
        let other = thread::spawn(move || {
            assert!(set(5));
            own.apply();
            nice()
        });
        assert_eq!(other.join().expect("it ends"), -1);
    };
    thread::spawn(on_a_thread_of_its_own)
        .join()
        .expect("it ends");
}
