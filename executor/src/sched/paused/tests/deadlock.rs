//! When nothing can wake, and how long the verdict waits.

use super::*;

// --- nothing can wake ---

#[test]
fn it_is_a_deadlock_where_nothing_can_wake() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    let root = waiting_root();
    let enrolled = shared.enroll(&root);
    let panics = || catch_unwind(AssertUnwindSafe(|| shared.assert_not_stuck())).is_err();
    assert!(!panics());
    assert!(waits(&worker), "a thread of others could be at it");
    assert!(is_stuck(shared) && panics());
    assert!(root.is_notified(), "its thread is to hear of it");
    paused(shared).wake_up();
    let nested = || shared.park_above(true, || ());
    assert!(catch_unwind(AssertUnwindSafe(nested)).is_err());
    paused(shared).fall_asleep();
    drop(enrolled);
    end(runtime, [worker]);
}

#[test]
fn a_hold_puts_the_verdict_off() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    let enrolled = shared.enroll(&waiting_root());
    shared.hold_clock();
    assert!(waits(&worker));
    assert!(!is_stuck(shared));
    shared.let_clock_go();
    assert!(waits(&worker));
    assert!(is_stuck(shared));
    drop(enrolled);
    end(runtime, [worker]);
}

#[test]
fn a_socket_may_wake_at_any_time() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    let (_sender, mut receiver, source) = watched(shared);
    assert!(!worker.begin_park(), "nothing is queued");
    let enrolled = shared.enroll(&waiting_root());
    assert!(waits(&worker));
    assert!(!is_stuck(shared));
    source.deregister(&mut receiver).unwrap();
    assert!(waits(&worker));
    assert!(is_stuck(shared));
    drop(enrolled);
    end(runtime, [worker]);
}

/// Whether it is one after a wait that `deadlock_after` ends, or an interrupt.
fn is_given(shared: &Shared, ready: &mut Vec<Waker>) -> bool {
    shared.io.netpoll.interrupt();
    let mut poller = shared.io.netpoll.try_poller().expect("nobody is there");
    poller.prepare();
    shared.wait_for_the_verdict(paused(shared), &mut poller, ready);
    std::mem::take(&mut paused(shared).state.lock().stuck)
}

#[test]
fn what_came_while_the_verdict_was_waited_for_is_no_deadlock() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = parked(&runtime);
    paused(shared).fall_asleep();
    assert!(is_given(shared, &mut Vec::new()));
    let mut came = vec![Waker::noop().clone()];
    assert!(!is_given(shared, &mut came), "the netpoll brought it");
    let permit = shared.idle.acquire().expect("nobody has it");
    assert!(!is_given(shared, &mut Vec::new()), "somebody was woken");
    shared.idle.release(permit, None);
    paused(shared).wake_up();
    assert!(!is_given(shared, &mut Vec::new()), "somebody is awake");
    paused(shared).fall_asleep();
    assert!(is_given(shared, &mut Vec::new()), "all of that is over");
    arm(&worker, 300);
    assert!(!is_given(shared, &mut Vec::new()), "a timer was armed");
    paused(shared).wake_up();
    end(runtime, [worker]);
}

#[test]
fn there_is_no_verdict_before_the_time_is_over() {
    let runtime = runtime_with(Duration::from_secs(3600));
    let shared = runtime.handle().shared();
    assert!(!is_given(shared, &mut Vec::new()));
    assert!(!is_interrupted(shared), "that ended the wait");
}

#[test]
fn a_verdict_names_some_of_those_that_wait() {
    let runtime = runtime();
    let shared = runtime.handle().shared();
    let worker = thread(&runtime);
    let verdict = |tasks| {
        let _entered = runtime.enter();
        for _ in 0..tasks {
            let named = crate::task::Builder::new().name("waits");
            drop(named.spawn(pending::<()>()));
        }
        shared.verdict(paused(shared))
    };
    let text = verdict(NAMED_MAX);
    let names = |text: &str| text.matches("\"waits\" waits, spawned at").count();
    assert!(text.starts_with("deadlock: "), "{text}");
    assert_eq!(names(&text), NAMED_MAX);
    assert!(!text.contains("\n  and"), "these are all: {text}");
    let text = verdict(1);
    assert_eq!(names(&text), NAMED_MAX);
    assert!(text.ends_with("\n  and 1 more"), "{text}");
    end(runtime, [worker]);
}
