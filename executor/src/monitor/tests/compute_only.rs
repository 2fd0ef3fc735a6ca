//! *Compute only*: the monitor looks every 4 ms while only computations that fork go on, and every
//! millisecond while anything else does. The first test fails for each condition in
//! `ComputeOnly::look`, `ComputeOnly::judge` and `Peer::only_forks` that is left out, by the name
//! that it says. The second fails if a thread that mostly waits counts as computing, or is
//! forgotten at once. The last fails if the monitor does not sleep for longer, if a push for all
//! does not wake it, if it does not look once more before it sleeps, and if it is woken though it
//! looks.

use super::*;
use crate::{
    policy::constants::{PACE_COMPUTE_ONLY, RESTLESS_LOOKS},
    sched::processor::BRANCH,
};

/// Two threads with both permits, in branches of joins, one that has none, and the monitor, which
/// finds the runtime compute-only.
fn computing() -> Watched {
    let mut watched = Watched::new(runtime(), 3);
    for thread in &watched.threads[..2] {
        thread.own_peer().progress.running.store(BRANCH, Relaxed);
    }
    watched.begins();
    assert!(is_compute_only_after(&mut watched, PACE_BUSY));
    watched
}

fn end_of(watched: Watched) {
    for thread in &watched.threads {
        thread.own_peer().progress.running.store(0, Relaxed);
    }
    watched.end();
}

fn is_compute_only_after(watched: &mut Watched, time: Duration) -> bool {
    watched.advance(time);
    let shared = watched.runtime.handle().shared();
    let now = shared.time.clock().now_ns();
    watched.monitor.compute_only.look(shared, now);
    watched.monitor.compute_only.holds()
}

#[test]
fn it_is_calm_where_nothing_but_computations_that_fork_goes_on() {
    /// Its name, and what it is.
    type Else = (&'static str, fn(&Watched));
    let polls = |thread: &Worker| thread.own_peer().progress.running.store(1, Relaxed);
    let all: [Else; 7] = [
        ("a free permit", |watched| {
            let permit = watched.threads[1].own_peer().state().revoke();
            watched.threads[1]
                .own_peer()
                .progress
                .running
                .store(0, Relaxed);
            let permit = permit.expect("it had one");
            watched.shared().idle.release(permit, None);
        }),
        ("a task for all", |watched| watched.wants()),
        ("a task of its own", |watched| {
            let task = watched.task();
            assert!(watched.threads[1].p.lrq.push(task).is_ok());
        }),
        ("one that has forked", |watched| {
            let task = watched.task();
            watched.threads[1].p.forks.parents.push(task);
        }),
        ("one that runs next", |watched| {
            context::with_worker_frame(&watched.threads[1], || drop(spawn(async {})));
        }),
        ("who waits at a fork", |watched| {
            assert!(!watched.threads[2].ask_for_permit());
        }),
        ("a stuck thread", |watched| {
            watched.threads[2]
                .own_peer()
                .progress
                .running
                .store(1, Relaxed);
        }),
    ];
    for (what, begin) in all {
        let mut watched = computing();
        begin(&watched);
        assert!(!is_compute_only_after(&mut watched, PACE_BUSY), "{what}");
        end_of(watched);
    }
    let mut watched = computing();
    polls(&watched.threads[1]);
    assert!(
        !is_compute_only_after(&mut watched, PACE_BUSY),
        "it does not fork"
    );
    end_of(watched);
    let mut watched = computing();
    let (_sender, mut receiver) = pipe::new().unwrap();
    let netpoll = &watched.shared().io.netpoll;
    let source = Registration::new(netpoll, &mut receiver, Interest::READABLE).unwrap();
    assert!(!is_compute_only_after(&mut watched, PACE_BUSY), "a source");
    drop(source);
    end_of(watched);
}

#[test]
fn it_is_not_calm_for_some_looks_after_a_thread_waited() {
    let mut watched = computing();
    let tenth = PACE_BUSY / 10;
    let mut used_all_but = |waited: Duration| {
        // What it has used is the time, in a simulation.
        let now = watched.shared().time.clock().now_ns();
        watched.monitor.compute_only.cpu[0] = Some(now + waited.as_nanos() as u64);
        is_compute_only_after(&mut watched, PACE_BUSY)
    };
    assert!(used_all_but(tenth));
    assert!(!used_all_but(tenth + Duration::from_nanos(1)));
    for look in 1..RESTLESS_LOOKS {
        assert!(!used_all_but(Duration::ZERO), "look {look}");
    }
    assert!(used_all_but(Duration::ZERO));
    end_of(watched);
}

#[test]
fn one_that_pushes_for_all_wakes_it() {
    let mut watched = computing();
    let begin = |watched: &mut Watched| {
        assert_eq!(
            rest_after(&mut watched.monitor, PACE_FAST_LOOKS + 20),
            PACE_COMPUTE_ONLY
        );
    };
    let end = |watched: &mut Watched| {
        watched.shared().drain_global();
        assert!(is_compute_only_after(watched, PACE_BUSY));
    };
    begin(&mut watched);
    watched.wants();
    assert!(watched.shared().idle.monitor().wake_up(), "nobody woke it");
    end(&mut watched);
    // Pushed before it says that it sleeps.
    watched.wants();
    assert_eq!(watched.rest(), PACE_FAST);
    end(&mut watched);
    begin(&mut watched);
    watched.monitor.look();
    watched.shared().idle.rouse_monitor();
    assert!(!watched.shared().idle.monitor().wake_up(), "it looks");
    end_of(watched);
}
