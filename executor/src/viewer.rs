//! What viewers and exporters get of a runtime: the page of `ws::inspect`, and `ws::metrics`. Not a
//! public interface.

use std::path::Path;

pub use crate::{
    metrics::{Family, Sample, Value},
    recorder::NewEvents,
    sched::shown::{
        EVENTS_FIELD, Field, Fields, Json, PACKET_FIELD, STALL_FIELDS, ShownStall, TASK_FIELDS,
        event_json, metrics_json,
    },
};
use crate::{
    recorder::{Level, program},
    runtime::{Handle, TaskDump},
    sched::{Shared, shown},
};

/// A runtime, for a viewer.
#[derive(Debug)]
pub struct Viewer<'a> {
    shared: &'a Shared,
}

impl Handle {
    /// This runtime, for a viewer.
    #[doc(hidden)]
    pub fn viewer(&self) -> Viewer<'_> {
        Viewer {
            shared: self.shared(),
        }
    }
}

impl Viewer<'_> {
    /// The name of the program.
    pub fn program() -> String {
        program()
    }

    /// The runtime's clock, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.shared.time.clock().now_ns()
    }

    /// The events since the last call with this cursor, at most `most` of each ring. An empty
    /// cursor begins with all that is there.
    pub fn events_since(&self, cursor: &mut Vec<u64>, most: usize) -> NewEvents {
        self.shared.events_since(cursor, most)
    }

    /// What is recorded now.
    pub fn level(&self) -> Level {
        self.shared.recorded_level()
    }

    /// One more viewer wants all to be recorded, or one that did does not any more. When none does,
    /// the program's own choice holds, which is kept meanwhile.
    pub fn record_all(&self, wants_all: bool) {
        self.shared.record_for_viewer(wants_all);
    }

    /// The stalls that were reported last.
    pub fn stalls(&self) -> Vec<ShownStall> {
        self.shared.shown_stalls()
    }

    /// The tasks that no wake can reach any more.
    pub fn lost_tasks(&self) -> Vec<TaskDump> {
        shown::lost_tasks(self.shared)
    }

    /// Where snapshots are written to, if a folder is set.
    pub fn snapshot_folder(&self) -> Option<&Path> {
        self.shared.snapshot_folder()
    }
}
