//! What a viewer is told of a runtime: the page of `ws::inspect`, and a snapshot that is opened
//! when the program has ended.
//!
//! # One file for two viewers
//!
//! A snapshot is a trace of Perfetto with more packets: some with events among the others, and one
//! at the end. They have fields that Perfetto has no name for, so Perfetto passes them over. In
//! them is JSON: the events; and at the end tasks, counters and stalls, in the form in which the
//! live page gets them. So one file, written when something went wrong, opens in
//! <https://ui.perfetto.dev> and in `ws-inspect`.
//!
//! Rejected:
//!
//! - A second file beside the trace: one of the two is lost, and each has to be named.
//! - To read the page's data out of Perfetto's packets: they have no table of tasks, and tell of an
//!   event what Perfetto draws, and not what was recorded.
//! - The JSON alone, with the trace made of it later: then a user without `ws-inspect` has nothing
//!   that opens it.
//!
//! | file | has |
//! | --- | --- |
//! | `fields.rs` | what is told of a task, of a stall and of a runtime: a line for each |
//! | `json.rs` | how JSON is written |
//! | `file.rs` | the snapshot |
//! | `hosts.rs` | that of a simulation, which has many hosts |
//!
//! Checked by the tests below, of `file.rs` and of the crate `ws-inspect`.

mod fields;
mod file;
#[cfg(any(test, feature = "sim"))]
mod hosts;
mod json;
pub(super) mod kept;

pub(crate) use self::fields::lost_tasks;
#[cfg(any(test, feature = "sim"))]
pub use self::hosts::Trace;
pub use self::{
    fields::{Field, Fields, STALL_FIELDS, TASK_FIELDS, event_json, metrics_json},
    file::{EVENTS_FIELD, PACKET_FIELD},
    json::Json,
    kept::ShownStall,
};
use super::{
    Shared,
    stall::{StallPhase, StallReport},
};
use crate::policy::constants::STALLS_KEPT;

impl Shared {
    /// Keeps a report for viewers: the last one of each stall.
    pub(super) fn keep_stall(&self, report: &StallReport) {
        let lasted = report.running_for.as_nanos() as u64;
        let stall = ShownStall {
            began_ns: self.time.clock().now_ns().saturating_sub(lasted),
            report: report.clone(),
        };
        let mut stalls = self.telling.shown.stalls.lock();
        let same = stalls.iter_mut().rev().find(|kept| {
            kept.report.id == report.id
                && kept.report.phase != StallPhase::Ended
                && report.phase != StallPhase::Begun
        });
        match same {
            // The first report knows best when it began.
            Some(kept) => {
                let before = std::mem::replace(&mut kept.report, stall.report);
                // The last report has none.
                if !kept.report.stack.is_some() {
                    kept.report.stack = before.stack;
                }
            }
            None => {
                if stalls.len() == STALLS_KEPT {
                    stalls.pop_front();
                }
                stalls.push_back(stall);
            }
        }
    }

    /// The stalls that were reported last, the oldest first.
    pub(crate) fn shown_stalls(&self) -> Vec<ShownStall> {
        self.telling.shown.stalls.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::stall::tests::made_up, *};
    use crate::{
        cell::Id,
        runtime::{Builder, Runtime},
        timer::Clock,
    };

    /// Its clock stands at 50 ms.
    fn runtime() -> Runtime {
        let clock = Clock::stopped();
        clock.advance(Duration::from_millis(50));
        Builder::new().workers(1).build_with(clock).unwrap()
    }

    /// A report of that task is kept.
    fn keep(runtime: &Runtime, id: u64, phase: StallPhase) {
        runtime.handle().shared().keep_stall(&StallReport {
            id: Id::new(id),
            phase,
            ..made_up()
        });
    }

    /// The tasks of the stalls that are kept, and what was reported of them last.
    fn kept(runtime: &Runtime) -> Vec<(u64, StallPhase)> {
        let stalls = runtime.handle().shared().shown_stalls();
        let row = |stall: ShownStall| (stall.report.id.as_u64(), stall.report.phase);
        stalls.into_iter().map(row).collect()
    }

    // The reports of one stall are one row, and its begin is that of the first.
    #[test]
    fn a_stall_began_before_its_report() {
        let runtime = runtime();
        let shared = runtime.handle().shared();
        keep(&runtime, 1, StallPhase::Begun);
        let began = |ns| {
            let [stall] = &shared.shown_stalls()[..] else {
                panic!("one stall");
            };
            // It has lasted for 20 ms.
            assert_eq!(
                Duration::from_nanos(stall.began_ns),
                Duration::from_millis(ns)
            );
        };
        began(30);
        shared.time.clock().advance(Duration::from_millis(1));
        keep(&runtime, 1, StallPhase::GoesOn);
        began(30);
    }

    #[test]
    fn each_stall_of_a_task_is_a_row() {
        let runtime = runtime();
        keep(&runtime, 1, StallPhase::Begun);
        keep(&runtime, 2, StallPhase::Begun);
        keep(&runtime, 1, StallPhase::GoesOn);
        keep(&runtime, 1, StallPhase::Ended);
        let first = [(1, StallPhase::Ended), (2, StallPhase::Begun)];
        assert_eq!(kept(&runtime), first);
        keep(&runtime, 1, StallPhase::Begun);
        let both = [first[0], first[1], (1, StallPhase::Begun)];
        assert_eq!(kept(&runtime), both);
        // Nobody told that the first one ended: a runtime that ends tells no more.
        keep(&runtime, 2, StallPhase::Begun);
        assert_eq!(kept(&runtime).len(), 4);
        // What is over does not go on.
        keep(&runtime, 1, StallPhase::Ended);
        let third = [both[0], both[1], (1, StallPhase::Ended), both[1]];
        assert_eq!(kept(&runtime), third);
        keep(&runtime, 1, StallPhase::GoesOn);
        assert_eq!(kept(&runtime).len(), 5);
    }

    #[test]
    fn the_oldest_stall_goes() {
        let runtime = runtime();
        (1..=33).for_each(|id| keep(&runtime, id, StallPhase::Begun));
        let ids: Vec<_> = kept(&runtime).iter().map(|&(id, _)| id).collect();
        assert_eq!(ids, (2..=33).collect::<Vec<_>>());
    }
}
