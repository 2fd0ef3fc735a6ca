//! L2: which polls are reported as stalls, when, and what is said. What the system knows of a thread is the stage's word here.

use std::sync::Mutex;

use super::*;
use crate::{
    sched::stall::{REPORT_EVERY, StallReport},
    task::Id,
};

const THRESHOLD: Duration = Duration::from_millis(20);
const MOMENT: Duration = Duration::from_nanos(1);

/// One of two threads is in the poll of a task, and what is said of it is kept.
struct Reported {
    watched: Watched,
    task: Task,
    reports: std::sync::Arc<Mutex<Vec<StallReport>>>,
}

impl Reported {
    fn new() -> Self {
        Self::with_threshold(THRESHOLD)
    }

    fn with_threshold(threshold: Duration) -> Self {
        let reports = std::sync::Arc::new(Mutex::new(Vec::new()));
        let hook = reports.clone();
        let builder = Builder::new().workers(2).sysmon(false);
        let builder = builder.stall_threshold(threshold);
        let builder = builder.on_stall(move |report| hook.lock().unwrap().push(report.clone()));
        let runtime = builder.build_with(Clock::stopped()).unwrap();
        let watched = Watched::new(runtime, 2);
        let task = watched.task();
        let address = task.header().address();
        watched.peer().running.store(address, Relaxed);
        Self {
            watched,
            task,
            reports,
        }
    }

    fn id(&self) -> Id {
        self.task.header().id()
    }

    /// Whether sysmon stays up for a poll that it may have to report.
    fn watches_after(&mut self, time: Duration) -> bool {
        self.watched.looks_after(time);
        self.watched.monitor.watches
    }

    /// What was said since the last call.
    fn said(&self) -> Option<StallReport> {
        let mut reports = self.reports.lock().unwrap();
        let report = reports.pop();
        assert!(reports.is_empty(), "more than one");
        report
    }

    /// The next poll begins, and goes on for so long.
    fn polls_for(&mut self, time: Duration) {
        self.watched.begins();
        self.watched.looks_after(time);
    }

    fn end(self) {
        self.watched.shared().push_foreign(self.task);
        self.watched.end();
    }
}

#[test]
fn a_poll_that_takes_too_long_is_reported_once() {
    let mut reported = Reported::new();
    for poll in 0..2 {
        reported.watched.begins();
        assert!(reported.watches_after(Duration::ZERO));
        assert!(reported.watches_after(THRESHOLD - MOMENT));
        assert!(reported.said().is_none(), "not yet");
        assert!(!reported.watches_after(MOMENT));
        let report = reported.said().expect("it is time");
        assert_eq!(report.id, reported.id());
        assert_eq!(report.running_for, THRESHOLD);
        assert!(!report.blocked && report.suppressed == 0, "{report:?}");
        assert!(!reported.watches_after(REPORT_EVERY));
        assert!(reported.said().is_none(), "poll {poll} is known");
    }
    reported.end();
}

/// Comes to a fork, as a computation does.
fn joins(watched: &Watched) {
    context::with_worker_frame(&watched.threads[0], || join(|| (), || ()));
}

#[test]
fn a_poll_that_comes_to_forks_is_not_reported() {
    let mut reported = Reported::new();
    reported.watched.begins();
    // It does not know yet that the poll forks. The last of these looks asks.
    assert!(reported.watches_after(THRESHOLD - MOMENT));
    for _ in 0..3 {
        joins(&reported.watched);
        assert!(reported.watches_after(MOMENT));
        assert!(reported.watches_after(THRESHOLD - MOMENT));
        assert!(reported.said().is_none(), "it came to a fork");
    }
    // One leaf that is too long, and another one.
    for _ in 0..2 {
        assert!(!reported.watches_after(MOMENT));
        let report = reported.said().expect("the same leaf goes on");
        assert_eq!(report.running_for, THRESHOLD);
        assert!(!reported.watches_after(REPORT_EVERY));
        assert!(reported.said().is_none(), "that leaf is known");
        joins(&reported.watched);
        assert!(reported.watches_after(MOMENT));
        assert!(reported.watches_after(THRESHOLD - MOMENT));
        assert!(reported.said().is_none(), "the next one is not");
    }
    reported.end();
}

/// The ask is for reports alone.
#[test]
fn a_long_poll_is_asked_to_come_by_if_its_stalls_are_reported() {
    let is_asked = |threshold: Option<Duration>| {
        let builder = Builder::new().workers(2).sysmon(false);
        let builder = builder.stall_threshold(threshold);
        let mut watched = Watched::new(builder.build_with(Clock::stopped()).unwrap(), 2);
        joins(&watched);
        watched.begins();
        assert!(
            watched.peer().lane.ask(),
            "it was not asked before the second look"
        );
        joins(&watched);
        watched.looks_after(MOMENT);
        let is_asked = !watched.peer().lane.ask();
        watched.end();
        is_asked
    };
    assert!(is_asked(Some(THRESHOLD)));
    assert!(!is_asked(None));
}

#[test]
fn it_stays_up_for_a_new_poll_and_not_for_who_is_in_none() {
    let mut reported = Reported::new();
    reported.watched.begins();
    assert!(reported.watched.monitor.watches);
    reported.watched.is_in_a_poll(false);
    for _ in 0..2 {
        assert!(!reported.watches_after(THRESHOLD));
    }
    assert!(reported.said().is_none());
    reported.end();
}

#[test]
fn a_poll_that_blocks_is_reported_also_if_its_permit_is_gone() {
    let mut reported = Reported::new();
    reported.watched.blocks(true);
    reported.polls_for(THRESHOLD);
    assert!(reported.said().expect("it is time").blocked);
    reported.watched.looks_after(REPORT_EVERY);
    reported.watched.begins();
    let standing = &reported.watched.peer().standing;
    let permit = standing.revoke().expect("nobody needed it");
    assert!(reported.watches_after(THRESHOLD - MOMENT));
    assert!(!reported.watches_after(MOMENT));
    let report = reported.said().expect("it is time");
    assert!(report.blocked && report.running_for == THRESHOLD);
    reported.watched.peer().standing.run(permit);
    reported.end();
}

#[test]
fn a_poll_that_was_reported_is_known_after_a_sleep() {
    let mut reported = Reported::new();
    reported.watched.begins();
    let shared = reported.watched.runtime.handle().shared().clone();
    // All others are idle.
    for thread in &reported.watched.threads {
        let permit = thread.bed().standing().revoke().expect("it had one");
        shared.idle.release(permit, None);
    }
    // Who computes keeps it awake.
    reported.watched.blocks(true);
    reported.watched.looks_after(THRESHOLD);
    assert!(reported.said().is_some());
    let monitor = &mut reported.watched.monitor;
    assert!((0..20).any(|_| matches!(monitor.rest(), Rest::ForGood)));
    monitor.get_up();
    for _ in 0..2 {
        assert!(!reported.watches_after(REPORT_EVERY));
    }
    assert!(reported.said().is_none(), "it is the same poll");
    reported.watched.peer().ticks.fetch_add(1, Relaxed);
    assert!(reported.watches_after(Duration::ZERO));
    reported.watched.looks_after(THRESHOLD);
    assert!(reported.said().is_some(), "it is another");
    reported.end();
}

#[test]
fn there_is_one_report_a_second_which_counts_the_others() {
    let mut reported = Reported::new();
    let mut suppressed = |time| {
        reported.polls_for(time);
        reported.said().map(|report| report.suppressed)
    };
    assert_eq!(suppressed(THRESHOLD), Some(0));
    assert_eq!(suppressed(THRESHOLD), None);
    assert_eq!(suppressed(THRESHOLD), None);
    assert_eq!(suppressed(REPORT_EVERY - 2 * THRESHOLD), Some(2));
    assert_eq!(suppressed(THRESHOLD), None);
    assert_eq!(suppressed(REPORT_EVERY - THRESHOLD - MOMENT), None);
    assert_eq!(suppressed(THRESHOLD), Some(2));
    reported.end();
}

/// A threshold of more nanoseconds than 64 bits hold is not one of what is left of it.
#[test]
fn a_threshold_of_centuries_is_never_reached() {
    let centuries = Duration::from_nanos(u64::MAX) + Duration::from_nanos(2);
    for threshold in [centuries, Duration::MAX] {
        let mut reported = Reported::with_threshold(threshold);
        reported.polls_for(Duration::from_secs(1));
        assert!(reported.said().is_none(), "{threshold:?}");
        reported.end();
    }
}
