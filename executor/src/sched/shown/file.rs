//! The snapshot: see the head of `shown.rs`.
//!
//! # Memory
//!
//! The file is written event by event. At a time there are:
//!
//! - [`COPIED`] records, and room to sort those of one ring,
//! - [`LIST`] bytes of events in JSON,
//! - what the writer of the trace keeps (`recorder/perfetto.rs`),
//! - a row for each live task.
//!
//! So a trace of any length takes the same memory. `inspect/tests` has a trace of 1 GB.

use std::{
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{Field, Json, STALL_FIELDS, TASK_FIELDS, fields};
use crate::{
    recorder::{Known, Merged, Process, Writer, began},
    sched::Shared,
};

/// The field of the last packet, which Perfetto passes over: "ws", as two bytes.
pub const PACKET_FIELD: u64 = 0x7773;

/// The field of packets with events, which Perfetto passes over: "we", as two bytes. In it are the
/// elements of a list in JSON, without its brackets. The packets are in the order of time.
pub const EVENTS_FIELD: u64 = 0x7765;

/// Records that are copied at a time: 64 MiB. Guessed: 64 rings of the default size fit, and what
/// fits is copied before the writers get on.
const COPIED: usize = 1 << 22;

/// From so many bytes on, a list of events is written.
pub(super) const LIST: usize = 1 << 16;

impl Shared {
    /// Writes a snapshot.
    pub(crate) fn write_snapshot(&self, out: impl io::Write) -> io::Result<()> {
        let peers: Vec<_> = self.all_peers().collect();
        let mut events = self.merged(&peers, COPIED);
        let now = Duration::from_nanos(self.time.clock().now_ns());
        let tasks = self.recorded_tasks();
        let began = began(self.time.clock());
        let known = Known {
            began,
            tasks: &tasks,
            process: Process::THIS,
        };
        let mut trace = Writer::new(known, out)?;
        let mut list = Json::default();
        while let Some(event) = events.next() {
            trace.whole_since(events.whole_since());
            trace.event(&event)?;
            fields::event_json(&event, &mut list);
            if list.as_str().len() >= LIST {
                trace.beside(EVENTS_FIELD, list.as_str().as_bytes())?;
                list.clear();
            }
        }
        if !list.as_str().is_empty() {
            trace.beside(EVENTS_FIELD, list.as_str().as_bytes())?;
        }
        let json = self.snapshot_json(&events, now, began);
        trace.beside(PACKET_FIELD, json.as_bytes())?;
        trace.end()
    }

    /// What the page shows beside the events.
    fn snapshot_json(&self, events: &Merged<'_>, now: Duration, began: SystemTime) -> String {
        let began = began.duration_since(UNIX_EPOCH);
        Json::object(|json| {
            json.key("format").text("ws-snapshot 2");
            json.key("program").text(&crate::recorder::program());
            json.key("pid").number(std::process::id().into());
            json.key("began_ms")
                .number(began.unwrap_or_default().as_millis() as u64);
            json.key("now").number(now.as_nanos() as u64);
            json.key("level")
                .text(&format!("{:?}", self.recorded_level()).to_lowercase());
            json.key("whole_since")
                .number(events.whole_since().as_nanos() as u64);
            json.key("metrics");
            fields::metrics_json(&self.metrics(), json);
            json.key("tasks").list(|list| {
                for task in self.dump() {
                    Field::row(TASK_FIELDS, &task, list);
                }
            });
            json.key("stalls").list(|list| {
                for stall in self.shown_stalls() {
                    Field::row(STALL_FIELDS, &stall, list);
                }
            });
            json.key("lost").list(|list| {
                for task in fields::lost_tasks(self) {
                    Field::row(TASK_FIELDS, &task, list);
                }
            });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::stall::tests::made_up, *};
    use crate::{
        recorder::Level,
        runtime::{Builder, Runtime},
        task,
    };

    /// What a snapshot of it has beside the events, and since when its events are whole.
    fn json(runtime: &Runtime) -> (String, Duration) {
        let shared = runtime.handle().shared();
        let peers: Vec<_> = shared.all_peers().collect();
        let events = shared.merged(&peers, COPIED);
        let began = UNIX_EPOCH + Duration::from_micros(1_234_567_890);
        let json = shared.snapshot_json(&events, Duration::from_nanos(7_654_321), began);
        (json, events.whole_since())
    }

    #[test]
    fn it_says_of_which_process_and_of_when_it_is() {
        for level in [Level::Off, Level::Sparse, Level::Full] {
            let builder = Builder::new().workers(1).record(level);
            let runtime = builder.build().unwrap();
            let (json, whole_since) = json(&runtime);
            let program = crate::recorder::program();
            let start = format!(
                r#"{{"format":"ws-snapshot 2","program":"{program}","pid":{},"began_ms":1234567,"now":7654321,"level":"{}","whole_since":{},"metrics":{{"#,
                std::process::id(),
                format!("{level:?}").to_lowercase(),
                whole_since.as_nanos(),
            );
            assert!(json.starts_with(&start), "{json}");
        }
    }

    // More than the ring has room for was recorded.
    #[test]
    fn it_says_since_when_its_events_are_whole() {
        let builder = Builder::new().workers(1).record(Level::Full);
        let runtime = builder.recorder(1 << 12).build().unwrap();
        let yields = runtime.spawn(async {
            for _ in 0..5_000 {
                task::yield_now().await;
            }
        });
        runtime.block_on(yields).unwrap();
        let (json, whole_since) = json(&runtime);
        assert!(!whole_since.is_zero());
        let since = format!(r#""whole_since":{},"#, whole_since.as_nanos());
        assert!(json.contains(&since), "{json}");
    }

    #[test]
    fn it_has_stalls_and_lost_tasks() {
        let runtime = Builder::new().workers(1).build().unwrap();
        let shared = runtime.handle().shared();
        let task = runtime.spawn(std::future::pending::<()>());
        while fields::lost_tasks(shared).is_empty() {
            std::thread::yield_now();
        }
        shared.keep_stall(&made_up());
        let (json, _) = json(&runtime);
        let stalls = r#""stalls":[{"id":7,"name":"slow","began":"#;
        assert!(json.contains(stalls), "{json}");
        let lost = format!(r#""lost":[{{"id":{},"#, task.id());
        assert!(json.contains(&lost), "{json}");
    }
}
