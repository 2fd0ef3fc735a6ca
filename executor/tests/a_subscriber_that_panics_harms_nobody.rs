//! J5, S6: the program's `tracing` subscriber is code that the scheduler calls, in the middle of a
//! waiting join too. It panics at every event here: the panic is its own, and a join or scope still
//! ends after its branches.
//!
//! The threads are so few that the wait for the branch has to report that there is no other: one is
//! in `block_in_place`, one runs the branch, and one waits.
//!
//! Seen to fail with the report in `sched/threads.rs` not caught: the join unwound while its branch
//! ran.

mod common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
};

use common::{Count, Gate, limited};
use ws_executor::{
    block_in_place, join,
    runtime::{Builder, Runtime, Sysmon},
    scope, spawn,
};

static EVENTS: Count = Count::new();

/// Two workers and three threads. One of the threads blocks until the gate is open.
fn with_one_thread_less(gate: &Arc<Gate>) -> Runtime {
    common::listen_to_panics();
    common::subscribe(|_| {
        EVENTS.add();
        panic!("expected: a subscriber");
    });
    let runtime = Builder::new()
        .workers(2)
        .max_threads(3)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    let blocks = Arc::new(Gate::default());
    let (inner, gate) = (blocks.clone(), gate.clone());
    drop(runtime.spawn(async move {
        block_in_place(|| {
            inner.open();
            gate.pass();
        });
    }));
    blocks.pass();
    runtime
}

/// Forks until a thief has the branch that opens `begun`, and leaves work for which a thread is
/// wanted.
fn until_it_is_stolen(begun: &Gate) {
    while !begun.is_open() {
        join(std::hint::spin_loop, || ());
    }
    drop(spawn(async {}));
}

/// Runs something that forks a branch, which is to say that it has begun and then waits for the
/// report.
fn while_it_is_reported(what: fn(&Gate, &(dyn Fn() + Sync)) -> u32) {
    let before = EVENTS.get();
    let gate = Arc::new(Gate::default());
    let runtime = with_one_thread_less(&gate);
    let (send, receive) = mpsc::channel();
    drop(runtime.spawn(async move {
        let begun = Gate::default();
        let reported = || EVENTS.wait_for(before + 1);
        let result = catch_unwind(AssertUnwindSafe(|| what(&begun, &reported)));
        send.send(result).unwrap();
    }));
    let result = receive.recv().unwrap();
    gate.open();
    assert_eq!(result.expect("a frame was left by a foreign panic"), 7);
}

#[test]
fn in_the_wait_for_a_branch() {
    limited(|| {
        while_it_is_reported(|begun, reported| {
            let local = Box::new(7);
            let second = || {
                begun.open();
                reported();
                *local
            };
            join(|| until_it_is_stolen(begun), second).1
        });
        while_it_is_reported(|begun, reported| {
            let mut local = Box::new(0);
            scope(|scope| {
                scope.spawn(|_| {
                    begun.open();
                    reported();
                    *local = 7;
                });
                until_it_is_stolen(begun);
            });
            *local
        });
    });
}
