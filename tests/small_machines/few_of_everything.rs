//! One CPU, little memory, a small quota, few threads and descriptors, no `/proc`.
//!
//! Seen to fail: with refusals that are never told or told again, without the advice in the
//! error of the build (`runtime/error.rs`), and with a stall that counts as a wait for a core where
//! the system does not tell (`sched/stall.rs`).

use std::{fs, io, path::PathBuf, sync::mpsc, time::Duration};

use ws::runtime::{Builder, StallKind};

use crate::{
    net_support::skipped,
    support::{before_start, child, seccomp, work},
};

/// Sets a limit of this process, for what it starts as well.
fn limit(what: libc::__rlimit_resource_t, to: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: to,
        rlim_max: to,
    };
    // SAFETY: the pointer is valid for the read of one `rlimit`.
    match unsafe { libc::setrlimit(what, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn one_cpu() -> io::Result<()> {
    // SAFETY: a set is a plain array of bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for a write of the size that goes with it.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let all = 0..8 * size_of_val(&set);
    // SAFETY: it is a bit of the set.
    let mut allowed = all.filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) });
    let first = allowed.next().ok_or(io::ErrorKind::NotFound)?;
    // SAFETY: as above.
    unsafe { libc::CPU_ZERO(&mut set) };
    // SAFETY: as above.
    unsafe { libc::CPU_SET(first, &mut set) };
    // SAFETY: the pointer is valid for a read of the size that goes with it.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The child's half of most tests: all of the work, and the number of workers as a line.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn work_with_default_workers() {
    let builder = Builder::new();
    match builder.clone().build() {
        Ok(runtime) => {
            println!("row workers {}: ok", runtime.metrics().workers);
            work::in_runtime(runtime);
        }
        Err(_) => _ = work::all(&builder),
    }
}

#[test]
fn one_cpu_is_enough() {
    const TEST: &str = "few_of_everything::one_cpu_is_enough";
    if child::order().is_some() {
        return work_with_default_workers();
    }
    let said = child::run(TEST, "", |command| before_start(command, one_cpu));
    assert!(said.failed.is_empty(), "{said:?}");
    assert!(said.went_well("workers 1"), "{said:?}");
    // On a slow machine some task is long.
    let mut told = said.told.iter();
    assert!(
        told.all(|line| line.contains(" on its thread for ")),
        "{said:?}"
    );
}

/// 64 MiB of address space, stacks and the program itself included, and one CPU.
#[test]
fn in_64_mib_it_works() {
    const TEST: &str = "few_of_everything::in_64_mib_it_works";
    if child::order().is_some() {
        return work_with_default_workers();
    }
    let small = || one_cpu().and_then(|()| limit(libc::RLIMIT_AS, 64 << 20));
    let said = child::run(TEST, "", |command| before_start(command, small));
    assert!(said.failed.is_empty(), "{said:?}");
}

/// A group of the old hierarchy of cgroups, which goes with its value.
struct Group(PathBuf);

impl Group {
    /// So many microseconds of each tenth of a second. None if groups cannot be made here.
    fn with_quota(microseconds: u32) -> Option<Self> {
        let name = format!("ws-test-{}-{microseconds}", std::process::id());
        let path = PathBuf::from("/sys/fs/cgroup/cpu").join(name);
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        fs::write(group.0.join("cpu.cfs_quota_us"), microseconds.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that is left over has no process, and harms nobody.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A quota is rounded up.
#[test]
fn a_fifth_of_a_cpu_is_one_worker() {
    const TEST: &str = "few_of_everything::a_fifth_of_a_cpu_is_one_worker";
    if let Some(group) = child::order() {
        join_group(group);
        return work_with_default_workers();
    }
    let Some(said) = in_a_group(TEST, 20_000) else {
        return;
    };
    assert!(said.went_well("workers 1"), "{said:?}");
}

/// The group is seen by all that is read from here on, and not by the loader.
fn join_group(group: String) {
    fs::write(PathBuf::from(group).join("cgroup.procs"), "0").expect("it may join the group");
}

/// Runs a test in a child that is told of a group with that quota. None: it is skipped.
fn in_a_group(test: &str, microseconds: u32) -> Option<child::Said> {
    let Some(group) = Group::with_quota(microseconds) else {
        skipped("a cgroup with a quota: this user may not make one, or they are of version 2");
        return None;
    };
    let said = child::run(test, &group.0.to_string_lossy(), |_| ());
    assert!(said.failed.is_empty(), "{said:?}");
    Some(said)
}

/// Also where the system does not tell which CPUs there are. Fails if std counts then: it rounds
/// down.
#[test]
fn a_quota_holds_without_a_mask() {
    const TEST: &str = "few_of_everything::a_quota_holds_without_a_mask";
    if let Some(group) = child::order() {
        join_group(group);
        let calls = [libc::SYS_sched_getaffinity];
        seccomp::refuse(&calls, libc::EPERM).expect("a filter can be set");
        return work_with_default_workers();
    }
    // SAFETY: a number goes in, and an error is -1.
    if unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } < 2 {
        skipped("a quota of one and a half CPUs: this machine has one CPU");
        return;
    }
    let Some(said) = in_a_group(TEST, 150_000) else {
        return;
    };
    assert!(said.went_well("workers 2"), "{said:?}");
}

/// With each limit of descriptors there is a runtime that works, or an error that names the limit.
/// Four descriptors are enough for one that works.
#[test]
fn too_few_descriptors_are_an_error_that_says_so() {
    const TEST: &str = "few_of_everything::too_few_descriptors_are_an_error_that_says_so";
    if let Some(order) = child::order() {
        let descriptors = order.parse().expect("a number");
        limit(libc::RLIMIT_NOFILE, descriptors).expect("a limit can be lowered");
        return match Builder::new().workers(1).build() {
            Ok(runtime) => {
                let sum = runtime.block_on(async { ws::spawn(async { 5 }).await });
                assert_eq!(sum.expect("it runs"), 5);
                work::row("build", Ok(()));
            }
            Err(error) => _ = work::row("build", Err(io::Error::other(work::whole(&error)))),
        };
    }
    let failed: Vec<_> = (3..=10)
        .map(|descriptors| child::run(TEST, &descriptors.to_string(), |_| ()).failed)
        .collect();
    let is_enough = |row: &Vec<String>| row.is_empty();
    let enough = failed.iter().position(is_enough).expect("ten are enough");
    assert_eq!(enough, 4, "a runtime needs four descriptors: {failed:?}");
    assert!(failed[enough..].iter().all(is_enough), "{failed:?}");
    for row in &failed[..enough] {
        assert!(row[0].contains("RLIMIT_NOFILE"), "{failed:?}");
    }
}

/// A file system without files lies over `/proc`, in a name space of this child alone.
fn hide_proc() -> io::Result<()> {
    let done = |result: i32| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the call takes no pointers.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let (root, none) = (c"/".as_ptr(), std::ptr::null());
    // SAFETY: strings that end with a zero, or null.
    done(unsafe { libc::mount(none, root, none, private, none.cast()) })?;
    let (kind, proc) = (c"tmpfs".as_ptr(), c"/proc".as_ptr());
    // SAFETY: the same.
    done(unsafe { libc::mount(kind, proc, kind, 0, none.cast()) })
}

#[test]
fn without_proc_it_works_and_says_so() {
    const TEST: &str = "few_of_everything::without_proc_it_works_and_says_so";
    if child::order().is_some() {
        assert!(!fs::exists("/proc/self").expect("it can be asked for"));
        return work_with_default_workers();
    }
    // SAFETY: the call has no arguments.
    if unsafe { libc::geteuid() } != 0 {
        skipped("a process without /proc: only root can take it away");
        return;
    }
    let said = child::run(TEST, "", |command| before_start(command, hide_proc));
    assert!(said.failed.is_empty(), "{said:?}");
    let told: Vec<_> = said
        .told
        .iter()
        .filter(|line| line.contains("/proc"))
        .collect();
    assert_eq!(told.len(), 1, "{said:?}");
    assert!(told[0].contains("quota"), "{said:?}");
}

/// All stalls are of one kind where the system does not tell, and say so.
#[test]
fn without_proc_a_stall_is_of_the_kind_for_what_is_not_known() {
    const TEST: &str =
        "few_of_everything::without_proc_a_stall_is_of_the_kind_for_what_is_not_known";
    if child::order().is_some() {
        let (tell, told) = mpsc::channel();
        let builder = Builder::new()
            .workers(2)
            .stall_threshold(Duration::from_millis(20))
            .on_stall(move |stall| _ = tell.send(stall.clone()));
        let runtime = builder.build().expect("`/proc` is not needed");
        // It blocks until it is reported.
        let task = runtime.spawn(async move { told.recv() });
        let stall = runtime.block_on(task).expect("it ends");
        let stall = stall.expect("the hook has the other end");
        let used = stall.cpu_time.expect("the clock of a thread needs no file");
        assert!(used < stall.running_for / 4, "{stall}");
        assert_eq!(stall.kind, StallKind::Computing, "{stall}");
        work::row("stall", Ok(()));
        return;
    }
    // SAFETY: the call has no arguments.
    if unsafe { libc::geteuid() } != 0 {
        skipped("a process without /proc: only root can take it away");
        return;
    }
    let said = child::run(TEST, "", |command| before_start(command, hide_proc));
    assert!(said.went_well("stall"), "{said:?}");
}
