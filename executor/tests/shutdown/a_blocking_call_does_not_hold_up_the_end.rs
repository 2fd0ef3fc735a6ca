//! S7: a blocking call that never returns does not hold up the end of its runtime. The drop waits
//! for `Builder::shutdown_grace` and no longer, and then reports what is left, with name and place;
//! a shutdown in the background does not wait. Jobs that have not begun by then are cancelled. When
//! a call does return, its thread clears up behind it.
//!
//! It fails when `wait_for_the_end` in `sched/shutdown.rs` does not look at the grace (a hang), and
//! when `report_left` there is left out.

use crate::common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use common::{Count, Gate, OnDrop, listen_to_log, logged};
use ws_executor::{
    runtime::{Builder, Runtime},
    task::{self, JoinHandle},
};

const GRACE: Duration = Duration::from_millis(10);

/// What blocks until the gate opens, in each of the ways in which a call can.
struct Blocked {
    gate: Arc<Gate>,
    /// Set when the gate opens: nothing that blocks has returned before.
    open: Arc<AtomicBool>,
    returned: Arc<Count>,
    dropped: Arc<Count>,
    handles: Vec<JoinHandle<()>>,
}

/// Calls that block, and tasks that wait.
const CALLS: usize = 4;
const WAITING: usize = 20;

fn blocked(workers: usize, name: &str) -> (Runtime, Blocked) {
    let builder = Builder::new().workers(workers).shutdown_grace(GRACE);
    let runtime = builder.build().unwrap();
    let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Count::new()));
    let (returned, dropped) = (Arc::new(Count::new()), Arc::new(Count::new()));
    let open = Arc::new(AtomicBool::new(false));
    let last = || {
        let dropped = dropped.clone();
        OnDrop(move || dropped.add())
    };
    let call = || {
        let (gate, begun, returned) = (gate.clone(), begun.clone(), returned.clone());
        let (open, last) = (open.clone(), last());
        move || {
            let _last = last;
            begun.add();
            gate.pass();
            assert!(open.load(SeqCst));
            returned.add();
        }
    };
    let named = || task::Builder::new().name(name);
    let mut handles = Vec::new();
    // The pinned one first: it would wait for its thread if that were stuck in another.
    let (pinned, its_name) = (call(), name.to_owned());
    handles.push(runtime.spawn(async move {
        let pinned = async move {
            task::yield_now().await;
            pinned();
        };
        let builder = task::Builder::new().name(its_name);
        builder.spawn_local(pinned).await.unwrap();
    }));
    begun.wait_for(1);
    let (job, announced, silent) = (call(), call(), call());
    handles.push({
        let _guard = runtime.enter();
        named().spawn_blocking(job)
    });
    let announced = async move { ws_executor::block_in_place(announced) };
    handles.push(named().spawn_on(announced, runtime.handle()));
    handles.push(named().spawn_on(async move { silent() }, runtime.handle()));
    begun.wait_for(CALLS);
    for _ in 0..WAITING {
        let last = last();
        handles.push(runtime.spawn(async move {
            let _last = last;
            std::future::pending::<()>().await;
        }));
    }
    let blocked = Blocked {
        gate,
        open,
        returned,
        dropped,
        handles,
    };
    (runtime, blocked)
}

impl Blocked {
    /// Lets the calls return; everything is dropped, and every handle resolves.
    fn return_at_last(self) {
        assert_eq!(self.returned.get(), 0);
        self.open.store(true, SeqCst);
        self.gate.open();
        self.returned.wait_for(CALLS);
        self.dropped.wait_for(CALLS + WAITING);
        let other = common::runtime(1);
        for handle in self.handles {
            // It came to its end, or was cancelled at its next step.
            if let Err(error) = other.block_on(handle) {
                assert!(error.is_cancelled());
            }
        }
    }
}

common::with_workers! {
    fn a_drop_waits_no_longer_than_the_grace(workers: usize) {
        listen_to_log();
        let name = format!("never returns, {workers} workers");
        let (runtime, blocked) = blocked(workers, &name);
        drop(runtime);
        // It is over although nobody has returned; what merely waited is gone.
        assert_eq!(blocked.returned.get(), 0);
        blocked.dropped.wait_for(WAITING);
        // On a slow machine the monitor may have reported one as well.
        let report = logged(&["WARN", "was shut down", &name]);
        assert_eq!(report.len(), 1, "{report:?}");
        let line = &report[0];
        assert_eq!(line.matches(&name).count(), CALLS, "{line}");
        assert!(line.contains("a_blocking_call_does_not_hold_up_the_end.rs"), "{line}");
        blocked.return_at_last();
    }

    fn in_the_background_it_does_not_wait(workers: usize) {
        let (runtime, blocked) = blocked(workers, "in the background");
        runtime.shutdown_background();
        blocked.return_at_last();
    }

    /// They return when everything else is gone: the runtime, the handles, the thread that ended
    /// it.
    fn it_returns_when_nobody_is_left(workers: usize) {
        let (runtime, mut blocked) = blocked(workers, "alone");
        thread::spawn(move || runtime.shutdown_timeout(Duration::ZERO)).join().unwrap();
        blocked.handles.clear();
        blocked.return_at_last();
    }

    /// Jobs that wait for room when the grace is over never begin.
    fn jobs_that_have_not_begun_are_cancelled(workers: usize) {
        let builder = Builder::new().workers(workers).max_threads(2 * workers + 1);
        let runtime = builder.shutdown_grace(GRACE).build().unwrap();
        let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Count::new()));
        let (passes, counted) = (gate.clone(), begun.clone());
        let first = runtime.handle().spawn_blocking(move || {
            counted.add();
            passes.pass();
        });
        begun.wait_for(1);
        let later: Vec<_> = (0..20).map(|_| {
            let begun = begun.clone();
            runtime.handle().spawn_blocking(move || begun.add())
        }).collect();
        drop(runtime);
        let other = common::runtime(1);
        for job in later {
            assert!(other.block_on(job).unwrap_err().is_cancelled());
        }
        gate.open();
        other.block_on(first).unwrap();
        assert_eq!(begun.get(), 1);
    }
}
