//! L2, in what users see of it: a row of `Handle::dump` says which timers, descriptors and tasks
//! have a waker of an idle task.
//!
//! It fails when `Shared::waits` leaves out the timers of foreign threads, one direction of a
//! source, or the slots of tasks; when it goes by the waker of another task; and when a task that
//! is not idle is shown to wait.

use crate::common;

use std::{
    future::{Future, pending},
    sync::{Arc, mpsc},
    task::{Context, Waker},
    time::Duration,
};

use common::{Gate, runtime};
#[cfg(unix)]
use ws_executor::netpoll;
use ws_executor::{
    runtime::{Handle, TaskDump, WaitsFor},
    task::Id,
    time,
};
#[cfg(unix)]
use ws_reactor::{Direction, Interest, Registration, pipe};

fn row(handle: &Handle, id: Id) -> TaskDump {
    loop {
        let row = handle.dump().into_iter().find(|task| task.id == id);
        let row = row.expect("it is alive");
        if row.account.idle_for.is_some() {
            return row;
        }
        std::thread::yield_now();
    }
}

common::with_workers! {
    // It has two cells, and one waits for the other.
    fn a_pinned_task_does_not_wait_for_itself(workers: usize) {
        let runtime = runtime(workers);
        let task = ws_executor::task::Builder::new().name("pinned");
        let task = {
            let _entered = runtime.handle().enter();
            task.spawn_pinned(|| async { pending::<()>().await })
        };
        assert_eq!(row(runtime.handle(), task.id()).waits_for, []);
    }

    fn timers_and_tasks_are_named(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let hour = Duration::from_secs(3600);
        let sleeps = runtime.spawn(async move { time::sleep(hour).await });
        let sleeps_id = sleeps.id();
        let row_of_sleeper = row(handle, sleeps_id);
        let [WaitsFor::Timer(due)] = row_of_sleeper.waits_for[..] else {
            panic!("{row_of_sleeper}");
        };
        assert!(due <= hour && due > hour / 2);
        assert!(WaitsFor::Timer(due).to_string().ends_with(&format!("due in {due:?}")));
        assert!(row_of_sleeper.to_string().contains(", waits for a timer, due in "));
        // A timer that was armed on a thread that is no worker.
        let sleep = {
            let _entered = handle.enter();
            let mut sleep = Box::pin(time::sleep(hour));
            let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            sleep
        };
        let elsewhere = runtime.spawn(sleep);
        let waits_for = row(handle, elsewhere.id()).waits_for;
        assert!(matches!(waits_for[..], [WaitsFor::Timer(_)]), "{waits_for:?}");
        let joins = runtime.spawn(async move {
            let both = futures::future::join(sleeps, time::sleep(2 * hour));
            _ = both.await;
        });
        let row_of_joiner = row(handle, joins.id());
        let words: Vec<_> = row_of_joiner.waits_for.iter().map(ToString::to_string).collect();
        let text = format!(", waits for {}", words.join(" and "));
        assert!(row_of_joiner.to_string().ends_with(&text), "{row_of_joiner}");
        assert_eq!(words.len(), 2);
        let mut waits_for = row_of_joiner.waits_for;
        waits_for.retain(|it| !matches!(it, WaitsFor::Timer(due) if *due > hour));
        assert_eq!(waits_for, [WaitsFor::Task(sleeps_id)]);
        assert_eq!(WaitsFor::Task(sleeps_id).to_string(), format!("task {sleeps_id}"));
        let nothing = runtime.spawn(pending::<()>());
        assert!(row(handle, nothing.id()).waits_for.is_empty());
    }

    // Windows has no descriptors.
    #[cfg(unix)]
    fn descriptors_are_named(workers: usize) {
        let runtime = runtime(workers);
        let handle = runtime.handle();
        let (mut sender, mut receiver) = pipe::new().unwrap();
        // A pipe that is full cannot be written.
        sender.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut sender, &[0; 4096]).is_ok() {}
        let (_sender, mut empty) = pipe::new().unwrap();
        let netpoll = {
            let _entered = handle.enter();
            netpoll::current().unwrap()
        };
        let full = Registration::new(&netpoll, &mut sender, Interest::WRITABLE).unwrap();
        let empty = Registration::new(&netpoll, &mut empty, Interest::READABLE).unwrap();
        full.note_descriptor(170);
        let (full, empty) = (Arc::new(full), Arc::new(empty));
        let writes = {
            let full = full.clone();
            runtime.spawn(async move { _ = full.readiness(Direction::Write).await })
        };
        let reads = {
            let empty = empty.clone();
            runtime.spawn(std::future::poll_fn(move |cx| {
                empty.poll_ready(cx, Direction::Read).map(|_| ())
            }))
        };
        assert_eq!(row(handle, writes.id()).waits_for, [WaitsFor::Writable(Some(170))]);
        assert_eq!(row(handle, reads.id()).waits_for, [WaitsFor::Readable(None)]);
        let text = WaitsFor::Writable(Some(170)).to_string();
        assert_eq!(text, "descriptor 170 to be writable");
        assert_eq!(WaitsFor::Readable(None).to_string(), "a descriptor to be readable");
        std::io::Read::read(&mut receiver, &mut [0; 1]).unwrap();
    }
}

#[test]
fn a_task_that_runs_waits_for_nothing() {
    let runtime = runtime(1);
    let gate = Arc::new(Gate::default());
    let (tell, told) = mpsc::channel();
    let runs = {
        let gate = gate.clone();
        runtime.spawn(async move {
            let mut slept = std::pin::pin!(time::sleep(Duration::from_secs(3600)));
            futures::poll!(&mut slept)
                .is_pending()
                .then_some(())
                .unwrap();
            tell.send(()).unwrap();
            gate.pass();
        })
    };
    told.recv().unwrap();
    let dump = runtime.handle().dump();
    let row = dump.iter().find(|task| task.id == runs.id()).unwrap();
    assert!(row.waits_for.is_empty(), "{row}");
    gate.open();
}
