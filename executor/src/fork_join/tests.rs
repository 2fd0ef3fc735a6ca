//! J5, S6: nothing unwinds past a branch that is out. A panic of the runtime's own code in the wait
//! for it ends the process; and what the program's `tracing` subscriber does there is its own
//! matter: see `tests/a_subscriber_that_panics_harms_nobody.rs`.
//!
//! J3: a level of joins is small on the stack also where others ask for work. What it is where
//! nobody does is in `tests/order/join_needs_little_stack.rs`, and fails by the same.
//!
//! J5: a recursion of joins that is deeper than the deque is long ends as plain calls would,
//! whoever asks. It fails when `place` in `branch/deque.rs` forgets what stays linked.
//!
//! J1: the owner of a scope runs the newest branch first, from wherever it was spawned, and a scope
//! that is inside leaves the branches of the outer one alone. It fails when `take_newest_of` in
//! `branch/jobs.rs` takes the oldest, or one of any scope.
//!
//! J2, J5: a thread that clears a runtime away above a join leaves that join's indices alone. It
//! fails when an index counts for whatever branch deque the thread is attached to.
//!
//! J1: the last branch of a scope finds the threads that asked before it began. It fails when
//! `come_by_between_jobs` in `fork_join/owner.rs` forgets the threads that got nothing.
//!
//! J5, L1: a branch that is handed back to a scope whose owner sleeps at its end gets the owner up.
//! It hangs without the unpark of `drop` in `branch/deque.rs`.
//!
//! J3: with one worker nothing is promoted for a thread without a permit, though one asks. It fails
//! when `promote_for_asks` does not look how many there are.

use std::{
    env,
    future::poll_fn,
    hint::black_box,
    mem,
    panic::catch_unwind,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::Poll,
    thread,
    time::Duration,
};

use super::{join, scope, steps::join_on};
use crate::{
    branch::{
        BranchDeque, Header, Tail,
        own::{base, come_by, with_tail},
    },
    context,
    permit::{env::Env, phase::ShutdownEnv},
    runtime::{Builder, Sysmon},
    stack::{calls, here},
    sync::Arc,
};

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// What a test that may hang sends at its end.
pub(crate) fn limited<R: Send + 'static>(test: impl FnOnce(mpsc::Sender<R>) + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || test(send));
    receive.recv_timeout(LIMIT).expect("it hangs, or panicked")
}

/// Set in the process that is to end.
const CHILD: &str = "WS_TEST_UNWINDS";

/// Steals the second branch, for good, and then lets the wait for it panic.
fn unwind_from_the_wait() {
    let branch_deque = Arc::new(BranchDeque::new());
    // SAFETY: no other thread has it, and it outlives the tail.
    let tail = unsafe { branch_deque.attach() };
    let steal = || {
        tail.promote(1, 0);
        mem::forget(BranchDeque::claim(&branch_deque, 0).unwrap());
    };
    // SAFETY: it is attached.
    unsafe {
        join_on(
            tail,
            || tail,
            steal,
            || (),
            |_| (),
            |_: &Tail, _: &Header| panic!("expected"),
        )
    };
}

#[test]
fn a_panic_in_the_wait_for_a_branch_ends_the_process() {
    if env::var_os(CHILD).is_some() {
        // If it comes back, the frame was left while the branch was out.
        let _ = catch_unwind(unwind_from_the_wait);
        return;
    }
    let name = "fork_join::tests::a_panic_in_the_wait_for_a_branch_ends_the_process";
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("running 1 test"), "it was not run: {said}");
    assert!(!child.status.success(), "the frame was left: {said}");
}

/// Bytes of stack in release; in a debug build nothing is inlined.
const MOST_OF_A_LEVEL: usize = if cfg!(debug_assertions) { 4096 } else { 192 };
const LEVELS: usize = 200;

/// Somebody asks before each join.
#[inline(never)]
fn disturbed(levels: usize) -> usize {
    if levels == 0 {
        return here();
    }
    come_by();
    assert!(!with_tail(Tail::is_undisturbed));
    let (deepest, one) = join(|| disturbed(levels - 1), || 1);
    black_box(one);
    deepest
}

#[test]
fn a_level_at_which_somebody_asks_is_small() {
    let (plain, disturbed) = limited(|send| {
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.block_on(async {
            // The first join finds the thread's place.
            join(|| (), || ());
            let top = here();
            let each = |deepest| (top - deepest) / LEVELS;
            send.send((each(calls(LEVELS)), each(disturbed(LEVELS))))
                .unwrap();
        });
    });
    assert!(
        disturbed <= plain + MOST_OF_A_LEVEL,
        "{disturbed} bytes a level, {plain} without join"
    );
}

/// How many leaves there are, with a join for each.
fn leaves(depth: usize) -> usize {
    if depth == 0 {
        return 1;
    }
    let (a, b) = join(|| leaves(depth - 1), || leaves(depth - 1));
    a + b
}

/// Above as many joins. Somebody asks at each of them.
fn deep(levels: usize, bottom: &(impl Fn() + Sync)) -> usize {
    if levels == 0 {
        bottom();
        return 0;
    }
    come_by();
    let (below, here) = join(|| deep(levels - 1, bottom), || leaves(2));
    below + here
}

#[test]
fn a_recursion_that_is_deeper_than_the_deque_ends() {
    // As many have an index in tests.
    const INDICES: usize = 1 << 10;
    const LEVELS: usize = INDICES + 300;
    let sum = limited(|send| {
        let runtime = Builder::new().workers(2).build().unwrap();
        let shared = runtime.handle().shared().clone();
        let over = AtomicBool::new(false);
        let spawned = AtomicUsize::new(0);
        let bottom = || {
            assert_eq!(base(), INDICES);
            assert!(with_tail(Tail::has_linked));
            scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|_| {
                        spawned.fetch_add(leaves(2), SeqCst);
                    });
                }
            });
            assert_eq!(spawned.load(SeqCst), 12);
        };
        let compute = || runtime.block_on(async { deep(LEVELS, &bottom) });
        let sum = thread::scope(|threads| {
            threads.spawn(|| {
                while !over.load(SeqCst) {
                    for peer in shared.peers() {
                        peer.queues.branch_deque.ask();
                    }
                    thread::yield_now();
                }
            });
            // A debug build inlines nothing.
            let large = thread::Builder::new().stack_size(64 << 20);
            let computing = large.spawn_scoped(threads, compute).unwrap();
            let sum = computing.join();
            over.store(true, SeqCst);
            sum
        });
        send.send(sum.expect("a level panicked")).unwrap();
    });
    assert_eq!(sum, LEVELS * 4);
}

#[test]
fn the_newest_branch_of_this_scope_is_first() {
    let ran = limited(|send| {
        // Without the monitor, which would let another thread in for one that has no core.
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let ran = Mutex::new(Vec::new());
        let note = |which: usize| ran.lock().unwrap().push(which);
        runtime.block_on(async {
            scope(|outer| {
                outer.spawn(|_| note(7));
                scope(|inner| {
                    inner.spawn(|_| note(3));
                    outer.spawn(|_| note(6));
                    join(|| inner.spawn(|_| note(2)), || outer.spawn(|_| note(5)));
                    inner.spawn(|scope| {
                        note(1);
                        outer.spawn(|_| note(4));
                        scope.spawn(|_| note(12));
                    });
                });
                note(30);
            });
        });
        send.send(ran.into_inner().unwrap()).unwrap();
    });
    assert_eq!(ran, [1, 12, 2, 3, 30, 4, 5, 6, 7]);
}

struct Joins(Arc<AtomicUsize>);

impl Drop for Joins {
    fn drop(&mut self) {
        self.0.fetch_add(leaves(5), SeqCst);
    }
}

#[test]
fn a_thread_clears_away_above_its_join() {
    let (before, dropped, after) = limited(|send| {
        // Without the monitor, which would let another thread in for one that has no core.
        let runtime = Builder::new()
            .workers(1)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        let (begun, parked) = mpsc::channel();
        let joins = Joins(dropped.clone());
        drop(runtime.spawn(poll_fn(move |_| {
            let _joins = &joins;
            begun.send(()).unwrap();
            Poll::<()>::Pending
        })));
        parked.recv().unwrap();
        let shared = runtime.handle().shared().clone();
        let (end, ended) = mpsc::channel();
        drop(runtime.spawn(async move {
            let clear = || {
                // As `thread_gone` does when the system has refused the last thread.
                shared.begin_shutdown();
                shared.help_to_clear();
                (dropped.load(SeqCst), leaves(5))
            };
            let ((dropped, after), before) = join(clear, || 1);
            end.send((before, dropped, after)).unwrap();
        }));
        let result = ended.recv();
        runtime.shutdown_background();
        send.send(result.expect("the task panicked")).unwrap();
    });
    assert_eq!((before, dropped, after), (1, 32, 32));
}

/// Runs `f` on one of two workers, while the other is busy, and so asks for nothing, until it is
/// released.
fn beside_a_busy_worker<R: Send + 'static>(
    f: impl FnOnce(mpsc::Sender<()>) -> R + Send + 'static,
) -> R {
    limited(|send| {
        // Without the monitor, which would ask as well.
        let runtime = Builder::new()
            .workers(2)
            .sysmon(Sysmon::Off)
            .build()
            .unwrap();
        let (release, released) = mpsc::channel();
        let (begun, busy) = mpsc::channel();
        drop(runtime.spawn(async move {
            begun.send(()).unwrap();
            // Also when `f` is over, or panicked.
            let _ = released.recv();
        }));
        busy.recv().unwrap();
        let result = runtime.block_on(async {
            // The first join finds the thread's place, and whoever asked before.
            join(|| (), || ());
            f(release)
        });
        send.send(result).unwrap();
    })
}

#[test]
fn the_last_of_a_scope_finds_who_asked() {
    let asked = beside_a_busy_worker(|_release| {
        let asked = AtomicBool::new(false);
        scope(|scope| {
            scope.spawn(|_| asked.store(!with_tail(Tail::is_undisturbed), SeqCst));
            come_by();
        });
        asked.into_inner()
    });
    assert!(asked);
}

#[test]
fn with_one_worker_nobody_is_fed() {
    let shared = limited(|send| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let branch_deques = runtime.handle().shared().clone();
        let has_shared = || {
            branch_deques
                .peers()
                .any(|peer| peer.queues.branch_deque.has_shared())
        };
        let shared = runtime.block_on(async {
            come_by();
            join(has_shared, || ()).0
        });
        send.send(shared).unwrap();
    });
    assert!(!shared);
}

#[test]
fn a_branch_that_is_handed_back_wakes_the_owner_of_its_scope() {
    let ran_on = beside_a_busy_worker(|release| {
        let (shared, owner) = context::with_worker(|worker| {
            let worker = worker.expect("it has joined");
            (worker.shared().clone(), worker.index())
        });
        let ran_on = Mutex::new(Vec::new());
        let (claimed, is_claimed) = mpsc::channel();
        thread::scope(|threads| {
            scope(|scope| {
                scope.spawn(|_| ran_on.lock().unwrap().push(thread::current().id()));
                let branch_deque = &shared.peer(owner).queues.branch_deque;
                threads.spawn(move || {
                    let branch = BranchDeque::take(branch_deque).expect("it was spawned");
                    claimed.send(()).unwrap();
                    // Its owner waits a moment, and goes to sleep.
                    while !branch_deque.parker.is_asleep() {
                        thread::yield_now();
                    }
                    drop(branch);
                });
                is_claimed.recv().unwrap();
            });
        });
        drop(release);
        (thread::current().id(), ran_on.into_inner().unwrap())
    });
    assert_eq!(ran_on.1, [ran_on.0]);
}
