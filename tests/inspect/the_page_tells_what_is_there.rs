//! What `ws::inspect` answers: the tasks that are wanted, and each event once.
//!
//! It fails if an event is told twice or left out, if a row of another runtime is shown, or if the
//! server goes on after its end.

use std::{sync::mpsc, time::Duration};

use serde_json::Value;
use ws::{
    runtime::{Builder, Runtime},
    task::{self, JoinHandle},
    trace,
};

use crate::client::{Client, Served, until};

fn idle(runtime: &Runtime, name: &str) -> JoinHandle<()> {
    let builder = task::Builder::new().name(name);
    builder.spawn_on(std::future::pending(), runtime.handle())
}

fn names(state: &Value) -> Vec<&str> {
    let rows = state["tasks"]["rows"].as_array().unwrap();
    rows.iter().filter_map(|row| row["name"].as_str()).collect()
}

#[test]
fn the_rows_are_those_that_are_wanted() {
    let served = Served::new();
    for name in ["b <script>", "a \"quoted\"", "c"] {
        idle(&served.runtime, name);
    }
    let query = "sort=name&limit=99&search=<script>";
    assert_eq!(names(&served.state(query)), ["b <script>"]);
    let state = served.state("sort=name&down=1&limit=2&state=idle&search=these_rows");
    assert_eq!(names(&state), [""; 0], "{state}");
    let here = "search=the_page_tells_what_is_there";
    let state = served.state(&format!("sort=name&limit=2&offset=1&{here}"));
    assert_eq!(names(&state), ["b <script>", "c"]);
    assert_eq!(state["tasks"]["matched"], 3);
    // With those of the server.
    assert!(state["tasks"]["total"].as_u64() > Some(3));
}

#[test]
fn a_page_sees_a_task_that_comes_and_goes() {
    let served = Served::new();
    let is_there = || names(&served.state("sort=name&limit=99&search=visitor")).len() == 1;
    assert!(!is_there());
    let task = idle(&served.runtime, "visitor");
    until("it has come", is_there);
    task.abort();
    until("it has gone", || !is_there());
}

#[test]
fn a_lost_task_is_told() {
    let served = Served::new();
    drop(idle(&served.runtime, "lost"));
    until("it is found", || {
        let state = served.state("");
        let lost = state["lost"].as_array().unwrap();
        lost.iter().any(|task| task["name"] == "lost")
    });
}

#[test]
fn each_event_is_told_once() {
    let served = Served::new();
    let mark = |name| {
        let marked = served
            .runtime
            .block_on(async move { ws::spawn(async move { trace::mark(name) }).await });
        marked.unwrap();
    };
    let mut cursor = String::new();
    let mut marks = || {
        let state = served.state(&format!("events={cursor}"));
        cursor = state["events"]["cursor"].as_str().unwrap().to_owned();
        let events = state["events"]["list"].as_array().unwrap().clone();
        let names = events.iter().filter(|event| event[2] == "Mark");
        let names = names.map(|event| event[4].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    mark("first");
    assert_eq!(marks(), ["first"]);
    assert_eq!(marks(), [""; 0]);
    mark("second");
    mark("third");
    assert_eq!(marks(), ["second", "third"]);
}

// Fails if a stall has a row for each of its reports, or if the first one stays.
#[test]
fn a_stall_has_one_row_with_its_last_report() {
    let limit = Duration::from_millis(20);
    let served = Served::built(Builder::new().workers(2).stall_threshold(limit));
    let (open, closed) = mpsc::channel::<()>();
    let builder = task::Builder::new().name("stuck");
    let stuck = builder.spawn_on(async move { closed.recv() }, served.runtime.handle());
    let stalls = || {
        let state = served.state("");
        let all = state["stalls"].as_array().unwrap().iter();
        let of_it = all.filter(|stall| stall["name"] == "stuck");
        let phases = of_it.map(|stall| stall["phase"].as_str().unwrap().to_owned());
        phases.collect::<Vec<_>>()
    };
    until("it is told", || stalls() == ["begun"]);
    drop(open);
    until("it is over", || stalls() == ["ended"]);
    assert!(served.runtime.block_on(stuck).unwrap().is_err());
}

#[test]
fn what_is_downloaded_is_a_trace() {
    let served = Served::new();
    idle(&served.runtime, "in the trace");
    let reply = served.client().get("/perfetto");
    assert!(reply.headers["content-disposition"].contains(".pftrace"));
    // Its first field is a packet, and what is ours is at the end.
    assert_eq!(reply.body[0], 0x0a);
    let text = String::from_utf8_lossy(&reply.body);
    assert!(text.contains(r#""name":"in the trace","state":"#));
}

#[test]
fn another_runtime_may_be_shown() {
    let (here, there) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    idle(&here, "here");
    idle(&there, "there");
    let page = here.block_on(ws::inspect::serve_of(there.handle(), "127.0.0.1:0"));
    let mut client = Client::connect(page.unwrap().addr());
    let state = client.get("/state?sort=id&limit=99").json();
    assert_eq!(names(&state), ["there"]);
    assert_eq!(state["metrics"]["live_tasks"], 1);
}

#[test]
fn a_page_that_is_stopped_is_gone() {
    let Served { runtime, page } = Served::new();
    let address = page.addr();
    let mut client = Client::connect(address);
    assert_eq!(client.get("/").status, 200);
    page.stop();
    until("nobody is let in", || {
        std::net::TcpStream::connect(address).is_err()
    });
    assert!(client.reply().is_none(), "connections that are open end");
    drop(runtime);
}
