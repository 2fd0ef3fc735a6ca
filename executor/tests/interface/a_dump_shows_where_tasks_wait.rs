//! L2, in what users see of it: `Handle::dump_awaits` shows where each idle task is suspended,
//! whatever library its leaf is of.
//!
//! It fails when the tracing waker has the table of an ordinary one, when the clone keeps the
//! tracing table, when a task that ends or is aborted instead does not answer, when a second ask
//! takes the place of the first, and when the ways of two places are not put together.

use crate::common;

use std::{
    future::{Future, pending, poll_fn},
    sync::{Arc, Mutex, mpsc},
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use common::{GRACE, Gate, runtime};
use futures::channel::oneshot;
use ws_executor::{
    runtime::{AwaitFrame, AwaitTree, Handle, Runtime, TaskDump},
    task::{self, Id},
    time,
};

const HOUR: Duration = Duration::from_secs(3600);

const HOUR_LINE: u32 = line!() + 3;

async fn waits_for_an_hour() {
    time::sleep(HOUR).await;
}

const CHANNEL_LINE: u32 = line!() + 4;

async fn waits_for_a_channel() -> Result<(), oneshot::Canceled> {
    let (send, receive) = oneshot::channel();
    let received = receive.await;
    drop(send);
    received
}

const BOTH_LINE: u32 = line!() + 5;

async fn waits_for_both() {
    let sleeps = async { waits_for_an_hour().await };
    let receives = async { _ = waits_for_a_channel().await };
    futures::join!(sleeps, receives);
}

const TASK_LINE: u32 = line!() + 3;

async fn waits_for_a_task() {
    _ = ws_executor::spawn(pending::<()>()).await;
}

fn when_all_are_idle(handle: &Handle) {
    while !handle
        .dump()
        .iter()
        .all(|task| task.account.idle_for.is_some())
    {
        thread::yield_now();
    }
}

/// The tree of a task, if it has one and stacks are built in and known on this system.
fn tree(runtime: &Runtime, id: Id) -> Option<AwaitTree> {
    when_all_are_idle(runtime.handle());
    let dump = runtime.block_on(runtime.handle().dump_awaits(GRACE));
    let task = dump.into_iter().find(|task| task.id == id).unwrap();
    let tree = task.awaits.expect("it was idle");
    match tree.error().filter(|_| tree.frames().is_empty()) {
        Some(error) => {
            common::skipped(format!("there are no stacks: {error}"));
            None
        }
        None => Some(tree),
    }
}

/// As many futures within each other.
fn deep(more: usize) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        match more {
            0 => time::sleep(HOUR).await,
            _ => deep(more - 1).await,
        }
    })
}

/// The frames whose functions have this in their names.
fn named<'a>(frames: &'a [AwaitFrame], name: &str) -> Vec<&'a AwaitFrame> {
    frames
        .iter()
        .filter(|frame| frame.function.contains(name))
        .collect()
}

/// The frames of the function of this name. One that was inlined has a short name, and is known by
/// the line where it waits.
fn of<'a>(frames: &'a [AwaitFrame], name: &str, line: u32) -> Vec<&'a AwaitFrame> {
    let is_it = |frame: &&AwaitFrame| {
        let inlined = frame.function.starts_with('{') && frame.line == Some(line);
        frame.function.contains(name) || inlined
    };
    frames.iter().filter(is_it).collect()
}

common::with_workers! {
    fn a_tree_says_that_it_is_cut(workers: usize) {
        let runtime = runtime(workers);
        let shallow = runtime.spawn(deep(3));
        if tree(&runtime, shallow.id()).is_none() { return }
        runtime.spawn(deep(600));
        when_all_are_idle(runtime.handle());
        let dump = runtime.block_on(runtime.handle().dump_awaits(GRACE));
        for task in dump {
            let tree = task.awaits.expect("it was idle");
            let is_cut = task.id != shallow.id();
            assert_eq!(tree.error().is_some(), is_cut, "{tree}");
            assert_eq!(tree.to_string().starts_with("(a part is not known: "), is_cut);
        }
    }

    // The second finds tasks that the first has woken for that.
    fn two_who_ask_at_once_get_all(workers: usize) {
        let runtime = runtime(workers);
        for _ in 0..20 {
            runtime.spawn(pending::<()>());
        }
        when_all_are_idle(runtime.handle());
        let ask = || runtime.handle().dump_awaits(GRACE);
        let (first, second) = runtime.block_on(async { futures::join!(ask(), ask()) });
        let trees = |dump: &[TaskDump]| dump.iter().filter(|task| task.awaits.is_some()).count();
        assert_eq!((trees(&first), trees(&second)), (20, 20));
    }

    fn the_functions_that_wait_are_a_tree(workers: usize) {
        let runtime = runtime(workers);
        let task = runtime.spawn(waits_for_both());
        let Some(tree) = tree(&runtime, task.id()) else { return };
        let frames = tree.frames();
        let both = of(&frames, "waits_for_both", BOTH_LINE);
        let hour = of(&frames, "waits_for_an_hour", HOUR_LINE);
        let channel = of(&frames, "waits_for_a_channel", CHANNEL_LINE);
        assert_eq!((hour.len(), channel.len()), (1, 1), "{tree}");
        assert_eq!(both.first().map(|frame| frame.depth), Some(0), "{tree}");
        let outermost = frames.iter().filter(|frame| frame.depth == 0);
        assert_eq!(outermost.count(), 1, "{tree}");
        assert!(both.iter().all(|frame| frame.depth < hour[0].depth), "{tree}");
        assert!(both.iter().all(|frame| frame.depth < channel[0].depth), "{tree}");
        let file = hour[0].file.as_deref().expect("tests are built with lines");
        assert!(file.ends_with("a_dump_shows_where_tasks_wait.rs"), "{tree}");
        assert_eq!(hour[0].line, Some(HOUR_LINE), "{tree}");
        assert_eq!(channel[0].line, Some(CHANNEL_LINE), "{tree}");
        // A line each, and what is inside is further to the right.
        let text = tree.to_string();
        assert_eq!(text.lines().count(), frames.len());
        for (line, frame) in text.lines().zip(&frames) {
            assert_eq!(line.len() - line.trim_start().len(), 2 * frame.depth);
        }
        assert!(text.lines().all(|line| !line.trim_start().starts_with("core::")), "{text}");
        // Of our functions, what was called.
        assert_eq!(named(&frames, "ws_executor::").len(), 1, "{tree}");
    }

    fn a_handle_and_what_has_no_waker_are_leaves_too(workers: usize) {
        let runtime = runtime(workers);
        let joins = runtime.spawn(waits_for_a_task());
        let Some(tree) = tree(&runtime, joins.id()) else { return };
        let frames = tree.frames();
        assert_eq!(of(&frames, "waits_for_a_task", TASK_LINE).len(), 1, "{tree}");
        assert_eq!(named(&frames, "JoinHandle").len(), 1, "{tree}");
        let nothing = runtime.spawn(pending::<()>());
        let tree = self::tree(&runtime, nothing.id()).unwrap();
        assert!(tree.frames().is_empty());
        assert_eq!(tree.to_string(), "(not known: its last poll has cloned no waker)");
    }

    // The clone is an ordinary waker: it wakes the task, and is not told from the next one.
    fn a_task_that_was_traced_goes_on(workers: usize) {
        let runtime = runtime(workers);
        let place: Arc<Mutex<Option<Waker>>> = Arc::default();
        let (tell, told) = mpsc::channel();
        let keeps = place.clone();
        let task = runtime.spawn(poll_fn(move |cx| {
            let mut place = keeps.lock().unwrap();
            let is_same = place.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
            if !is_same {
                *place = Some(cx.waker().clone());
            }
            tell.send(is_same).unwrap();
            Poll::<()>::Pending
        }));
        when_all_are_idle(runtime.handle());
        runtime.block_on(runtime.handle().dump_awaits(GRACE));
        place.lock().unwrap().as_ref().unwrap().wake_by_ref();
        let polls: Vec<_> = (0..3).map(|_| told.recv().unwrap()).collect();
        assert_eq!(polls, [false, false, true]);
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    }

    fn several_may_ask_at_once(workers: usize) {
        let runtime = runtime(workers);
        let ids: Vec<_> = (0..20).map(|_| runtime.spawn(waits_for_an_hour()).id()).collect();
        when_all_are_idle(runtime.handle());
        let asks: Vec<_> = (0..4).map(|_| {
            let handle = runtime.handle().clone();
            thread::spawn(move || handle.block_on(handle.dump_awaits(GRACE)))
        }).collect();
        for ask in asks {
            let dump = ask.join().unwrap();
            assert!(ids.iter().all(|id| dump.iter().any(|task| task.id == *id)));
        }
    }
}

// An ask must not wait for it.
#[test]
fn a_task_that_is_aborted_answers() {
    let runtime = runtime(1);
    let handle = runtime.handle();
    let tasks: Vec<_> = (0..2).map(|_| runtime.spawn(waits_for_an_hour())).collect();
    when_all_are_idle(handle);
    let dump = runtime.block_on(runtime.spawn({
        let handle = handle.clone();
        async move {
            let mut asks = Box::pin(handle.dump_awaits(GRACE));
            assert!(futures::poll!(&mut asks).is_pending());
            // It is queued, and its step has not come yet.
            tasks[0].abort();
            asks.await
        }
    }));
    assert_eq!(
        dump.unwrap().len(),
        2,
        "the other one and the one that asks"
    );
}

#[test]
fn a_task_that_is_not_polled_in_time_has_no_tree() {
    let runtime = runtime(1);
    let gate = Arc::new(Gate::default());
    let (tell, told) = mpsc::channel();
    let runs = {
        let gate = gate.clone();
        runtime.spawn(async move {
            tell.send(()).unwrap();
            gate.pass();
        })
    };
    told.recv().unwrap();
    let named = task::Builder::new().name("asks");
    let dump = runtime.block_on(named.spawn_on(
        {
            let handle = runtime.handle().clone();
            async move { handle.dump_awaits(Duration::ZERO).await }
        },
        runtime.handle(),
    ));
    assert!(dump.unwrap().iter().all(|task| task.awaits.is_none()));
    gate.open();
    runtime.block_on(runs).unwrap();
}

fn _is_send(handle: &Handle) -> impl Future + Send + 'static {
    handle.dump_awaits(HOUR)
}
