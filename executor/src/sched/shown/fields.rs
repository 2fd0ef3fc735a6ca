//! What a viewer is told: a line for each field.
//!
//! A field that is added here is on the page and in snapshots, without a change anywhere else. The
//! page has titles and units for the names that it knows (`src/inspect/page/columns.js`):
//! `parent`, `polls`, `wakes`, `moves`, `idle_for`, `busy`, `longest_poll`, `longest_wake`,
//! `waits_for`; of a stall, `stack`. A number whose name ends in `_ns` is shown as a time.

use std::{borrow::Cow, cmp::Ordering, panic::Location, time::Duration};

use super::{Json, ShownStall};
use crate::{
    cell::Id,
    metrics::{Durations, Metrics},
    policy::constants::LOST_SHOWN,
    recorder::{Event, EventKind},
    sched::{dump::TaskDump, shared::Shared},
};

/// Names of fields in JSON, and how their values are had.
pub type Fields<T> = &'static [(&'static str, fn(&T) -> Field<'_>)];

/// What is told of a task: the name of each field in JSON, and its value. Times are in nanoseconds.
pub const TASK_FIELDS: Fields<TaskDump> = &[
    ("id", |task| Field::Number(task.id.as_u64())),
    ("name", |task| Field::text_or_nothing(task.name.as_deref())),
    ("state", |task| Field::Text(task.state.name().into())),
    ("age", |task| Field::Number(task.age.as_nanos() as u64)),
    ("where", |task| Field::Place(task.location)),
    ("parent", |task| {
        number_or_nothing(task.parent.map(Id::as_u64))
    }),
    ("polls", |task| Field::Number(task.account.polls)),
    ("wakes", |task| Field::Number(task.account.wakes)),
    ("moves", |task| Field::Number(task.account.moves.into())),
    ("idle_for", |task| {
        number_or_nothing(task.account.idle_for.map(ns))
    }),
    ("busy", |task| measured(task, ns(task.account.busy()))),
    ("longest_poll", |task| {
        let longest = ns(task.account.longest_poll);
        number_or_nothing((longest > 0).then_some(longest))
    }),
    ("longest_wake", |task| {
        measured(task, ns(task.account.longest_wait))
    }),
    ("waits_for", |task| {
        let waits_for: Vec<_> = task.waits_for.iter().map(ToString::to_string).collect();
        match &waits_for[..] {
            [] => Field::Nothing,
            _ => Field::Text(waits_for.join("\n").into()),
        }
    }),
];

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn number_or_nothing(number: Option<u64>) -> Field<'static> {
    number.map_or(Field::Nothing, Field::Number)
}

/// A number of a task, if a poll of that task was measured.
fn measured(task: &TaskDump, number: u64) -> Field<'static> {
    number_or_nothing((task.account.measured_polls > 0).then_some(number))
}

/// What is told of a stall.
pub const STALL_FIELDS: Fields<ShownStall> = &[
    ("id", |stall| Field::Number(stall.report.id.as_u64())),
    ("name", |stall| {
        Field::text_or_nothing(stall.report.name.as_deref())
    }),
    ("began", |stall| Field::Number(stall.began_ns)),
    ("for", |stall| {
        Field::Number(stall.report.running_for.as_nanos() as u64)
    }),
    ("cpu", |stall| match stall.report.cpu_time {
        Some(time) => Field::Number(time.as_nanos() as u64),
        None => Field::Nothing,
    }),
    ("kind", |stall| {
        Field::Text(format!("{:?}", stall.report.kind).to_lowercase().into())
    }),
    ("phase", |stall| {
        Field::Text(format!("{:?}", stall.report.phase).to_lowercase().into())
    }),
    ("where", |stall| Field::Place(stall.report.location)),
    ("stack", |stall| {
        Field::Text(stall.report.stack.to_string().into())
    }),
];

/// Pairs of an upper bound in nanoseconds, and how many lie at or below it and above the bound
/// before.
type Histogram = Vec<(u64, u64)>;

/// The name of a histogram in JSON, and how it is had.
type NamedHistogram = (&'static str, fn(&Metrics) -> Histogram);

/// A histogram of a runtime, by its name in JSON: `poll`, `wake`, `steal`. Those that the metrics
/// have.
const HISTOGRAMS: &[NamedHistogram] = &[
    ("poll", |metrics| histogram(&metrics.poll_time)),
    ("wake", |metrics| histogram(&metrics.wake_to_poll)),
    ("steal", |metrics| histogram(&metrics.steal_to_poll)),
];

/// The buckets that have something.
fn histogram(durations: &Durations) -> Histogram {
    let buckets = durations.buckets().filter(|&(_, count)| count > 0);
    buckets
        .map(|(bound, count)| (bound.map_or(u64::MAX, ns), count))
        .collect()
}

/// The tasks that no wake can reach any more.
pub(crate) fn lost_tasks(shared: &Shared) -> Vec<TaskDump> {
    let lost = shared.lost_tasks().into_iter().take(LOST_SHOWN);
    lost.map(|lost| lost.task).collect()
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<'a> {
    /// There is none; in JSON it is left out.
    Nothing,
    /// A number: a count, an id, or a time in nanoseconds.
    Number(u64),
    /// A text, maybe of several lines.
    Text(Cow<'a, str>),
    /// A place in the source.
    Place(&'static Location<'static>),
}

impl<'a> Field<'a> {
    fn text_or_nothing(text: Option<&'a str>) -> Self {
        text.map_or(Self::Nothing, |text| Self::Text(text.into()))
    }

    /// The order in which rows are sorted: nothing first, places by file and line.
    pub fn order(&self, other: &Self) -> Ordering {
        let rank = |field: &Self| match field {
            Self::Nothing => 0,
            Self::Number(_) => 1,
            Self::Text(_) | Self::Place(_) => 2,
        };
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Place(one), Self::Place(other)) => one.cmp(other),
            (one, other) => rank(one).cmp(&rank(other)),
        }
    }

    /// Writes a member of an object, or nothing.
    pub fn member(&self, key: &str, json: &mut Json) {
        match self {
            Self::Nothing => {}
            Self::Number(number) => json.key(key).number(*number),
            Self::Text(text) => json.key(key).text(text),
            Self::Place(place) => json.key(key).text(&place.to_string()),
        }
    }

    /// Writes an object of all fields of `of`.
    pub fn row<T>(fields: Fields<T>, of: &T, json: &mut Json) {
        json.map(|row| {
            for (key, value) in fields {
                value(of).member(key, row);
            }
        });
    }
}

/// Writes an event: time in nanoseconds, P plus one or 0, kind, task or 0, name or null, and the
/// upper and the lower half of its number. What is nothing at the end is left out. Of a line of a
/// log, and of the name of a task, the text stands for the name. The number of a place is left out.
pub fn event_json(event: &Event, json: &mut Json) {
    let number = match event.kind {
        EventKind::Named => 0,
        _ => event.number,
    };
    let (high, low) = (number >> 32, u64::from(number as u32));
    let task = event.task.map_or(0, |task| task.as_u64());
    let name = event.text.as_deref().or(event.name);
    let members = match (task, name, high, low) {
        (.., 1.., _) | (.., 0, 1..) => 7,
        (_, Some(_), ..) => 5,
        (1.., ..) => 4,
        _ => 3,
    };
    json.list(|list| {
        list.number(event.time.as_nanos() as u64);
        // One more than the number of the P; 0 is no P.
        list.number(event.processor.map_or(0, |index| index as u64 + 1));
        list.text(&event.kind.to_string());
        if members > 3 {
            list.number(task);
        }
        if members > 4 {
            match name {
                Some(name) => list.text(name),
                None => list.null(),
            }
        }
        if members > 5 {
            list.number(high);
            list.number(low);
        }
    });
}

/// Writes an object with all counters of a runtime, by their names, those of each P in
/// `processors`, and the histograms that there are.
pub fn metrics_json(metrics: &Metrics, json: &mut Json) {
    json.map(|map| {
        for (name, value) in metrics.numbers() {
            map.key(name).number(value);
        }
        map.key("processors").list(|list| {
            for processor in &metrics.processors {
                list.map(|row| {
                    for (name, value) in processor.numbers() {
                        row.key(name).number(value);
                    }
                });
            }
        });
        map.key("histograms").map(|map| {
            for (name, histogram) in HISTOGRAMS {
                map.key(name).list(|list| {
                    for (bound, count) in histogram(metrics) {
                        list.list(|pair| {
                            pair.number(bound);
                            pair.number(count);
                        });
                    }
                });
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cell::TaskAccount,
        sched::{
            dump::TaskState,
            stall::{StallKind, StallPhase, StallReport, StallStack, tests::made_up},
            waits::WaitsFor,
        },
    };

    #[test]
    fn an_event_is_as_short_as_it_can_be() {
        let text = |task, name, number| {
            let event = Event {
                time: Duration::from_nanos(5),
                processor: Some(1),
                kind: EventKind::Mark,
                task,
                name,
                text: None,
                number,
            };
            Json::object(|object| {
                object.key("it");
                event_json(&event, object);
            })
        };
        assert_eq!(text(None, None, 0), r#"{"it":[5,2,"Mark"]}"#);
        let task = Some(Id::new(7));
        assert_eq!(text(task, None, 0), r#"{"it":[5,2,"Mark",7]}"#);
        let name = Some("a");
        assert_eq!(text(None, name, 0), r#"{"it":[5,2,"Mark",0,"a"]}"#);
        let number = 3 << 32 | 4;
        let all = r#"{"it":[5,2,"Mark",7,null,3,4]}"#;
        assert_eq!(text(task, None, number), all);
        let low = r#"{"it":[5,2,"Mark",0,null,0,4]}"#;
        assert_eq!(text(None, None, 4), low);
    }

    // As that of a span in a log has both.
    #[test]
    fn the_text_of_an_event_stands_for_its_name() {
        let event = Event {
            time: Duration::from_nanos(5),
            processor: None,
            kind: EventKind::Log,
            task: None,
            name: Some("name"),
            text: Some("text".into()),
            number: 0,
        };
        let json = Json::object(|object| event_json(&event, object.key("it")));
        assert_eq!(json, r#"{"it":[5,0,"Log",0,"text"]}"#);
    }

    // No bucket ends beyond it.
    #[test]
    fn the_last_bound_is_the_largest_number() {
        let longest = Duration::from_secs(1 << 40);
        assert_eq!(histogram(&Durations::of([100])), [(128, 1)]);
        let [(bound, 1)] = histogram(&Durations::of([longest.as_nanos() as u64]))[..] else {
            panic!("one bucket has it");
        };
        assert_eq!(bound, u64::MAX);
    }

    #[test]
    fn fields_have_an_order() {
        let place = Location::caller();
        let sorted = [
            Field::Nothing,
            Field::Number(9),
            Field::Number(10),
            Field::Text("a".into()),
            Field::Text("b".into()),
        ];
        assert!(sorted.is_sorted_by(|one, other| one.order(other) == Ordering::Less));
        let same = Field::Place(place).order(&Field::Place(place));
        assert_eq!(same, Ordering::Equal);
    }

    /// All fields of `of` as an object.
    fn row<T>(fields: Fields<T>, of: &T) -> String {
        Json::object(|object| {
            for (key, value) in fields {
                value(of).member(key, object);
            }
        })
    }

    // No two of its times and numbers are the same.
    #[test]
    fn each_field_has_its_value() {
        let location = Location::caller();
        let us = Duration::from_micros;
        let mut task = TaskDump {
            id: Id::new(1),
            name: None,
            location,
            state: TaskState::Queued,
            age: us(2),
            parent: None,
            account: TaskAccount::default(),
            waits_for: Vec::new(),
            awaits: None,
        };
        let place = location.to_string();
        let start = r#"{"id":1,"state":"queued","age":2000,"#;
        let plain = format!(r#"{start}"where":"{place}","polls":0,"wakes":0,"moves":0}}"#);
        assert_eq!(row(TASK_FIELDS, &task), plain);
        task.name = Some("a".to_owned());
        task.parent = Some(Id::new(7));
        task.waits_for = vec![WaitsFor::Task(Id::new(8)), WaitsFor::Readable(Some(9))];
        task.account.polls = 10;
        task.account.wakes = 11;
        task.account.moves = 12;
        task.account.idle_for = Some(us(13));
        task.account.measured_polls = 2;
        task.account.measured_busy = us(14);
        task.account.longest_poll = us(15);
        task.account.longest_wait = us(16);
        let full = format!(
            r#"{{"id":1,"name":"a","state":"queued","age":2000,"where":"{place}","parent":7,"polls":10,"wakes":11,"moves":12,"idle_for":13000,"busy":70000,"longest_poll":15000,"longest_wake":16000,"waits_for":"task 8\ndescriptor 9 to be readable"}}"#
        );
        assert_eq!(row(TASK_FIELDS, &task), full);
        let report = StallReport {
            id: Id::new(1),
            name: None,
            location,
            phase: StallPhase::GoesOn,
            kind: StallKind::Computing,
            running_for: us(2),
            cpu_time: Some(us(3)),
            stack: StallStack::none("why"),
            ..made_up()
        };
        let stall = ShownStall {
            began_ns: 4,
            report,
        };
        let expected = format!(
            r#"{{"id":1,"began":4,"for":2000,"cpu":3000,"kind":"computing","phase":"goeson","where":"{place}","stack":"      no stack: why"}}"#
        );
        assert_eq!(row(STALL_FIELDS, &stall), expected);
    }

    #[test]
    fn each_histogram_has_its_times() {
        let metrics = Metrics {
            poll_time: Durations::of([100, 1_000]),
            wake_to_poll: Durations::of([2_000]),
            steal_to_poll: Durations::of([4_000, 4_000]),
            ..crate::runtime::Runtime::new().unwrap().metrics()
        };
        let json = Json::object(|object| metrics_json(&metrics, object.key("it")));
        let expected =
            r#""histograms":{"poll":[[128,1],[1024,1]],"wake":[[2048,1]],"steal":[[4096,2]]}"#;
        assert!(json.contains(expected), "{json}");
    }

    #[test]
    fn lost_tasks_are_told() {
        let runtime = crate::runtime::Runtime::new().unwrap();
        let shared = runtime.handle().shared();
        let task = runtime.spawn(std::future::pending::<()>());
        loop {
            let lost = lost_tasks(shared);
            if let [lost] = &lost[..] {
                return assert_eq!(lost.id, task.id());
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn places_are_sorted_by_what_they_are() {
        let (first, second) = (Location::caller(), Location::caller());
        let order = Field::Place(first).order(&Field::Place(second));
        assert_eq!(order, first.cmp(second));
        assert_ne!(order, Ordering::Equal);
    }
}
