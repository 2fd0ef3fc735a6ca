//! What a profile has, read as the JSON that Firefox gets.

use serde_json::json;
use ws::{
    runtime::{Builder, Handle},
    task, trace,
};

use super::*;
use crate::file;

/// A marker: thread, row, text, task, begin and end in milliseconds.
type Seen = (String, String, String, u64, f64, Option<f64>);

/// All markers of a profile, by thread and time.
fn markers(profile: &Profile) -> Vec<Seen> {
    let profile = serde_json::to_value(profile).unwrap();
    let threads = profile["threads"].as_array().unwrap();
    let mut all = Vec::new();
    for thread in threads {
        let strings = match thread["stringArray"].as_array() {
            Some(strings) => strings,
            None => profile["shared"]["stringArray"].as_array().unwrap(),
        };
        let string = |index: &Value| strings[index.as_u64().unwrap() as usize].as_str().unwrap();
        let markers = &thread["markers"];
        for row in 0..markers["length"].as_u64().unwrap() as usize {
            let data = &markers["data"][row];
            assert_eq!(data["type"], "ws");
            all.push((
                thread["name"].as_str().unwrap().to_owned(),
                string(&markers["name"][row]).to_owned(),
                string(&data["text"]).to_owned(),
                data["task"].as_f64().unwrap() as u64,
                markers["startTime"][row].as_f64().unwrap(),
                // An interval, and no moment or begin.
                (markers["phase"][row] == 1).then(|| markers["endTime"][row].as_f64().unwrap()),
            ));
        }
    }
    all.sort_by(|one, other| one.4.total_cmp(&other.4));
    all
}

/// A profile of made-up events, of two Ps and a task 7 of the name "prices".
fn made_up(events: Value) -> Vec<Seen> {
    made_up_since(0, events)
}

/// The same, where older records than that were overwritten.
fn made_up_since(whole_since: u64, events: Value) -> Vec<Seen> {
    let snapshot = json!({
        "program": "orders", "pid": 17, "began_ms": 1000, "whole_since": whole_since,
        "metrics": { "processors": [{}, {}] },
        "tasks": [{ "id": 7, "name": "prices" }, { "id": 8, "where": "src/main.rs:3:4" }],
        "events": events,
    });
    markers(&profile(snapshot.as_object().unwrap()))
}

fn seen(thread: &str, row: &str, text: &str, task: u64, begin: f64, end: Option<f64>) -> Seen {
    (
        thread.to_owned(),
        row.to_owned(),
        text.to_owned(),
        task,
        begin,
        end,
    )
}

const MS: u64 = 1_000_000;

// Fails if a poll, a mark or a line is on another thread, has another time, or another task.
#[test]
fn a_poll_is_a_marker_of_its_thread() {
    let events = json!([
        [MS, 1, "Run", 7],
        [2 * MS, 2, "Run", 8],
        [3 * MS, 1, "Mark", 7, "half-way"],
        [4 * MS, 1, "Log", 7, "it is priced", 0, 2],
        [5 * MS, 1, "Idle", 7],
        [6 * MS, 2, "Done", 8],
        [7 * MS, 0, "Queued", 0, null, 3, 4],
    ]);
    let expected = [
        seen("P 0", "poll", "prices", 7, 1.0, Some(5.0)),
        seen("P 1", "poll", "src/main.rs:3:4", 8, 2.0, Some(6.0)),
        seen("P 0", "mark", "half-way", 7, 3.0, None),
        seen("P 0", "log: warn", "it is priced", 7, 4.0, None),
        seen(
            "no worker",
            "Queued",
            "3 for all, 4 in local queues",
            0,
            7.0,
            None,
        ),
    ];
    assert_eq!(made_up(events), expected);
}

// Fails if a span ends with another one of its name, or is where it ended.
#[test]
fn a_span_is_where_it_began() {
    let events = json!([
        [MS, 1, "SpanBegin", 7, "order", 0, 1],
        [2 * MS, 1, "SpanBegin", 7, "order", 0, 2],
        [3 * MS, 2, "SpanEnd", 7, "order", 0, 1],
        [4 * MS, 2, "SpanEnd", 7, "order", 0, 2],
        [5 * MS, 2, "SpanEnd", 7, "order", 0, 3],
    ]);
    let expected = [
        seen("P 0", "span", "order", 7, 1.0, Some(3.0)),
        seen("P 0", "span", "order", 7, 2.0, Some(4.0)),
    ];
    assert_eq!(made_up(events), expected);
}

// Fails if it goes on to the end of the profile.
#[test]
fn a_span_whose_end_may_be_lost_ends_where_records_are_whole() {
    let events = json!([
        [MS, 1, "SpanBegin", 7, "order", 0, 1],
        [5 * MS, 1, "SpanBegin", 7, "order", 0, 2],
    ]);
    let expected = [
        seen("P 0", "span", "order", 7, 1.0, Some(4.0)),
        seen("P 0", "span", "order", 7, 5.0, None),
    ];
    assert_eq!(made_up_since(4 * MS, events), expected);
}

// Fails if an end without a begin makes a marker, if a sleep goes on in a poll, or if a long poll
// is on the thread of the monitor.
#[test]
fn what_was_not_recorded_is_made_up_for() {
    let events = json!([
        [MS, 1, "Unpark"],
        [MS, 1, "Idle", 7],
        [2 * MS, 1, "Park"],
        [3 * MS, 1, "Run", 7],
        [4 * MS, 1, "Block"],
        [6 * MS, 0, "LongPoll", 7, null, 0, 25],
        [7 * MS, 0, "LongPollEnd", 0, null, 0, 0],
        [8 * MS, 1, "Done", 7],
        [9 * MS, 2, "Run", 9],
    ]);
    let expected = [
        seen("P 0", "sleeps", "", 0, 2.0, Some(3.0)),
        seen("P 0", "poll", "prices", 7, 3.0, Some(8.0)),
        seen("P 0", "long poll", "prices", 7, 3.5, Some(7.0)),
        seen("P 0", "blocking call", "", 0, 4.0, Some(8.0)),
        seen("P 1", "poll", "task 9", 9, 9.0, None),
    ];
    assert_eq!(made_up(events), expected);
}

#[test]
fn a_moment_has_what_its_number_says() {
    let moments = [
        ("Steal", "25 from P 7"),
        ("Timers", "25, 7 us late"),
        ("Queued", "7 for all, 25 in local queues"),
        ("RunNextStolen", "P 25"),
        ("BranchStolen", "P 25"),
        ("Revoke", "P 25"),
        ("Overflow", "25"),
        ("Netpoll", "25"),
        ("GiveWay", ""),
    ];
    let events = (1_u64..).zip(moments).map(|(ms, (kind, _))| {
        let task = if kind == "Steal" { 7 } else { 0 };
        json!([ms * MS, 1, kind, task, null, 7, 25])
    });
    let events: Vec<_> = events.collect();
    let expected = (1_u32..).zip(moments).map(|(ms, (kind, text))| {
        let task = if kind == "Steal" { 7 } else { 0 };
        seen("P 0", kind, text, task, f64::from(ms), None)
    });
    assert_eq!(made_up(events.into()), expected.collect::<Vec<_>>());
}

// Fails if what has no end is left out.
#[test]
fn what_goes_on_is_there_without_an_end() {
    let events = json!([
        [MS, 1, "Run", 7],
        [2 * MS, 1, "SpanBegin", 7, "order", 0, 1],
        [3 * MS, 1, "Block"],
        [4 * MS, 2, "Park"],
        [6 * MS, 0, "LongPoll", 8, null, 0, 10],
    ]);
    let expected = [
        seen("P 0", "poll", "prices", 7, 1.0, None),
        seen("P 0", "span", "order", 7, 2.0, None),
        seen("P 0", "blocking call", "", 0, 3.0, None),
        seen("P 1", "sleeps", "", 0, 4.0, None),
        seen("P 0", "long poll", "src/main.rs:3:4", 8, 5.0, None),
    ];
    assert_eq!(made_up(events), expected);
}

#[test]
fn a_profile_says_of_which_process_and_of_when_it_is() {
    let snapshot = json!({
        "program": "orders", "pid": 17, "began_ms": 1_234_567,
        "metrics": { "processors": [{}, {}] },
    });
    let profile = profile(snapshot.as_object().unwrap());
    let profile = serde_json::to_value(&profile).unwrap();
    assert_eq!(profile["meta"]["startTime"], 1_234_567.0);
    assert_eq!(profile["meta"]["product"], "orders");
    for thread in profile["threads"].as_array().unwrap() {
        assert_eq!(thread["processName"], "orders");
        let pid = &thread["pid"];
        assert!(*pid == 17 || *pid == "17", "{pid}");
    }
}

// Fails if the snapshot of a program has other names than those above.
#[test]
fn a_snapshot_of_a_program_becomes_a_profile() {
    let builder = Builder::new().workers(1).record(trace::Level::Full);
    let runtime = builder.build().unwrap();
    let bytes = runtime.block_on(async {
        // It has ended when the snapshot is taken.
        let ended = task::Builder::new().name("ended");
        ended.spawn(async {}).await.unwrap();
        let prices = task::Builder::new().name("prices");
        prices.spawn(async {
            trace::mark("half-way");
            std::future::pending::<()>().await
        });
        let is_there = |event: &trace::Event| event.name == Some("half-way");
        while !Handle::current().recording().events.iter().any(is_there) {
            task::yield_now().await;
        }
        let mut bytes = Vec::new();
        Handle::current().write_snapshot(&mut bytes).unwrap();
        bytes
    });
    let all = markers(&profile(&file::members(&*bytes).unwrap().0));
    let mark = all.iter().find(|it| it.2 == "half-way").unwrap();
    let poll = all
        .iter()
        .find(|it| it.1 == "poll" && it.2 == "prices")
        .unwrap();
    assert_eq!((&poll.0, poll.3), (&mark.0, mark.3));
    let is_ended = |it: &&Seen| it.1 == "poll" && it.2 == "ended";
    assert_eq!(all.iter().filter(is_ended).count(), 1);
    assert!(all.iter().all(|it| it.1 != "Named"));
    assert!(poll.4 <= mark.4 && poll.5.is_none_or(|end| mark.4 <= end));
}
