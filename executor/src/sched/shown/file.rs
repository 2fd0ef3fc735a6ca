//! The snapshot: see the head of `shown.rs`.

use std::{
    io,
    time::{Duration, UNIX_EPOCH},
};

use super::{Field, Json, STALL_FIELDS, TASK_FIELDS, fields};
use crate::{
    recorder::{Recording, packet_beside},
    sched::Shared,
};

/// The field of the packet that Perfetto passes over: "ws", as two bytes.
pub const PACKET_FIELD: u64 = 0x7773;

impl Shared {
    /// Writes a snapshot.
    pub(crate) fn write_snapshot(&self, mut out: impl io::Write) -> io::Result<()> {
        let recording = self.recording();
        recording.write_perfetto(&mut out)?;
        let json = self.snapshot_json(&recording);
        packet_beside(PACKET_FIELD, json.as_bytes(), &mut out)?;
        out.flush()
    }

    /// What the page shows of it.
    fn snapshot_json(&self, recording: &Recording) -> String {
        let now = Duration::from_nanos(self.time.clock().now_ns());
        let began = recording.began.duration_since(UNIX_EPOCH);
        Json::object(|json| {
            json.key("format").text("ws-snapshot 1");
            json.key("program").text(&crate::recorder::program());
            json.key("pid").number(std::process::id().into());
            json.key("began_ms")
                .number(began.unwrap_or_default().as_millis() as u64);
            json.key("now").number(now.as_nanos() as u64);
            json.key("level")
                .text(&format!("{:?}", self.recorded_level()).to_lowercase());
            json.key("whole_since")
                .number(recording.whole_since.as_nanos() as u64);
            json.key("metrics");
            fields::metrics_json(&self.metrics(), json);
            json.key("events").list(|list| {
                for event in &recording.events {
                    fields::event_json(event, list);
                }
            });
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
            if let Some(lost) = fields::lost_tasks(self) {
                json.key("lost").list(|list| {
                    for task in lost {
                        Field::row(TASK_FIELDS, &task, list);
                    }
                });
            }
        })
    }
}
