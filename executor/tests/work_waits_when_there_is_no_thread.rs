//! L5: at the cap of `max_threads`, or when the system refuses a thread, nothing is lost and
//! nothing hangs that could go on: the work waits for the threads that there are, it is reported,
//! and once a thread can be had it is done. A thread that waits in `block_on` does it itself if the
//! runtime could start no thread at all.
//!
//! It fails, by a hang, when `refused` in `permit/env.rs` keeps the permit of a refused thread,
//! when the monitor parks although work is queued, and when nobody stands in for the threads that
//! are missing (`must_stand_in` in `sched/wait.rs`). And, as root, when the runtime says more than
//! once that there is no thread for the monitor.
//!
//! And when the runtime has no keeper (`permit/keeper.rs`): a task that a thread from outside
//! spawns while the system refuses threads waits for ever then. Exactly one thread must be enough.
//!
//! And when the error of the build does not say what to do (`advice` in `runtime/error.rs`).
//!
//! The limits are the process's, so each scenario runs in a child: under `RLIMIT_AS`, which refuses
//! a stack of 1 GiB, and, if this is root, which no limit on processes binds, under `RLIMIT_NPROC`
//! with a user of its own.

#![expect(
    unsafe_code,
    reason = "a limit on threads that changes while the process runs"
)]

mod common;

use std::{
    env, fs,
    future::{Future, poll_fn},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    pin::pin,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use common::{Count, Gate, limited, listen_to_log, logged, pass_looks};
use futures::channel::oneshot;
use ws_executor::{
    runtime::{Builder, Handle, Runtime, Sysmon},
    task::{self, JoinHandle},
};

/// Tells the child that it is one.
const CHILD: &str = "WS_TEST_NO_THREAD";
/// The child can have no thread at all.
const NONE: &str = "none";
/// It can have one or a few.
const FEW: &str = "few";

common::with_workers! {
    /// As many tasks are stuck as there may be threads; what comes then waits, and is done in the
    /// end.
    fn at_the_cap(workers: usize) {
        listen_to_log();
        let most = workers + 2;
        let runtime = Builder::new().workers(workers).max_threads(most).build().unwrap();
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let stuck: Vec<_> = (0..most).map(|_| {
            let (begun, gate) = (begun.clone(), gate.clone());
            runtime.spawn(async move {
                begun.add();
                gate.pass();
            })
        }).collect();
        begun.wait_for(most);
        let ran = Arc::new(AtomicUsize::new(0));
        let mut waiting: Vec<_> = (0..50).map(|_| {
            let ran = ran.clone();
            runtime.spawn(async move {
                task::yield_now().await;
                ran.fetch_add(1, SeqCst);
            })
        }).collect();
        waiting.push(runtime.handle().spawn_blocking(|| ()));
        // The monitor takes a permit for them, and finds that there may be no thread.
        let is_refused = || runtime.metrics().threads_refused > 0;
        while !is_refused() || logged(&["WARN", "Builder::max_threads"]).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(ran.load(SeqCst), 0);
        assert!(runtime.handle().metrics().threads <= most);
        // A thread of the user's own is none of the runtime's, and goes on.
        assert_eq!(runtime.block_on(async { ws_executor::spawn(async { 5 }).await }).unwrap(), 5);
        // What it calls is for all threads. These cannot come, so it does that itself.
        runtime.block_on(async {
            let calls: Vec<_> = (0..20).map(|n| ws_executor::spawn_blocking(move || n)).collect();
            for (n, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.unwrap(), n);
            }
        });
        gate.open();
        for task in stuck.into_iter().chain(waiting) {
            runtime.block_on(task).unwrap();
        }
        assert_eq!(ran.load(SeqCst), 50);
        assert!(runtime.handle().metrics().threads <= most);
    }
}

/// At the cap, with all threads stuck, a thread in `block_on` loses what it has spawned: its root
/// does not come back, and the monitor gives it to other threads, but none can be had. The thread
/// does it itself then.
#[test]
fn what_the_monitor_takes_from_a_block_on_comes_back() {
    limited(|| {
        let runtime = Builder::new().workers(1).max_threads(2).build().unwrap();
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let stuck: Vec<_> = (0..2)
            .map(|_| {
                let (begun, gate) = (begun.clone(), gate.clone());
                runtime.spawn(async move {
                    begun.add();
                    gate.pass();
                })
            })
            .collect();
        begun.wait_for(2);
        // One that waits: for it the monitor takes the permit of whoever is stuck, also of the
        // last.
        let waiting = runtime.spawn(async {});
        let metrics = || runtime.handle().metrics();
        let until = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                std::thread::yield_now();
            }
        };
        until(&|| metrics().free_permits == 1);
        let child = async {
            let child = ws_executor::spawn(async { 5 });
            until(&|| metrics().global_queue == 2);
            child.await
        };
        assert_eq!(runtime.block_on(child).unwrap(), 5);
        gate.open();
        for task in stuck.into_iter().chain([waiting]) {
            runtime.block_on(task).unwrap();
        }
    });
}

/// All threads of a runtime with `workers + 2` of them are stuck until the gate opens, and a permit
/// is free.
fn all_stuck(workers: usize, announced: bool) -> (Runtime, Arc<Gate>, Vec<JoinHandle<()>>) {
    let most = workers + 2;
    // A thread that announces its block gives its permit up by itself; from the others the monitor
    // takes it.
    let runtime = Builder::new()
        .workers(workers)
        .max_threads(most)
        .sysmon(if announced { Sysmon::Off } else { Sysmon::On })
        .build()
        .unwrap();
    let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
    let mut tasks: Vec<_> = (0..most)
        .map(|_| {
            let (begun, gate) = (begun.clone(), gate.clone());
            runtime.spawn(async move {
                let stuck = || {
                    begun.add();
                    gate.pass();
                };
                if announced {
                    ws_executor::block_in_place(stuck);
                } else {
                    stuck();
                }
            })
        })
        .collect();
    begun.wait_for(most);
    if !announced {
        // One that waits: for it the monitor takes the permit of whoever is stuck, also of the
        // last.
        tasks.push(runtime.spawn(async {}));
    }
    while runtime.handle().metrics().free_permits == 0 {
        std::thread::yield_now();
    }
    (runtime, gate, tasks)
}

common::with_workers! {
    /// At the cap, the child of a `block_on` is woken by a foreign thread, and so goes to the queue
    /// of all. All of them are stuck, and wait for that child.
    fn a_child_that_a_foreign_thread_wakes_is_run_at_the_cap(workers: usize) {
        for announced in [true, false] {
            let (runtime, gate, tasks) = all_stuck(workers, announced);
            let (wake, woken) = oneshot::channel::<()>();
            let polled = Arc::new(Count::new());
            let foreign = {
                let polled = polled.clone();
                std::thread::spawn(move || {
                    polled.wait_for(1);
                    wake.send(()).unwrap();
                })
            };
            runtime.block_on(async {
                let opens = async move {
                    let mut woken = pin!(woken);
                    poll_fn(|cx| {
                        let polled_now = woken.as_mut().poll(cx);
                        polled.add();
                        polled_now
                    }).await.unwrap();
                    gate.open();
                };
                ws_executor::spawn(opens).await.unwrap();
            });
            foreign.join().unwrap();
            for task in tasks {
                runtime.block_on(task).unwrap();
            }
        }
    }

    /// One that has spawned nothing was promised its root, and takes nothing of others.
    fn one_that_spawned_nothing_takes_no_strangers_at_the_cap(workers: usize) {
        let (runtime, gate, tasks) = all_stuck(workers, true);
        let stranger = runtime.spawn(async { std::thread::current().id() });
        let (wake, woken) = oneshot::channel::<()>();
        let waker = std::thread::spawn({
            let handle = runtime.handle().clone();
            move || {
                // It waits, and has been asked whether it stands in.
                while handle.metrics().processors.len() <= workers + 2 {
                    std::thread::yield_now();
                }
                wake.send(()).unwrap();
            }
        });
        runtime.block_on(woken).unwrap();
        waker.join().unwrap();
        gate.open();
        assert_ne!(runtime.block_on(stranger).unwrap(), std::thread::current().id());
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
    }
}

/// Everything that a program does, from a thread in `block_on`.
fn everything(runtime: &Runtime) {
    let ran = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let ran = ran.clone();
            runtime.spawn(async move {
                let child = ws_executor::spawn(task::yield_now());
                ws_executor::time::sleep(Duration::from_millis(1)).await;
                child.await.unwrap();
                let announced = ran.clone();
                ws_executor::block_in_place(move || announced.fetch_add(1, SeqCst));
            })
        })
        .collect();
    let jobs: Vec<_> = (0..20)
        .map(|_| {
            let ran = ran.clone();
            runtime.handle().spawn_blocking(move || {
                ran.fetch_add(1, SeqCst);
            })
        })
        .collect();
    for task in tasks.into_iter().chain(jobs) {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(ran.load(SeqCst), 40);
}

/// In the child, where few threads or none can be had.
fn few_threads(stack_size: Option<usize>) {
    listen_to_log();
    for workers in [1, 2, 8] {
        for sysmon in [Sysmon::On, Sysmon::Off] {
            let mut builder = Builder::new().workers(workers).sysmon(sysmon);
            if let Some(bytes) = stack_size {
                builder = builder.stack_size(bytes);
            }
            let built = builder.build();
            if env::var(CHILD).unwrap() == NONE {
                let error = built.map(drop).unwrap_err();
                let words = error.to_string();
                assert!(
                    words.starts_with("the system refused a thread: "),
                    "{words}"
                );
                assert!(
                    words.contains("RLIMIT_NPROC"),
                    "it says what to do: {words}"
                );
                assert_eq!(error.knob_name(), None);
                continue;
            }
            let runtime = built.unwrap();
            for _ in 0..10 {
                everything(&runtime);
            }
            // With two threads to spare a quick machine may need no third for a while.
            while runtime.handle().metrics().threads_refused == 0 {
                everything(&runtime);
            }
            let metrics = runtime.handle().metrics();
            assert!(metrics.free_permits <= workers, "{metrics:?}");
            drop(runtime);
        }
    }
    let what_to_do = "raise the limit of threads (`ulimit -u`";
    let refused = logged(&["WARN", "no thread could be started", what_to_do]);
    assert_eq!(refused.is_empty(), env::var(CHILD).unwrap() == NONE);
}

/// Runs this test in a child, under the limit that the shell sets. Gives back its stderr.
fn in_a_child(test: &str, limit: &str, threads: &str, user: Option<u32>) -> String {
    // Copied and started one at a time: a child that another test starts meanwhile would inherit
    // the descriptor through which the copy is written, and a file that is open for writing cannot
    // be run.
    static STARTING: Mutex<()> = Mutex::new(());
    let mut program = env::current_exe().unwrap();
    let mut copied = None;
    let starting = STARTING.lock().unwrap();
    if let Some(user) = user {
        // Where that user may go.
        let copy = env::temp_dir().join(format!("ws-no-thread-{user}-{}", std::process::id()));
        fs::copy(&program, &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        program = copy.clone();
        copied = Some(common::OnDrop(move || fs::remove_file(&copy).unwrap()));
    }
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{limit} && exec \"$0\" \"$@\"")])
        .arg(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .current_dir("/")
        .env(CHILD, threads);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(starting);
    let output = child.wait_with_output().unwrap();
    drop(copied);
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{limit}: {}\n{said}\n{complained}",
        output.status
    );
    assert!(said.contains("1 passed"), "{said}");
    complained.into_owned()
}

fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// No stack of 1 GiB at all, one, and two.
#[test]
fn when_the_address_space_is_full() {
    if is_child() {
        return few_threads(Some(1 << 30));
    }
    limited(|| {
        for (kilobytes, threads) in [(1_000_000, NONE), (2_000_000, FEW), (3_000_000, FEW)] {
            let limit = format!("ulimit -v {kilobytes}");
            in_a_child("when_the_address_space_is_full", &limit, threads, None);
        }
    });
}

/// A new limit on the threads of this user. Those that there are stay.
fn limit_threads(to: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is valid for the write of one `rlimit`.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) };
    assert_eq!(read, 0);
    limit.rlim_cur = to.min(limit.rlim_max);
    // SAFETY: the pointer is valid for the read of one `rlimit`.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) };
    assert_eq!(set, 0);
}

/// From now on the system refuses every thread.
fn refuse_threads() {
    limit_threads(1);
}

/// Threads can be had again.
fn allow_threads() {
    limit_threads(u64::MAX);
}

/// So many threads of this process exist.
fn threads() -> u64 {
    fs::read_dir("/proc/self/task").unwrap().count() as u64
}

/// Runtimes with and without the monitor.
fn runtimes() -> impl Iterator<Item = Runtime> {
    [1, 2].into_iter().flat_map(|workers| {
        [Sysmon::On, Sysmon::Off].map(|sysmon| {
            let builder = Builder::new().workers(workers).sysmon(sysmon);
            builder.shutdown_grace(common::GRACE).build().unwrap()
        })
    })
}

/// Runs a scenario in a child of a user who has no other threads.
fn as_another_user(test: &str, scenario: fn()) {
    as_another_user_who_reads(test, &[], scenario);
}

/// The same. A line of the child's stderr has these words.
fn as_another_user_who_reads(test: &str, words: &'static [&str], scenario: fn()) {
    if is_child() {
        return limited(scenario);
    }
    let test = test.to_owned();
    limited(move || {
        if !is_root() {
            common::skipped("a limit on threads: only root can take a user of its own");
            return;
        }
        static USERS: AtomicUsize = AtomicUsize::new(0);
        let user = 300_000 + 10 * (std::process::id() % 10_000);
        let user = user + USERS.fetch_add(1, SeqCst) as u32;
        let complained = in_a_child(&test, "true", FEW, Some(user));
        let has_them = |line: &str| words.iter().all(|words| line.contains(words));
        let is_told = words.is_empty() || complained.lines().any(has_them);
        assert!(is_told, "{complained}");
    });
}

/// A thread of others spawns while the system refuses every thread, and goes to sleep.
#[test]
fn when_the_first_thread_is_refused() {
    as_another_user("when_the_first_thread_is_refused", || {
        for runtime in runtimes() {
            refuse_threads();
            let task = runtime.spawn(async {
                ws_executor::time::sleep(Duration::from_millis(1)).await;
                ws_executor::spawn(async { 5 }).await.unwrap()
            });
            let call = runtime.handle().spawn_blocking(|| 6);
            allow_threads();
            assert_eq!(common::block_on_elsewhere(task).unwrap(), 5);
            assert_eq!(common::block_on_elsewhere(call).unwrap(), 6);
        }
    });
}

/// The only thread of the runtime waits for a task for which the system refuses one. It need not
/// refuse it for ever.
#[test]
fn when_the_only_thread_waits_for_one_that_is_refused() {
    as_another_user("when_the_only_thread_waits_for_one_that_is_refused", || {
        for runtime in runtimes() {
            let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
            let stuck = runtime.spawn({
                let (begun, gate) = (begun.clone(), gate.clone());
                async move {
                    ws_executor::block_in_place(|| {
                        begun.add();
                        gate.pass();
                    });
                }
            });
            begun.wait_for(1);
            refuse_threads();
            let opens = runtime.spawn(async move { gate.open() });
            while runtime.metrics().threads_refused == 0 {
                std::thread::yield_now();
            }
            allow_threads();
            common::block_on_elsewhere(opens).unwrap();
            common::block_on_elsewhere(stuck).unwrap();
        }
    });
}

/// The same where the thread sleeps in the runtime: in a `block_on` of its task.
#[test]
fn when_the_only_thread_sleeps_in_a_block_on() {
    as_another_user("when_the_only_thread_sleeps_in_a_block_on", || {
        for runtime in runtimes() {
            refuse_threads();
            let task = runtime.spawn(async {
                let child = async { ws_executor::spawn(async { 5 }).await.unwrap() };
                Handle::current().block_on(child)
            });
            // The first try is for the task, and later ones are for its child.
            while runtime.metrics().threads_refused < 3 {
                std::thread::yield_now();
            }
            allow_threads();
            assert_eq!(common::block_on_elsewhere(task).unwrap(), 5);
        }
    });
}

/// One thread can be had and no other. A monitor that takes it does the work with it, and there is
/// a monitor again as soon as there can be one.
#[test]
fn when_there_is_exactly_one_thread() {
    let words = &[
        "ws: no thread for the monitor: stuck tasks hold up others: ",
        "raise the limit of threads (`ulimit -u`",
    ];
    as_another_user_who_reads("when_there_is_exactly_one_thread", words, || {
        for workers in [1, 2] {
            for sysmon in [Sysmon::On, Sysmon::Off] {
                limit_threads(threads() + 1);
                let builder = Builder::new().workers(workers).sysmon(sysmon);
                let runtime = builder.shutdown_grace(common::GRACE).build().unwrap();
                // In here the monitor is wanted first, and then a worker.
                let sum = async { ws_executor::spawn(async { 5 }).await.unwrap() };
                assert_eq!(runtime.block_on(sum), 5);
                for _ in 0..3 {
                    let task = runtime.spawn(async {
                        ws_executor::time::sleep(Duration::from_millis(1)).await;
                        6
                    });
                    assert_eq!(common::block_on_elsewhere(task).unwrap(), 6);
                }
                allow_threads();
                let metrics = || runtime.handle().metrics();
                let looks = metrics().monitor_looks;
                // Its worker goes to sleep now and then, and nothing else happens.
                while sysmon == Sysmon::On && metrics().monitor_looks == looks {
                    let task = runtime.spawn(async {
                        ws_executor::time::sleep(Duration::from_millis(1)).await;
                    });
                    common::block_on_elsewhere(task).unwrap();
                }
            }
        }
    });
}

/// All blocks of 1 GiB that can be had.
fn fill() -> Vec<Vec<u8>> {
    let block = || {
        let mut block = Vec::new();
        block.try_reserve_exact(1 << 30).ok().map(|()| block)
    };
    std::iter::from_fn(block).collect()
}

/// Nobody waits in `block_on`, and all threads are stuck, so the monitor alone can try again.
fn until_there_is_room() {
    let builder = Builder::new().workers(2).stack_size(1 << 30);
    let runtime = builder.build().unwrap();
    let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
    let stuck = runtime.spawn({
        let (begun, gate) = (begun.clone(), gate.clone());
        async move {
            begun.add();
            gate.pass();
        }
    });
    begun.wait_for(1);
    let room = fill();
    let done = Arc::new(Count::new());
    for _ in 0..10 {
        let done = done.clone();
        drop(runtime.spawn(async move { done.add() }));
    }
    // More than it takes the monitor to park, if it did.
    pass_looks(&runtime, 20);
    assert_eq!(done.get(), 0);
    drop(std::hint::black_box(room));
    done.wait_for(10);
    gate.open();
    runtime.block_on(stuck).unwrap();
}

/// What waits is done once the system has room for a thread, without anybody coming by.
#[test]
fn when_there_is_room_again() {
    if is_child() {
        return limited(until_there_is_room);
    }
    let limit = "ulimit -v 3900000";
    limited(move || _ = in_a_child("when_there_is_room_again", limit, FEW, None));
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t0"))
}

/// No thread beside the two of the test, one for the monitor or its work, and one or two more.
#[test]
fn when_the_user_has_too_many_threads() {
    if is_child() {
        return few_threads(None);
    }
    limited(|| {
        if !is_root() {
            common::skipped("a limit on threads: only root can take a user of its own");
            return;
        }
        for threads in [1, 2, 3, 4, 5] {
            // The name of the limit is another in dash.
            let limit = format!("{{ ulimit -u {threads} 2>/dev/null || ulimit -p {threads}; }}");
            // A user that has no other processes.
            let user = 100_000 + std::process::id() % 100_000 + threads;
            let can_be_had = if threads <= 2 { NONE } else { FEW };
            in_a_child(
                "when_the_user_has_too_many_threads",
                &limit,
                can_be_had,
                Some(user),
            );
        }
    });
}
