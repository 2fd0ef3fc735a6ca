//! A snapshot as a source of the page.
//!
//! The file is a trace of Perfetto, and the page's part of it is one packet at its end: see
//! `sched/shown.rs` in the executor. A trace is a message with one field, a packet, many times. So
//! what has to be known of protocol buffers is how long a field is.

use std::{collections::BTreeSet, fmt, io};

use serde_json::{Map, Value};
use ws::inspect::source::{
    Ask, Field, Json, PACKET_FIELD, Rows, Source, Summary, TASK_FIELDS, tasks_json,
};

/// The number of the field `packet` in a trace.
const PACKET: u64 = 1;
/// The kind of a field with a length: of a text or a message.
const BYTES: u64 = 2;

/// A snapshot.
pub(crate) struct Snapshot {
    bytes: Vec<u8>,
    /// Members of an answer that are the same for all, without the braces around them.
    head: String,
    events: String,
    tasks: Tasks,
    summary: Summary,
}

/// Why a file is none.
#[derive(Debug, PartialEq)]
pub(crate) enum NoSnapshot {
    /// It is no trace of Perfetto, or was cut off.
    NoTrace,
    /// It is one without our packet.
    NothingOfOurs,
    /// What is in our packet cannot be read.
    Unknown(String),
}

impl fmt::Display for NoSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTrace => f.write_str("this is no snapshot, or the end of it is missing"),
            Self::NothingOfOurs => f.write_str(
                "this is a trace without tasks: https://ui.perfetto.dev opens it. A snapshot of ws \
                 has both",
            ),
            Self::Unknown(error) => write!(f, "this snapshot cannot be read: {error}"),
        }
    }
}

impl Snapshot {
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, NoSnapshot> {
        let mut members = members(&bytes)?;
        let events = members.remove("events").unwrap_or_default();
        let whole_since = members["whole_since"].as_u64().unwrap_or(0);
        let tasks = Tasks::new(members.remove("tasks").unwrap_or_default());
        members.insert("live".into(), false.into());
        let head = Value::Object(members).to_string();
        Ok(Self {
            head: head[1..head.len() - 1].to_owned(),
            events: with_gaps(&events, whole_since),
            summary: Summary::of(&tasks),
            tasks,
            bytes,
        })
    }
}

/// What is in our packet.
pub(crate) fn members(trace: &[u8]) -> Result<Map<String, Value>, NoSnapshot> {
    let json = our_packet(trace)?.ok_or(NoSnapshot::NothingOfOurs)?;
    let unknown = |error: &dyn fmt::Display| NoSnapshot::Unknown(error.to_string());
    let parsed = serde_json::from_slice(json).map_err(|error| unknown(&error))?;
    let Value::Object(members) = parsed else {
        return Err(unknown(&"it is no object"));
    };
    if members.get("format").and_then(Value::as_str) != Some("ws-snapshot 1") {
        return Err(unknown(&"it is of another version of ws"));
    }
    Ok(members)
}

/// The events as the page gets them: all at once, with a gap at the begin of each P.
fn with_gaps(events: &Value, whole_since: u64) -> String {
    let of_p = |event: &Value| event[1].as_u64().filter(|p| *p > 0);
    let list = events.as_array().into_iter().flatten();
    let ps: BTreeSet<u64> = list.filter_map(of_p).collect();
    let gaps: Vec<Value> = ps
        .into_iter()
        .filter(|_| whole_since > 0)
        .map(|p| vec![p, whole_since].into())
        .collect();
    let gaps = Value::from(gaps);
    format!(r#"{{"cursor":"","gaps":{gaps},"list":{events}}}"#)
}

impl Source for Snapshot {
    fn answer(&self, ask: &Ask) -> String {
        let answer = Json::object(|json| {
            if ask.cursor.is_some() {
                json.key("events").raw(&self.events);
            }
            if let Some(ask) = &ask.tasks {
                json.key("tasks");
                tasks_json(&self.tasks, &self.summary, ask, json);
            }
            json.key("names").map(|names| {
                for row in self.tasks.rows.iter().filter(|_| ask.cursor.is_some()) {
                    let name = row.get("name").or(row.get("where"));
                    if let (Some(id), Some(name)) = (row.get("id"), name.and_then(Value::as_str)) {
                        names.key(&id.to_string()).text(name);
                    }
                }
            });
        });
        format!("{{{},{}", self.head, &answer[1..])
    }

    fn is_large(&self) -> bool {
        true
    }

    fn file(&self) -> io::Result<Vec<u8>> {
        Ok(self.bytes.clone())
    }

    fn snapshot(&self) -> bool {
        false
    }

    fn tidy(&self) -> bool {
        false
    }
}

/// The tasks of a snapshot.
struct Tasks {
    rows: Vec<Map<String, Value>>,
    keys: Vec<String>,
}

impl Tasks {
    fn new(tasks: Value) -> Self {
        let Value::Array(rows) = tasks else {
            return Self {
                rows: Vec::new(),
                keys: Vec::new(),
            };
        };
        let objects = rows.into_iter().filter_map(|row| match row {
            Value::Object(row) => Some(row),
            _ => None,
        });
        let rows: Vec<_> = objects.collect();
        let of_rows: BTreeSet<&String> = rows.iter().flat_map(Map::keys).collect();
        let mut keys: Vec<String> = TASK_FIELDS.iter().map(|(key, _)| (*key).into()).collect();
        // Of a program that is newer than this one.
        let others = of_rows.into_iter().filter(|key| !keys.contains(key));
        let others: Vec<String> = others.cloned().collect();
        keys.extend(others);
        Self { rows, keys }
    }
}

impl Rows for Tasks {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn field(&self, row: usize, key: &str) -> Field<'_> {
        match self.rows[row].get(key) {
            Some(Value::String(text)) => Field::Text(text.into()),
            Some(Value::Number(number)) => number.as_u64().map_or(Field::Nothing, Field::Number),
            _ => Field::Nothing,
        }
    }

    fn write(&self, row: usize, json: &mut Json) {
        json.map(|map| {
            for key in &self.keys {
                self.field(row, key).member(key, map);
            }
        });
    }

    fn keys(&self) -> Vec<String> {
        self.keys.clone()
    }
}

/// What is in our packet, if there is one.
fn our_packet(mut trace: &[u8]) -> Result<Option<&[u8]>, NoSnapshot> {
    let mut ours = None;
    let mut packets = 0;
    while !trace.is_empty() {
        let (field, packet) = next_field(&mut trace).ok_or(NoSnapshot::NoTrace)?;
        if field != PACKET {
            return Err(NoSnapshot::NoTrace);
        }
        packets += 1;
        // It has this field alone.
        let mut packet = packet;
        if let Some((PACKET_FIELD, value)) = next_field(&mut packet) {
            ours = Some(value);
        }
    }
    if packets == 0 {
        return Err(NoSnapshot::NoTrace);
    }
    Ok(ours)
}

/// The number and the bytes of the next field of a message, if it is one with a length.
fn next_field<'a>(message: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let tag = varint(message)?;
    if tag & 7 != BYTES {
        return None;
    }
    let length = usize::try_from(varint(message)?).ok()?;
    let (value, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some((tag >> 3, value))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use ws::{
        inspect::source::AskTasks,
        runtime::{Builder, Handle},
        task, trace,
    };

    use super::*;

    fn snapshot() -> Vec<u8> {
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.block_on(async {
            for name in ["one", "two", "\"three\""] {
                let builder = task::Builder::new().name(name);
                builder.spawn(std::future::pending::<()>());
            }
            trace::mark("here");
            let mut bytes = Vec::new();
            Handle::current().write_snapshot(&mut bytes).unwrap();
            bytes
        })
    }

    // Fails if the packet is not written, or not found, or if a row is lost on the way.
    #[test]
    fn a_snapshot_shows_the_tasks_and_the_events() {
        let snapshot = Snapshot::parse(snapshot()).unwrap();
        let tasks = AskTasks {
            sort: "name".into(),
            limit: 2,
            ..AskTasks::default()
        };
        let ask = Ask {
            cursor: Some(vec![]),
            tasks: Some(tasks),
            ..Ask::default()
        };
        let answer: Value = serde_json::from_str(&snapshot.answer(&ask)).unwrap();
        assert_eq!(answer["live"], false);
        assert_eq!(answer["metrics"]["workers"], 1);
        assert_eq!(answer["tasks"]["total"], 3);
        let names: Vec<_> = [0, 1]
            .map(|row| &answer["tasks"]["rows"][row]["name"])
            .into();
        assert_eq!(names, ["\"three\"", "one"]);
        let events = answer["events"]["list"].as_array().unwrap();
        assert!(events.iter().any(|event| event[4] == "here"), "{events:?}");
        // The second question is about rows alone.
        let again = snapshot.answer(&Ask::default());
        assert!(!again.contains("\"here\""), "{again}");
    }

    #[test]
    fn another_file_is_none() {
        let error = |bytes: &[u8]| Snapshot::parse(bytes.to_vec()).err().unwrap();
        assert_eq!(error(b""), NoSnapshot::NoTrace);
        assert_eq!(error(b"some text"), NoSnapshot::NoTrace);
        let whole = snapshot();
        assert_eq!(error(&whole[..whole.len() - 1]), NoSnapshot::NoTrace);
        let runtime = ws::runtime::Runtime::new().unwrap();
        let mut trace = Vec::new();
        let recording = runtime.handle().recording();
        recording.write_perfetto(&mut trace).unwrap();
        assert_eq!(error(&trace), NoSnapshot::NothingOfOurs);
        // A packet with our field, and something else in it.
        assert!(matches!(
            error(b"\x0a\x06\x9a\xf7\x0e\x02{}"),
            NoSnapshot::Unknown(_)
        ));
    }
}
