//! A snapshot as a profile for <https://profiler.firefox.com>.
//!
//! # What is where
//!
//! A thread of the profile is a P; one more has what happened on other threads. What a thread did
//! is a marker, in a row for each kind:
//!
//! | row | what |
//! | --- | --- |
//! | *poll* | from begin to end, at level full; the text is the name of the task, or where it was spawned |
//! | *long poll*, *sleeps*, *blocking call*, *span* | from begin to end |
//! | *mark*, *log*, *log: error*, *log: warn*, *log: info* | a moment, with its text |
//! | any other kind of an event | a moment |
//!
//! The markers are searched by their text and by the number of the task. Samples of stacks are not
//! in a snapshot, so the tabs for these are empty. Tasks have no rows of their own: Firefox knows
//! threads. A span is on the thread where it began.
//!
//! # What is not there
//!
//! Some records were overwritten. An end without a begin is left out. What has no end goes on until
//! the thread does the next thing around it, or else to the end of the profile. A span that began
//! before the time from which the records are whole goes on up to that time.

use std::{
    collections::HashMap,
    time::{Duration, UNIX_EPOCH},
};

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, MarkerFieldFlags, MarkerFieldFormat, MarkerTiming, Profile,
    SamplingInterval, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle,
    Timestamp,
};
use serde_json::{Map, Value};

/// Makes a profile of what is in our packet.
pub(crate) fn profile(snapshot: &Map<String, Value>) -> Profile {
    let number = |key| snapshot.get(key).and_then(Value::as_u64).unwrap_or(0);
    let program = snapshot.get("program").and_then(Value::as_str);
    let program = program.unwrap_or("program");
    let began = UNIX_EPOCH + Duration::from_millis(number("began_ms"));
    // There are no samples; the page wants an interval.
    let interval = SamplingInterval::from_millis(1);
    let mut profile = Profile::new(program, began.into(), interval);
    let pid = number("pid") as u32;
    let process = profile.add_process(program, pid, at(0));
    let ps = snapshot["metrics"]["processors"]
        .as_array()
        .map_or(0, Vec::len) as u32;
    // Of simulated hosts.
    let lane = |index: u32| snapshot.get("lanes")?.get(index as usize)?.as_str();
    // Those of the Ps come first on the page.
    let threads = (1..=ps).chain([0]).map(|number| {
        let thread = profile.add_thread(process, number, at(0), false);
        match number.checked_sub(1) {
            Some(index) => match lane(index) {
                Some(host) => profile.set_thread_name(thread, host),
                None => profile.set_thread_name(thread, &format!("P {index}")),
            },
            None => profile.set_thread_name(thread, "no worker"),
        }
        profile.set_thread_show_markers_in_timeline(thread, true);
        profile.add_initial_visible_thread(thread);
        thread
    });
    let mut threads: Vec<ThreadHandle> = threads.collect();
    threads.rotate_right(1);
    let categories = [
        ("scheduler", CategoryColor::Gray),
        ("poll", CategoryColor::Green),
        ("program", CategoryColor::Blue),
    ];
    let categories = categories.map(|(name, color)| profile.add_category(name, color));
    let mut writer = Writer {
        names: task_names(snapshot),
        profile,
        threads,
        categories,
        open: HashMap::new(),
        spans: HashMap::new(),
        whole_since: number("whole_since"),
    };
    for event in list(snapshot, "events") {
        writer.event(&Event::of(event));
    }
    writer.end()
}

fn list<'a>(snapshot: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    snapshot
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The names of the tasks that were alive, or where they were spawned.
fn task_names(snapshot: &Map<String, Value>) -> HashMap<u64, String> {
    let names = list(snapshot, "tasks").filter_map(|row| {
        let name = row.get("name").or(row.get("where"))?.as_str()?;
        Some((row.get("id")?.as_u64()?, name.to_owned()))
    });
    names.collect()
}

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos_since_reference(ns)
}

/// An event, as `event_json` in the executor writes it.
struct Event<'a> {
    time: u64,
    /// The number of a P and one, or 0.
    thread: u64,
    kind: &'a str,
    task: u64,
    name: Option<&'a str>,
    high: u64,
    low: u64,
}

impl<'a> Event<'a> {
    fn of(members: &'a Value) -> Self {
        let number = |index: usize| members[index].as_u64().unwrap_or(0);
        Self {
            time: number(0),
            thread: number(1),
            kind: members[2].as_str().unwrap_or("event"),
            task: number(3),
            name: members[4].as_str(),
            high: number(5),
            low: number(6),
        }
    }

    /// What else there is to say.
    fn text(&self) -> String {
        let (high, low) = (self.high, self.low);
        match self.kind {
            "Steal" => format!("{low} from P {high}"),
            "Timers" => format!("{low}, {high} us late"),
            "Queued" => format!("{high} for all, {low} in local queues"),
            "ParentStolen" | "RunNextStolen" | "BranchStolen" | "WakeThread" | "Stall"
            | "Revoke" => {
                format!("P {low}")
            }
            "Overflow" | "Netpoll" => low.to_string(),
            _ => String::new(),
        }
    }
}

/// The row of a line of a log, by its level. Those that are searched for have a row each.
const LEVELS: [&str; 4] = ["log", "log: error", "log: warn", "log: info"];

fn level(low: u64) -> &'static str {
    LEVELS.get(low as usize & 7).unwrap_or(&LEVELS[0])
}

/// Something that goes on: what it is, when it began, and its task.
struct Open {
    row: &'static str,
    begin: u64,
    task: u64,
    text: String,
}

struct Writer {
    profile: Profile,
    /// By the number of a P and one, or 0.
    threads: Vec<ThreadHandle>,
    /// Of the scheduler, of polls, of the program.
    categories: [CategoryHandle; 3],
    /// Of tasks: of those that were alive, and of others with a name that were polled before.
    names: HashMap<u64, String>,
    /// What goes on on each thread, the newest last. They are calls, so they are nested. A long
    /// poll has a list of its own, since the monitor sees it late.
    open: HashMap<(u64, bool), Vec<Open>>,
    /// By task, name and number.
    spans: HashMap<(u64, String, u64), Vec<(u64, Open)>>,
    /// From this time on, no event was overwritten.
    whole_since: u64,
}

impl Writer {
    fn event(&mut self, event: &Event<'_>) {
        let here = (event.thread, false);
        match event.kind {
            "Named" => {
                let name = event.name.unwrap_or_default().to_owned();
                self.names.entry(event.task).or_insert(name);
            }
            "Run" => self.begins(here, event, "poll", event.time),
            "Idle" | "Requeue" | "Done" => self.ends(here, event, "poll"),
            "Park" => self.begins(here, event, "sleeps", event.time),
            "Unpark" => self.ends(here, event, "sleeps"),
            "Block" => self.begins(here, event, "blocking call", event.time),
            "Return" => self.ends(here, event, "blocking call"),
            "LongPoll" => {
                let there = (event.high + 1, true);
                self.ends(there, event, "long poll");
                let seen = event.time.saturating_sub(event.low * 100_000);
                self.begins(there, event, "long poll", seen);
            }
            "LongPollEnd" => self.ends((event.low + 1, true), event, "long poll"),
            "Mark" => self.moment(event, "mark", event.name.unwrap_or("mark").to_owned()),
            "Message" => self.moment(event, "message", event.name.unwrap_or_default().to_owned()),
            "Log" => self.moment(
                event,
                level(event.low),
                event.name.unwrap_or("log").to_owned(),
            ),
            "SpanBegin" => {
                let text = event.name.unwrap_or("span").to_owned();
                let key = (event.task, text.clone(), event.low);
                let (begin, task) = (event.time, event.task);
                let row = "span";
                let open = Open {
                    row,
                    begin,
                    task,
                    text,
                };
                self.spans
                    .entry(key)
                    .or_default()
                    .push((event.thread, open));
            }
            "SpanEnd" => {
                let key = (
                    event.task,
                    event.name.unwrap_or("span").to_owned(),
                    event.low,
                );
                let open = self.spans.get_mut(&key).and_then(Vec::pop);
                if let Some((thread, open)) = open {
                    self.whole(thread, open, Some(event.time));
                }
            }
            kind => self.moment(event, kind, event.text()),
        }
    }

    fn begins(&mut self, on: (u64, bool), event: &Event<'_>, row: &'static str, begin: u64) {
        // Nothing begins in a sleep: its end was not recorded.
        self.ends(on, event, "sleeps");
        let text = match self.names.get(&event.task) {
            Some(name) => name.clone(),
            None if event.task > 0 => format!("task {}", event.task),
            None => String::new(),
        };
        let task = event.task;
        let open = Open {
            row,
            begin,
            task,
            text,
        };
        self.open.entry(on).or_default().push(open);
    }

    /// The newest of this row ends, and with it what is inside of it.
    fn ends(&mut self, on: (u64, bool), event: &Event<'_>, row: &str) {
        let open = self.open.entry(on).or_default();
        // Its begin may not have been recorded.
        if let Some(place) = open.iter().rposition(|open| open.row == row) {
            for open in open.split_off(place) {
                self.whole(on.0, open, Some(event.time));
            }
        }
    }

    /// Writes something that went on. Without an end it goes on to the end of the profile.
    fn whole(&mut self, thread: u64, open: Open, end: Option<u64>) {
        let begin = at(open.begin);
        let timing = match end {
            Some(end) => MarkerTiming::Interval(begin, at(end.max(open.begin))),
            None => MarkerTiming::IntervalStart(begin),
        };
        self.marker(thread, timing, open.row, &open.text, open.task);
    }

    fn moment(&mut self, event: &Event<'_>, row: &str, text: String) {
        let timing = MarkerTiming::Instant(at(event.time));
        self.marker(event.thread, timing, row, &text, event.task);
    }

    fn marker(&mut self, thread: u64, timing: MarkerTiming, row: &str, text: &str, task: u64) {
        let Some(&thread) = self.threads.get(thread as usize) else {
            return;
        };
        let category = match row {
            "poll" | "long poll" => 1,
            "mark" | "message" | "span" => 2,
            _ if LEVELS.contains(&row) => 2,
            _ => 0,
        };
        let marker = Marker {
            row: self.profile.intern_string(row),
            text: self.profile.intern_string(text),
            task,
            category: self.categories[category],
        };
        self.profile.add_marker(thread, timing, marker);
    }

    /// Writes what still goes on.
    fn end(mut self) -> Profile {
        for ((thread, _), open) in std::mem::take(&mut self.open) {
            open.into_iter()
                .for_each(|open| self.whole(thread, open, None));
        }
        for (thread, open) in std::mem::take(&mut self.spans).into_values().flatten() {
            let is_lost = open.begin < self.whole_since;
            let end = is_lost.then_some(self.whole_since);
            self.whole(thread, open, end);
        }
        self.profile
    }
}

/// The one type of markers.
struct Marker {
    row: StringHandle,
    text: StringHandle,
    task: u64,
    category: CategoryHandle,
}

impl StaticSchemaMarker for Marker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "ws";
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.text}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.text}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.text}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        StaticSchemaMarkerField {
            key: "text",
            label: "Text",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
        StaticSchemaMarkerField {
            key: "task",
            label: "Task",
            format: MarkerFieldFormat::Integer,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
    ];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.row
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.text
    }

    fn number_field_value(&self, _: u32) -> f64 {
        self.task as f64
    }
}

#[cfg(test)]
mod tests;
