//! A snapshot as a source of the page.
//!
//! The file is a trace of Perfetto, with the page's part of it in packets among the others: see
//! `sched/shown.rs` in the executor. A trace is a message with one field, a packet, many times. So
//! what has to be known of protocol buffers is how long a field is.
//!
//! # Memory
//!
//! The file is read packet by packet. What is kept is what the page shows: the tasks that were
//! alive, and the newest [`EVENTS_MAX`] bytes of events. So a trace of any length takes the same
//! memory. The program's test has one of 1 GB.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read},
    sync::Arc,
};

use serde_json::{Map, Value};
use ws::inspect::source::{
    Ask, EVENTS_FIELD, Field, Json, PACKET_FIELD, Rows, Source, Summary, TASK_FIELDS, tasks_json,
};

/// The number of the field `packet` in a trace.
const PACKET: u64 = 1;
/// The kind of a field with a length: of a text or a message.
const BYTES: u64 = 2;

/// The most bytes of events that are shown: about a million. Guessed: the rings of 16 workers, as
/// large as they are by default. A browser takes some seconds for them.
const EVENTS_MAX: usize = 32 << 20;

/// A snapshot.
#[derive(Debug)]
pub(crate) struct Snapshot {
    file: Arc<File>,
    page: Page,
}

/// What the page shows of it.
#[derive(Debug)]
struct Page {
    /// Members of an answer that are the same for all, without the braces around them.
    head: String,
    events: String,
    /// There are older events in the file.
    is_part: bool,
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
    /// What is in our packets cannot be read.
    Unknown(String),
    /// The system cannot read it.
    Io(ErrorKind),
}

impl From<io::Error> for NoSnapshot {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => Self::NoTrace,
            other => Self::Io(other),
        }
    }
}

fn unknown(error: &dyn fmt::Display) -> NoSnapshot {
    NoSnapshot::Unknown(error.to_string())
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
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl Snapshot {
    pub(crate) fn read(file: File) -> Result<Self, NoSnapshot> {
        let page = Page::read(buffered(&file))?;
        let file = Arc::new(file);
        Ok(Self { file, page })
    }

    /// There are more events in the file than are shown.
    pub(crate) fn is_part(&self) -> bool {
        self.page.is_part
    }
}

pub(crate) fn buffered(file: &File) -> impl BufRead {
    BufReader::with_capacity(1 << 16, file)
}

/// What is in our packets, with the newest events as one list. And whether there are more events.
pub(crate) fn members(trace: impl BufRead) -> Result<(Map<String, Value>, bool), NoSnapshot> {
    let mut ours = Ours::read(trace, EVENTS_MAX)?;
    let mut members = ours.members()?;
    let mut events = Vec::new();
    for list in ours.events {
        events.extend(parsed(list)?.1);
    }
    members.insert("events".to_owned(), events.into());
    Ok((members, ours.is_part))
}

impl Page {
    fn read(trace: impl BufRead) -> Result<Self, NoSnapshot> {
        let mut ours = Ours::read(trace, EVENTS_MAX)?;
        let mut members = ours.members()?;
        let whole_since = members["whole_since"].as_u64().unwrap_or(0);
        let tasks = Tasks::new(members.remove("tasks").unwrap_or_default());
        members.insert("live".into(), false.into());
        let head = Value::Object(members).to_string();
        Ok(Self {
            head: head[1..head.len() - 1].to_owned(),
            events: with_gaps(ours.events, whole_since, ours.is_part)?,
            is_part: ours.is_part,
            summary: Summary::of(&tasks),
            tasks,
        })
    }

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
}

/// Elements of a list, as a list in JSON and parsed.
fn parsed(elements: Vec<u8>) -> Result<(String, Vec<Value>), NoSnapshot> {
    let elements = String::from_utf8(elements).map_err(|error| unknown(&error))?;
    let list = format!("[{elements}]");
    let parsed = serde_json::from_str(&list).map_err(|error| unknown(&error))?;
    Ok((list, parsed))
}

/// The events as the page gets them: all at once, with a gap at the begin of each P. `lists` are
/// elements of a list in JSON, in the order of time; `is_part`: older ones are left out.
fn with_gaps(
    lists: VecDeque<Vec<u8>>,
    mut whole_since: u64,
    is_part: bool,
) -> Result<String, NoSnapshot> {
    let mut all = String::new();
    let mut ps = BTreeSet::new();
    for list in lists {
        let (list, parsed) = parsed(list)?;
        let first = parsed.first().and_then(|event| event[0].as_u64());
        if all.is_empty() && is_part {
            whole_since = whole_since.max(first.unwrap_or(0));
        }
        let of_p = |event: &Value| event[1].as_u64().filter(|p| *p > 0);
        ps.extend(parsed.iter().filter_map(of_p));
        if !all.is_empty() {
            all.push(',');
        }
        all.push_str(&list[1..list.len() - 1]);
    }
    let gaps: Vec<Value> = ps
        .into_iter()
        .filter(|_| whole_since > 0)
        .map(|p| vec![p, whole_since].into())
        .collect();
    let gaps = Value::from(gaps);
    all.insert_str(0, &format!(r#"{{"cursor":"","gaps":{gaps},"list":["#));
    all.push_str("]}");
    Ok(all)
}

impl Source for Snapshot {
    fn answer(&self, ask: &Ask) -> String {
        self.page.answer(ask)
    }

    fn is_large(&self) -> bool {
        true
    }

    fn file(&self) -> io::Result<Arc<File>> {
        Ok(self.file.clone())
    }

    fn snapshot(&self) -> bool {
        false
    }

    fn tidy(&self) -> bool {
        false
    }
}

/// The tasks of a snapshot.
#[derive(Debug)]
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

/// What is in our packets.
#[derive(Debug, Default)]
struct Ours {
    /// The newest lists of events, each not empty.
    events: VecDeque<Vec<u8>>,
    /// Older lists were left out.
    is_part: bool,
    /// What is beside the events, if it is there.
    last: Option<Vec<u8>>,
}

impl Ours {
    /// What is beside the events.
    fn members(&mut self) -> Result<Map<String, Value>, NoSnapshot> {
        let json = self.last.take().ok_or(NoSnapshot::NothingOfOurs)?;
        let parsed = serde_json::from_slice(&json).map_err(|error| unknown(&error))?;
        let Value::Object(members) = parsed else {
            return Err(unknown(&"it is no object"));
        };
        if members.get("format").and_then(Value::as_str) != Some("ws-snapshot 2") {
            return Err(unknown(&"it is of another version of ws"));
        }
        Ok(members)
    }

    /// Reads a trace, and keeps at most so many bytes of events.
    fn read(mut trace: impl BufRead, events_max: usize) -> Result<Self, NoSnapshot> {
        let mut ours = Self::default();
        let mut packets = 0;
        let mut kept = 0;
        while !trace.fill_buf()?.is_empty() {
            let (field, length) = field_head(&mut trace)?.ok_or(NoSnapshot::NoTrace)?;
            if field != PACKET {
                return Err(NoSnapshot::NoTrace);
            }
            packets += 1;
            let mut packet = (&mut trace).take(length);
            // One of ours has one field alone.
            if let Ok(Some((field @ (EVENTS_FIELD | PACKET_FIELD), length))) =
                field_head(&mut packet)
            {
                let value = bytes(&mut packet, length)?;
                if field == PACKET_FIELD {
                    ours.last = Some(value);
                } else if !value.is_empty() {
                    kept += value.len();
                    ours.events.push_back(value);
                }
            }
            skip(&mut packet)?;
            // The newest list stays, however long it is.
            while kept > events_max && ours.events.len() > 1 {
                ours.is_part = true;
                kept -= ours.events.pop_front().map_or(0, |oldest| oldest.len());
            }
        }
        if packets == 0 {
            return Err(NoSnapshot::NoTrace);
        }
        Ok(ours)
    }
}

/// The number of the next field of a message, and its length, if it is one with a length.
fn field_head(message: &mut impl BufRead) -> io::Result<Option<(u64, u64)>> {
    let tag = varint(message)?;
    if tag & 7 != BYTES {
        return Ok(None);
    }
    Ok(Some((tag >> 3, varint(message)?)))
}

/// So many bytes. What the file says of their number may be wrong, so memory is taken as they come.
fn bytes(message: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    message.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length {
        Ok(bytes)
    } else {
        Err(ErrorKind::UnexpectedEof.into())
    }
}

/// Passes over the rest of a packet.
fn skip(packet: &mut io::Take<impl BufRead>) -> io::Result<()> {
    while packet.limit() > 0 {
        let there = packet.fill_buf()?.len();
        if there == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        packet.consume(there);
    }
    Ok(())
}

fn varint(bytes: &mut impl BufRead) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some(&byte) = bytes.fill_buf()?.first() else {
            return Err(ErrorKind::UnexpectedEof.into());
        };
        bytes.consume(1);
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ErrorKind::InvalidData.into())
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
        let snapshot = Page::read(&snapshot()[..]).unwrap();
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

    // Fails if the newest events are left out, or if nobody hears of those that are.
    #[test]
    fn the_newest_events_are_kept() {
        let packet = |field: u64, value: &str| {
            let tag = field << 3 | BYTES;
            let tag = [tag as u8 | 0x80, (tag >> 7) as u8 | 0x80, (tag >> 14) as u8];
            let length = (tag.len() + 1 + value.len()) as u8;
            let head = [0x0a, length, tag[0], tag[1], tag[2], value.len() as u8];
            [&head[..], value.as_bytes()].concat()
        };
        let trace = [
            packet(EVENTS_FIELD, r#"[1,1,"Park"]"#),
            packet(99999, "somebody else's"),
            packet(EVENTS_FIELD, r#"[2,1,"Park"],[3,0,"Park"]"#),
            packet(EVENTS_FIELD, r#"[4,2,"Park"]"#),
            packet(PACKET_FIELD, "{}"),
        ]
        .concat();
        let events = |max| {
            let ours = Ours::read(&trace[..], max).unwrap();
            assert_eq!(ours.last.as_deref(), Some(&b"{}"[..]));
            let is_part = ours.is_part;
            (with_gaps(ours.events, 0, is_part).unwrap(), is_part)
        };
        let rest = r#"[2,1,"Park"],[3,0,"Park"],[4,2,"Park"]]}"#;
        let all = format!(r#"{{"cursor":"","gaps":[],"list":[[1,1,"Park"],{rest}"#);
        assert_eq!(events(100), (all, false));
        let some = format!(r#"{{"cursor":"","gaps":[[1,2],[2,2]],"list":[{rest}"#);
        assert_eq!(events(40), (some, true));
        let last = r#"{"cursor":"","gaps":[[2,4]],"list":[[4,2,"Park"]]}"#;
        assert_eq!(events(0), (last.to_owned(), true));
    }

    #[test]
    fn another_file_is_none() {
        let error = |bytes: &[u8]| Page::read(bytes).unwrap_err();
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
