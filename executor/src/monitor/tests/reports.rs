//! L2: which polls are reported as stalls, when, and what is said. What the system knows of a
//! thread is what the simulator says here.

use std::sync::Mutex;

use super::*;
use crate::{
    cell::Id,
    runtime::{StallKind, StallPhase, StallReport},
    sched::stall::Stalling,
    throttle::REPORT_EVERY,
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
        let builder = Builder::new().workers(2).sysmon(Sysmon::Off);
        let builder = builder.stall_threshold(threshold);
        let builder = builder.on_stall(move |report| hook.lock().unwrap().push(report.clone()));
        let runtime = builder.build_with(Clock::stopped()).unwrap();
        let watched = Watched::new(runtime, 2);
        let task = watched.task();
        let address = task.header().address();
        watched.peer().progress.running.store(address, Relaxed);
        Self {
            watched,
            task,
            reports,
        }
    }

    fn id(&self) -> Id {
        self.task.header().id()
    }

    /// Whether the monitor stays up for a poll that it may have to report.
    fn watches_after(&mut self, time: Duration) -> bool {
        self.watched.looks_after(time);
        self.watched.monitor.found.watches
    }

    /// What was said since the last call.
    fn said(&self) -> Option<StallReport> {
        let mut reports = self.reports.lock().unwrap();
        let report = reports.pop();
        assert!(reports.is_empty(), "more than one");
        report
    }

    /// The same, if it was that a stall has begun.
    fn begun(&self) -> Option<StallReport> {
        let report = self.said()?;
        assert_eq!(report.phase, StallPhase::Begun);
        Some(report)
    }

    /// Nothing was said but that a stall of that time is over.
    fn ended(&self, time: Duration) -> StallReport {
        let report = self.said().expect("its begin was reported");
        let seen = (report.phase, report.running_for, report.id);
        assert_eq!(seen, (StallPhase::Ended, time, self.id()));
        report
    }

    /// All threads are idle, but that this one is stuck in its poll.
    fn is_alone(&self) {
        for thread in &self.watched.threads {
            let permit = thread.own_peer().state().revoke().expect("it had one");
            self.watched.shared().idle.release(permit, None);
        }
        // A thread that computes keeps the monitor awake.
        self.watched.blocks(true);
    }

    /// The monitor sleeps for good: for how long, if nobody wakes it.
    fn sleeps(&mut self) -> Option<Duration> {
        let mut rests = (0..20).map(|_| self.watched.monitor.rest());
        let slept = rests.find_map(|rest| match rest {
            Rest::ForGood(repeat) => Some(repeat),
            Rest::For(_) => None,
        });
        slept.expect("it sleeps")
    }

    /// The next poll begins, and goes on for the given time.
    fn polls_for(&mut self, time: Duration) {
        self.watched.begins();
        // The last one has ended.
        self.reports.lock().unwrap().clear();
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
        let report = reported.begun().expect("it is time");
        assert_eq!(report.id, reported.id());
        assert_eq!(report.running_for, THRESHOLD);
        assert_eq!(report.cpu_time, Some(THRESHOLD));
        assert_eq!((report.kind, report.suppressed), (StallKind::Computing, 0));
        assert!(!reported.watches_after(REPORT_EVERY - MOMENT));
        assert!(reported.said().is_none(), "poll {poll} is known");
        reported.watched.begins();
        reported.ended(THRESHOLD + REPORT_EVERY - MOMENT);
        reported.watched.begins();
        assert!(reported.said().is_none(), "it is over once");
        reported.watched.advance(MOMENT);
    }
    reported.end();
}

/// How long a stall has lasted at its reports.
#[test]
fn a_stall_that_goes_on_is_reported_each_time_it_has_doubled() {
    let mut reported = Reported::new();
    reported.watched.begins();
    reported.watched.looks_after(THRESHOLD);
    assert!(reported.begun().is_some());
    let mut lasted = THRESHOLD;
    for next in [THRESHOLD + REPORT_EVERY, 2 * (THRESHOLD + REPORT_EVERY)] {
        reported.watched.looks_after(next - lasted - MOMENT);
        assert!(reported.said().is_none(), "not yet");
        reported.watched.looks_after(MOMENT);
        lasted = next;
        let report = reported.said().expect("it is time");
        assert_eq!(
            (report.phase, report.running_for),
            (StallPhase::GoesOn, lasted)
        );
        assert_eq!(report.cpu_time, Some(lasted));
    }
    reported.watched.begins();
    reported.ended(lasted);
    reported.end();
}

#[test]
fn a_stall_is_over_where_its_poll_is() {
    type Ends = fn(&mut Reported);
    let forks: Ends = |reported| joins(&reported.watched);
    let announces: Ends = |reported| reported.watched.peer().flags.announced.store(true, Relaxed);
    let is_in_no_poll: Ends = |reported| reported.watched.is_in_a_poll(false);
    for ends in [forks, announces, is_in_no_poll] {
        let mut reported = Reported::new();
        reported.polls_for(THRESHOLD);
        assert!(reported.begun().is_some());
        ends(&mut reported);
        reported.watched.looks_after(MOMENT);
        reported.ended(THRESHOLD + MOMENT);
        reported.watched.looks_after(MOMENT);
        assert!(reported.said().is_none(), "once");
        reported
            .watched
            .peer()
            .flags
            .announced
            .store(false, Relaxed);
        reported.end();
    }
}

/// Its thread ends between two looks.
#[test]
fn a_stall_is_over_where_its_thread_is() {
    let mut reported = Reported::new();
    reported.polls_for(THRESHOLD);
    assert!(reported.begun().is_some());
    reported.watched.is_in_a_poll(false);
    reported.watched.threads.remove(0).leave();
    reported.watched.looks_after(MOMENT);
    reported.ended(THRESHOLD + MOMENT);
    reported.watched.looks_after(MOMENT);
    assert!(reported.said().is_none(), "once");
    reported.watched.shared().push_foreign(reported.task);
    end(reported.watched.runtime, reported.watched.threads);
}

#[test]
fn a_report_tells_who_computes_who_blocks_and_who_waits_for_a_core() {
    const NONE: Duration = Duration::ZERO;
    let quarter = THRESHOLD / 4;
    // The CPU time up to the last look before the report, and up to the report; whether the thread
    // waits for something other than a core then and now.
    let cases = [
        (
            THRESHOLD - MOMENT,
            THRESHOLD,
            [false; 2],
            StallKind::Computing,
        ),
        (quarter, quarter, [true; 2], StallKind::Computing),
        (quarter - MOMENT, quarter, [true; 2], StallKind::Computing),
        (NONE, NONE, [true; 2], StallKind::Blocked),
        (NONE, NONE, [false, true], StallKind::Blocked),
        (NONE, NONE, [true, false], StallKind::Blocked),
        (NONE, quarter - MOMENT, [false, true], StallKind::Blocked),
        (
            quarter - MOMENT,
            quarter - MOMENT,
            [false; 2],
            StallKind::Descheduled,
        ),
        (NONE, quarter - MOMENT, [false; 2], StallKind::Descheduled),
    ];
    for (before, cpu_time, waits, kind) in cases {
        let mut reported = Reported::new();
        let look = |reported: &mut Reported, time, cpu: Duration, waits| {
            reported.watched.blocks(waits);
            let sim_threads = sim_threads(&reported.watched.runtime);
            *sim_threads.cpu_time.lock() = Some(7 + cpu.as_nanos() as u64);
            reported.watched.looks_after(time);
        };
        reported.watched.peer().progress.ticks.fetch_add(1, Relaxed);
        look(&mut reported, NONE, NONE, false);
        look(&mut reported, THRESHOLD - MOMENT, before, waits[0]);
        look(&mut reported, MOMENT, cpu_time, waits[1]);
        let report = reported.begun().expect("it is time");
        assert_eq!((report.kind, report.cpu_time), (kind, Some(cpu_time)));
        reported.end();
    }
}

/// What it does after its first report counts as well, and the system is asked for that.
#[test]
fn the_last_report_tells_of_the_whole_time() {
    let mut reported = Reported::new();
    reported.polls_for(THRESHOLD);
    assert_eq!(
        reported.begun().expect("it is time").kind,
        StallKind::Computing
    );
    let cpu = reported.watched.shared().time.clock().now_ns();
    *sim_threads(&reported.watched.runtime).cpu_time.lock() = Some(cpu);
    reported.watched.blocks(true);
    reported.watched.looks_after(4 * THRESHOLD);
    reported.watched.looks_after(MOMENT);
    reported.watched.begins();
    let report = reported.ended(5 * THRESHOLD + MOMENT);
    assert_eq!(
        (report.kind, report.cpu_time),
        (StallKind::Blocked, Some(THRESHOLD))
    );
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
        let report = reported.begun().expect("the same leaf goes on");
        assert_eq!(
            (report.running_for, report.cpu_time),
            (THRESHOLD, Some(THRESHOLD))
        );
        assert!(!reported.watches_after(REPORT_EVERY - MOMENT));
        assert!(reported.said().is_none(), "that leaf is known");
        joins(&reported.watched);
        assert!(reported.watches_after(MOMENT));
        reported.ended(THRESHOLD + REPORT_EVERY);
        assert!(reported.watches_after(THRESHOLD - MOMENT));
        assert!(reported.said().is_none(), "the next one is not");
    }
    reported.end();
}

/// The ask is for reports alone.
#[test]
fn a_long_poll_is_asked_to_come_by_if_its_stalls_are_reported() {
    let is_asked = |threshold: Option<Duration>| {
        let builder = Builder::new().workers(2).sysmon(Sysmon::Off);
        let builder = builder.stall_threshold(threshold);
        let mut watched = Watched::new(builder.build_with(Clock::stopped()).unwrap(), 2);
        joins(&watched);
        watched.begins();
        assert!(
            watched.peer().queues.branch_deque.ask(),
            "it was not asked before the second look"
        );
        joins(&watched);
        watched.looks_after(MOMENT);
        let is_asked = !watched.peer().queues.branch_deque.ask();
        watched.end();
        is_asked
    };
    assert!(is_asked(Some(THRESHOLD)));
    assert!(!is_asked(None));
}

#[test]
fn it_stays_up_for_a_new_poll_and_not_for_one_that_is_in_none() {
    let mut reported = Reported::new();
    reported.watched.begins();
    assert!(reported.watched.monitor.found.watches);
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
    assert_eq!(
        reported.begun().expect("it is time").kind,
        StallKind::Blocked
    );
    reported.watched.looks_after(REPORT_EVERY - MOMENT);
    reported.watched.begins();
    reported.ended(THRESHOLD + REPORT_EVERY - MOMENT);
    reported.watched.advance(MOMENT);
    reported.watched.begins();
    let state = &reported.watched.peer().state;
    let permit = state.revoke().expect("nobody needed it");
    assert!(reported.watches_after(THRESHOLD - MOMENT));
    assert!(!reported.watches_after(MOMENT));
    let report = reported.begun().expect("it is time");
    assert_eq!(
        (report.kind, report.running_for),
        (StallKind::Blocked, THRESHOLD)
    );
    reported.watched.peer().state.run(permit);
    reported.end();
}

/// The monitor sleeps beside a thread that is stuck, up to the next report. Whoever takes a permit
/// wakes it.
#[test]
fn a_stall_that_was_reported_is_known_after_a_sleep() {
    let mut reported = Reported::new();
    reported.watched.begins();
    reported.is_alone();
    reported.watched.looks_after(THRESHOLD);
    assert!(reported.begun().is_some());
    assert_eq!(reported.sleeps(), Some(REPORT_EVERY));
    reported.watched.monitor.wake_up();
    reported.watched.looks_after(REPORT_EVERY);
    let report = reported.said().expect("it is time");
    assert_eq!(report.phase, StallPhase::GoesOn);
    assert_eq!(report.running_for, THRESHOLD + REPORT_EVERY);
    assert_eq!(reported.sleeps(), Some(THRESHOLD + REPORT_EVERY));
    // It is woken before that.
    reported.watched.monitor.wake_up();
    reported.watched.advance(REPORT_EVERY);
    reported.watched.begins();
    reported.ended(THRESHOLD + 2 * REPORT_EVERY);
    assert!(reported.watches_after(THRESHOLD - MOMENT));
    reported.watched.looks_after(MOMENT);
    assert!(reported.begun().is_some(), "it is another poll");
    reported.end();
}

#[test]
fn a_stall_that_was_not_reported_is_known_after_a_sleep() {
    let mut reported = Reported::new();
    reported.polls_for(THRESHOLD);
    assert!(reported.begun().is_some());
    reported.polls_for(THRESHOLD);
    assert!(reported.said().is_none(), "there are too many");
    reported.is_alone();
    assert_eq!(reported.sleeps(), None);
    reported.watched.monitor.wake_up();
    for _ in 0..2 {
        assert!(!reported.watches_after(REPORT_EVERY));
    }
    assert!(reported.said().is_none(), "it is the same poll");
    reported.watched.begins();
    assert!(reported.said().is_none(), "nobody has heard of its begin");
    reported.watched.looks_after(THRESHOLD);
    assert_eq!(reported.begun().expect("it is another").suppressed, 1);
    reported.end();
}

/// They take no turn from those that are new, and have one a second for themselves.
#[test]
fn stalls_that_go_on_take_turns() {
    use StallPhase::{Begun, GoesOn};

    let mut reported = Reported::new();
    let address = reported.task.header().address();
    let second_polls = |reported: &Reported, polls: bool| {
        let running = &reported.watched.threads[1].own_peer().progress.running;
        running.store(if polls { address } else { 0 }, Relaxed);
    };
    let said_after = |reported: &mut Reported, time| {
        reported.watched.looks_after(time);
        let said = std::mem::take(&mut *reported.reports.lock().unwrap());
        let said = said.iter().map(|said| (said.phase, said.running_for));
        said.collect::<Vec<_>>()
    };
    reported.watched.begins();
    assert_eq!(said_after(&mut reported, THRESHOLD), [(Begun, THRESHOLD)]);
    assert_eq!(said_after(&mut reported, REPORT_EVERY - THRESHOLD), []);
    second_polls(&reported, true);
    assert_eq!(said_after(&mut reported, Duration::ZERO), []);
    let lasted = REPORT_EVERY + THRESHOLD;
    let both = [(GoesOn, lasted), (Begun, THRESHOLD)];
    assert_eq!(said_after(&mut reported, THRESHOLD), both);
    // Now both are due together.
    assert_eq!(said_after(&mut reported, lasted), [(GoesOn, 2 * lasted)]);
    let turn = reported.watched.shared().time.clock().now_ns() + REPORT_EVERY.as_nanos() as u64;
    let repeats_at = reported.watched.monitor.reports.repeats_at();
    assert_eq!(
        repeats_at,
        Some(turn),
        "the monitor may sleep up to its turn"
    );
    assert_eq!(said_after(&mut reported, REPORT_EVERY - MOMENT), []);
    assert_eq!(said_after(&mut reported, MOMENT), [(GoesOn, 2 * lasted)]);
    second_polls(&reported, false);
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

#[test]
fn the_end_of_a_stall_counts_those_that_were_not_reported_since_its_begin() {
    let mut reported = Reported::new();
    let address = reported.task.header().address();
    reported.polls_for(THRESHOLD);
    assert_eq!(reported.begun().expect("it is time").suppressed, 0);
    let second = &reported.watched.threads[1].own_peer().progress.running;
    second.store(address, Relaxed);
    reported.watched.looks_after(Duration::ZERO);
    reported.watched.looks_after(THRESHOLD);
    assert!(reported.said().is_none(), "there are too many");
    reported.watched.begins();
    assert_eq!(reported.ended(2 * THRESHOLD).suppressed, 1);
    reported.watched.looks_after(REPORT_EVERY);
    assert_eq!(reported.begun().expect("it is time").suppressed, 0, "once");
    let second = &reported.watched.threads[1].own_peer().progress.running;
    second.store(0, Relaxed);
    reported.end();
}

#[test]
fn no_stall_is_reported_of_a_task_whose_poll_began_after_the_look() {
    let mut reported = Reported::new();
    reported.watched.advance(THRESHOLD);
    for polls in [1, 0] {
        let stalls = Stalling::begin(0, None, 0);
        let measured = stalls.measure(THRESHOLD.as_nanos() as u64, None);
        let verdict = Verdict {
            stall: Some((StallPhase::Begun, measured)),
            ..Verdict::default()
        };
        reported.watched.begins();
        reported.watched.acts(polls, verdict);
        assert_eq!(reported.begun().is_some(), polls == 0);
    }
    reported.end();
}

/// A span that would end after the clock went back is taken from there.
#[test]
fn a_clock_that_goes_back_silences_no_report() {
    const BACK: Duration = Duration::from_secs(60);

    let mut reported = Reported::new();
    let goes_back = |reported: &Reported| reported.watched.goes_back(BACK);
    reported.watched.advance(2 * BACK);
    reported.polls_for(THRESHOLD);
    assert!(reported.begun().is_some());
    // The next poll begins after that.
    goes_back(&reported);
    reported.polls_for(THRESHOLD);
    assert!(reported.begun().is_some(), "the last report was long ago");
    // This one is in the middle of its stall, which is as if it began now.
    goes_back(&reported);
    reported.watched.looks_after(Duration::ZERO);
    assert!(reported.said().is_none());
    reported.watched.looks_after(REPORT_EVERY + THRESHOLD);
    let report = reported.said().expect("the last report was long ago");
    assert_eq!(report.phase, StallPhase::GoesOn);
    assert_eq!(report.running_for, REPORT_EVERY + THRESHOLD);
    reported.end();
}

#[test]
fn a_poll_that_began_before_the_clock_went_back_is_reported() {
    const BACK: Duration = Duration::from_secs(60);

    let mut reported = Reported::new();
    reported.watched.advance(2 * BACK);
    reported.watched.begins();
    reported.watched.goes_back(BACK);
    reported.watched.looks_after(Duration::ZERO);
    reported.watched.looks_after(THRESHOLD - MOMENT);
    assert!(reported.said().is_none(), "not yet");
    reported.watched.looks_after(MOMENT);
    let report = reported.begun().expect("it is time");
    assert_eq!(report.running_for, THRESHOLD);
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
