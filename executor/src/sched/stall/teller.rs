//! Which thread tells of stalls, if no hook does.
//!
//! # *Reports are told elsewhere*
//!
//! To show a stack may take hundreds of milliseconds, and the monitor rescues blocked threads
//! meanwhile. So a report with a stack is told by a thread of its own. It is started for the
//! report, and ends when there is nothing more to tell, as the one that writes snapshots
//! (`snapshots.rs`). The end of the runtime joins it.
//!
//! *Reports are told in their order.* While there is such a thread, it tells all of them, also
//! those without a stack. Else the end of a stall would be told before its begin, and the limit of
//! one line a second would leave out the begin.
//!
//! If the system refuses the thread, the monitor tells the report without its stack.
//!
//! Rejected: one thread for the whole life of a runtime. It would cost a thread where nothing ever
//! stalls.
//!
//! A hook runs on the monitor's thread as ever. It can pass the report on.
//!
//! Checked by `tests/reports_reach_stderr.rs`, and by the tests below.

use super::{StallPhase, StallReport, StallStack};
use crate::{
    permit::phase::ShutdownEnv,
    policy::constants::WAITING_MAX,
    sched::Shared,
    sync::{Arc, thread},
};

impl Shared {
    /// Tells of a stall, here or on another thread.
    pub(super) fn tell_stall(&self, report: &StallReport) {
        let mut waiting = self.telling.stalls.waiting.lock();
        if !waiting.tells && !report.stack.is_some() {
            drop(waiting);
            return tell(self, report);
        }
        if waiting.reports.len() < WAITING_MAX {
            waiting.reports.push_back(report.clone());
        }
        if std::mem::replace(&mut waiting.tells, true) {
            return;
        }
        drop(waiting);
        let shared = self.strong();
        let builder = thread::Builder::new().name(format!("{}-stall", self.config.name));
        let started = self.start(builder, move || {
            // Also if a subscriber panics.
            let over = Over(&shared);
            while let Some(report) = over.next() {
                tell(&shared, &report);
            }
            drop(over);
            shared.join_the_one_before();
        });
        if started.is_err() {
            self.tell_without_a_thread();
        }
    }

    /// The system has refused the thread: tells what waits for it.
    fn tell_without_a_thread(&self) {
        let reports = {
            let mut waiting = self.telling.stalls.waiting.lock();
            waiting.tells = false;
            std::mem::take(&mut waiting.reports)
        };
        for mut report in reports {
            report.stack = StallStack::none("no thread could be started to show it");
            tell(self, &report);
        }
    }
}

/// The thread that tells.
struct Over<'a>(&'a Arc<Shared>);

impl Over<'_> {
    /// None: it is over, and another report needs another thread.
    fn next(&self) -> Option<StallReport> {
        let mut waiting = self.0.telling.stalls.waiting.lock();
        let next = waiting.reports.pop_front();
        waiting.tells = next.is_some();
        next
    }
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.telling.stalls.waiting.lock().tells = false;
        }
    }
}

fn tell(shared: &Shared, stall: &StallReport) {
    macro_rules! warn {
        ($message:literal) => {
            tracing::warn!(
                task.id = %stall.id,
                task.name = stall.name.as_deref(),
                spawned.at = %stall.location,
                phase = ?stall.phase,
                kind = ?stall.kind,
                running_for = ?stall.running_for,
                cpu_time = stall.cpu_time.map(tracing::field::debug),
                suppressed = stall.suppressed,
                system_call = stall.system_call.map(tracing::field::display),
                stack = (stall.phase != StallPhase::Ended).then(|| tracing::field::display(&stall.stack)),
                $message
            )
        };
    }
    let event = || match stall.phase {
        StallPhase::Begun | StallPhase::GoesOn => warn!("a task holds its thread for long"),
        StallPhase::Ended => warn!("a task held its thread for long"),
    };
    shared.telling.reports.tell(event, stall);
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
        time::Duration,
    };

    use super::{super::tests::made_up, *};
    use crate::{
        cell::Id,
        runtime::Runtime,
        sched::{shutdown::tests::reported, stall::StallKind},
    };

    // Without a stack, the caller tells it.
    #[test]
    fn a_report_tells_all_that_it_has() {
        let runtime = Runtime::new().unwrap();
        let told = |report: &StallReport| {
            let lines = reported(|| runtime.handle().shared().tell_stall(report));
            let [line] = &lines[..] else {
                panic!("one line: {lines:?}");
            };
            line.clone()
        };
        let mut report = StallReport {
            kind: StallKind::Descheduled,
            suppressed: 3,
            ..made_up()
        };
        let who = format!(
            "task.id=7 task.name=\"slow\" spawned.at={}",
            report.location
        );
        let what = "kind=Descheduled running_for=20ms cpu_time=1ms suppressed=3";
        let begun = format!(
            "WARN message=a task holds its thread for long {who} phase=Begun {what} \
             stack=      no stack: a test"
        );
        assert_eq!(told(&report), begun);
        report.phase = StallPhase::Ended;
        let ended =
            format!("WARN message=a task held its thread for long {who} phase=Ended {what}");
        assert_eq!(told(&report), ended);
    }

    // The thread that tells is stuck in a subscriber, as it were.
    #[test]
    fn so_many_wait_at_most() {
        let runtime = Runtime::new().unwrap();
        let shared = runtime.handle().shared();
        shared.telling.stalls.waiting.lock().tells = true;
        for number in 0..40 {
            let report = StallReport {
                id: Id::new(number),
                running_for: Duration::from_secs(number),
                ..made_up()
            };
            shared.tell_stall(&report);
        }
        let waiting = shared.telling.stalls.waiting.lock();
        let ids: Vec<_> = waiting.reports.iter().map(|it| it.id.as_u64()).collect();
        assert_eq!(ids, (0..32).collect::<Vec<_>>());
    }

    // Without a stack, the caller tells it if no thread does.
    #[test]
    fn what_comes_after_a_refused_thread_is_told_as_well() {
        let runtime = Runtime::new().unwrap();
        let shared = runtime.handle().shared();
        // As the caller leaves it that asks for the thread.
        shared.telling.stalls.waiting.lock().tells = true;
        shared.tell_stall(&made_up());
        let lines = reported(|| shared.tell_without_a_thread());
        let why = "stack=      no stack: no thread could be started to show it";
        assert!(lines.len() == 1 && lines[0].ends_with(why), "{lines:?}");
        let lines = reported(|| shared.tell_stall(&made_up()));
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[test]
    fn what_comes_after_a_thread_that_panicked_is_told_as_well() {
        let runtime = Runtime::new().unwrap();
        let shared = runtime.handle().shared();
        shared.telling.stalls.waiting.lock().tells = true;
        let panics = AssertUnwindSafe(|| {
            let _over = Over(shared);
            resume_unwind(Box::new("expected: it panics"));
        });
        let panicked = catch_unwind(panics);
        panicked.unwrap_err();
        let lines = reported(|| shared.tell_stall(&made_up()));
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
}
