//! What the monitor makes of a poll: what it tells its thread (F2, L4), what of it goes to others
//! (J4), how soon it looks again.

use super::*;
use crate::{cell::Id, monitor::classify::Long};

const SLICE: Duration = Duration::from_nanos(SLICE_NS);
const MOMENT: Duration = Duration::from_nanos(1);

/// The first of two threads polls a task, which is in no queue.
fn polling_a_task() -> (Watched, Task) {
    let watched = Watched::new(runtime(), 2);
    let task = watched.task();
    let running = &watched.peer().progress.running;
    running.store(task.header().address(), Relaxed);
    (watched, task)
}

/// What the recording says of long polls that began: whose they are, the number, and how long the
/// account of the only task says that its longest poll was.
fn long_polls(watched: &Watched) -> (Vec<(Option<Id>, u64)>, Duration) {
    let events = watched.shared().recording().events.into_iter();
    let begun = events.filter(|event| event.kind == EventKind::LongPoll);
    let begun = begun.map(|event| (event.task, event.number)).collect();
    let [task] = &watched.runtime.handle().dump()[..] else {
        panic!("one is alive");
    };
    (begun, task.account.longest_poll)
}

#[test]
fn a_poll_that_is_seen_to_be_long_is_recorded_with_its_task_and_its_time() {
    let (mut watched, task) = polling_a_task();
    let id = task.header().id();
    watched.begins();
    let tenth = Duration::from_micros(100);
    watched.looks_after(25 * tenth);
    assert_eq!(long_polls(&watched), (vec![(Some(id), 25)], 25 * tenth));
    watched.looks_after(tenth);
    assert_eq!(long_polls(&watched), (vec![(Some(id), 25)], 26 * tenth));
    watched.shared().push_foreign(task);
    watched.end();
}

#[test]
fn the_time_of_a_long_poll_is_not_that_of_a_task_whose_poll_began_after_the_look() {
    let (mut watched, task) = polling_a_task();
    for (long, begun) in [
        (Long::Begins(2_500_000), vec![(None, 25)]),
        (Long::GoesOn(2_600_000), vec![(None, 25)]),
    ] {
        let verdict = Verdict {
            long: Some(long),
            ..Verdict::default()
        };
        watched.acts(1, verdict);
        assert_eq!(long_polls(&watched), (begun, Duration::ZERO));
    }
    watched.shared().push_foreign(task);
    watched.end();
}

#[test]
fn a_poll_is_told_that_its_slice_is_over() {
    let mut watched = Watched::new(runtime(), 1);
    let told = |watched: &Watched| watched.peer().attention.load(Relaxed) == attention::SLICE;
    for _ in 0..2 {
        watched.begins();
        watched.looks_after(SLICE - MOMENT);
        assert!(!told(&watched), "each poll has its own");
    }
    watched.looks_after(MOMENT);
    assert!(told(&watched));
    watched.end();
}

#[test]
fn the_first_poll_of_a_block_on_has_a_slice_of_its_own() {
    let runtime = runtime();
    let shared = runtime.handle().shared().clone();
    let mut monitor = monitor(&runtime);
    // A new P, and one that was left by another `block_on`.
    for _ in 0..2 {
        let mut told_after = |time| {
            shared.time.clock().advance(time);
            monitor.look();
            let told = |peer: &Peer| peer.attention.load(Relaxed) & attention::SLICE != 0;
            shared.all_peers().any(told)
        };
        assert!(!told_after(SLICE));
        let [new, most_of_it, all_of_it] = runtime.block_on(async {
            // Its thread becomes a worker for this.
            drop(spawn(async {}));
            [Duration::ZERO, SLICE - MOMENT, MOMENT].map(told_after)
        });
        assert!(!new && !most_of_it && all_of_it);
        shared
            .all_peers()
            .for_each(|peer| peer.attention.store(0, Relaxed));
    }
    end(runtime, []);
}

/// It has the same P, which no look has seen empty.
#[test]
fn the_first_poll_of_a_block_on_is_not_the_one_that_a_look_saw_before_on_its_p() {
    let runtime = runtime();
    let shared = runtime.handle().shared().clone();
    let mut monitor = monitor(&runtime);
    for _ in 0..2 {
        runtime.block_on(async {
            // Its thread becomes a worker for this.
            drop(spawn(async {}));
            shared.time.clock().advance(SLICE);
            monitor.look();
        });
    }
    let told = |peer: &Peer| peer.attention.load(Relaxed) & attention::SLICE != 0;
    assert!(
        !shared.all_peers().any(told),
        "a poll has a slice of its own"
    );
    end(runtime, []);
}

#[test]
fn the_system_is_not_asked_what_a_thread_waits_for_beside_a_free_permit() {
    for (threads, files) in [(1, 0), (2, 6)] {
        let mut watched = Watched::new(runtime(), threads);
        watched.blocks(true);
        for _ in 0..2 {
            watched.begins();
            (0..3).for_each(|_| _ = watched.looks_after(PACE_BUSY));
        }
        let read = sim_threads(&watched.runtime).files_read.get();
        assert_eq!(read, files, "{threads} of two permits are taken");
        watched.blocks(false);
        watched.end();
    }
}

#[test]
fn one_that_is_in_no_poll_is_told_nothing_and_keeps_its_permit() {
    let mut watched = Watched::new(runtime(), 2);
    watched.is_in_a_poll(false);
    watched.wants();
    for _ in 0..3 {
        watched.looks_after(SLICE);
    }
    assert_eq!(watched.peer().attention.load(Relaxed), 0);
    assert!(watched.peer().state.has_permit());
    watched.end();
}

#[test]
fn a_poll_that_computes_or_blocks_is_looked_at_often_where_permits_are_short() {
    let mut watched = Watched::new(runtime(), 2);
    watched.begins();
    watched.looks_after(PACE_BUSY / 2 - MOMENT);
    assert!(
        !watched.monitor.found.watchful,
        "it waited for a core most of the time"
    );
    watched.looks_after(PACE_BUSY / 2);
    assert!(watched.monitor.found.watchful, "it computes");
    watched.blocks(true);
    watched.looks_after(PACE_FAST);
    assert!(watched.monitor.found.watchful, "it blocks");
    watched.end();
    let mut watched = Watched::new(runtime(), 1);
    watched.begins();
    watched.looks_after(PACE_BUSY);
    assert!(!watched.monitor.found.watchful, "a permit is free");
    watched.end();
}

#[test]
fn what_a_long_poll_left_next_wakes_a_thread() {
    let mut watched = Watched::new(runtime(), 1);
    watched.begins();
    assert!(!watched.looks_after(PACE_FAST), "it left nothing");
    assert_eq!(sim_threads(&watched.runtime).len(), 0);
    let permit = watched.shared().idle.acquire().expect("one is free");
    let task = watched.task();
    assert!(watched.threads[0].p.runnext.put(task).is_none());
    watched.shared().idle.release(permit, None);
    assert!(!watched.begins(), "this may be a short one");
    assert_eq!(sim_threads(&watched.runtime).len(), 0);
    assert!(watched.looks_after(PACE_FAST));
    assert_eq!(sim_threads(&watched.runtime).len(), 1);
    assert!(
        watched.peer().queues.runnext.peek().is_some(),
        "that steals it"
    );
    watched.end();
}

#[test]
fn what_a_stuck_poll_left_next_goes_to_the_global_queue() {
    let mut watched = Watched::new(runtime(), 2);
    let task = watched.task();
    assert!(watched.threads[0].p.runnext.put(task).is_none());
    assert!(!watched.begins());
    assert!(
        watched.peer().queues.runnext.peek().is_some(),
        "it has its permit"
    );
    let permit = watched.peer().state.revoke().expect("as was said");
    assert!(watched.looks_after(PACE_FAST));
    assert!(watched.peer().queues.runnext.peek().is_none());
    assert_eq!(watched.shared().queues.grq.len(), 1);
    assert!(watched.peer().flags.gave_away.load(Relaxed));
    watched.peer().state.run(permit);
    watched.end();
}

#[test]
fn one_that_is_stuck_is_looked_at_often_if_that_is_not_announced() {
    let mut watched = Watched::new(runtime(), 2);
    watched.begins();
    let permit = watched.peer().state.revoke().expect("it had one");
    watched.looks_after(PACE_FAST);
    assert!(
        watched.monitor.found.watchful,
        "it may be back at any moment, and stuck again"
    );
    watched.peer().flags.announced.store(true, Relaxed);
    watched.looks_after(PACE_FAST);
    assert!(!watched.monitor.found.watchful);
    watched.peer().flags.announced.store(false, Relaxed);
    watched.is_in_a_poll(false);
    watched.looks_after(PACE_FAST);
    assert!(!watched.monitor.found.watchful);
    watched.peer().state.run(permit);
    watched.end();
}

#[test]
fn a_child_goes_to_others_once_two_looks_saw_that_its_poll_blocks() {
    let mut watched = Watched::new(runtime(), 2);
    let task = watched.task();
    let p = &watched.threads[0].p;
    p.forks.put_child(task, &p.peer.queues);
    // It comes back from a block that it announced, with a permit, and blocks once more.
    watched.peer().flags.announced.store(true, Relaxed);
    watched.begins();
    watched.peer().flags.announced.store(false, Relaxed);
    watched.blocks(true);
    assert!(!watched.looks_after(PACE_FAST));
    assert!(watched.peer().queues.has_child());
    assert!(watched.looks_after(PACE_FAST));
    assert!(!watched.peer().queues.has_child());
    assert_eq!(watched.shared().queues.grq.len(), 1);
    assert!(watched.peer().flags.gave_away.load(Relaxed));
    watched.end();
}

#[test]
fn a_new_poll_that_is_on_no_core_is_looked_at_again_at_once() {
    let mut watched = Watched::new(runtime(), 2);
    let again = |watched: &mut Watched, blocks, after| {
        watched.blocks(blocks);
        watched.peer().progress.ticks.fetch_add(1, Relaxed);
        watched.looks_after(after);
        watched.rest() == PACE_FAST
    };
    assert!(
        !again(&mut watched, true, PACE_BUSY),
        "nobody needs its permit"
    );
    watched.wants();
    assert!(!again(&mut watched, false, PACE_BUSY), "it computes");
    assert!(again(&mut watched, true, PACE_BUSY));
    assert!(!again(&mut watched, true, PACE_FAST), "not twice in a row");
    assert!(again(&mut watched, true, PACE_BUSY));
    let permit = watched.peer().state.revoke().expect("it had one");
    watched.looks_after(PACE_FAST);
    watched.peer().progress.ticks.fetch_add(1, Relaxed);
    watched.looks_after(PACE_BUSY);
    assert_ne!(watched.rest(), PACE_FAST, "it has no permit to lose");
    watched.peer().state.run(permit);
    watched.end();
}
