//! `ws-inspect` with a snapshot: one that the page's button saves, and one with all that a program
//! may tell.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use ws_browser::{Browser, Program, folder};

use super::{shown, ws_inspect};

fn show(file: &Path) -> (Browser, Program) {
    let file = file.to_str().expect("its path is a text");
    let program = Program::start(&ws_inspect(), &[file]);
    let browser = Browser::start(1200, 900, false);
    browser.open(&program.url);
    browser.wait("it is shown", "return server.last !== null");
    (browser, program)
}

/// Waits for the file that a browser downloads into a folder.
fn downloaded(folder: &Path) -> PathBuf {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths = files.map(|file| file.path());
        if let Some(path) = paths.find(|path| path.extension().is_some_and(|it| it == "pftrace")) {
            return path;
        }
        assert!(Instant::now() < until, "nothing was downloaded");
    }
}

// Fails if the button saves nothing, or if what it saves cannot be opened.
#[test]
fn what_the_button_saves_is_shown_when_the_program_is_gone() {
    let dir = folder("snapshots");
    let mut shown = shown(&["--quiet", "--dir", dir.to_str().unwrap()]);
    shown.program.tell("spawn the suspect");
    let browser = &shown.browser;
    let there = "return document.body.innerText.includes('the suspect')";
    browser.wait("it is there", there);
    browser.click("#snapshot");
    browser.wait(
        "it says so",
        "return toast.name && !document.getElementById('toast').hidden",
    );
    let said = browser.text("#toast");
    assert!(said.contains("into its folder"), "{said}");
    downloaded(&dir);
    let file = downloaded(&browser.downloads());
    let copy = dir.join("copy.pftrace");
    fs::copy(file, &copy).unwrap();
    drop(shown);

    let (browser, _program) = show(&copy);
    assert_eq!(browser.text("#status"), "snapshot");
    assert_eq!(browser.text("#program"), "shop");
    let names = browser.texts(".space .cell[data-key=name]");
    assert!(names.contains(&"the suspect".to_owned()), "{names:?}");
    let hidden = browser.run("return document.getElementById('snapshot').hidden");
    assert_eq!(hidden, true);
    browser.click("#search");
    browser.press("suspect");
    browser.wait("it is found", "return table.matched === 1");
    let lanes = browser.run("return timeline.lanes.lanes.size > 0 && timeline.boxes.length > 0");
    assert_eq!(lanes, true);
    assert_eq!(browser.log(), [""; 0]);
    let _ = fs::remove_dir_all(dir);
}

/// A snapshot with this in it. `events` are elements of a list in JSON.
fn written(events: &str, snapshot: &Value) -> PathBuf {
    let varint = |mut number: usize| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let packet = |field: usize, json: &str| {
        let field = [varint(field << 3 | 2), varint(json.len())].concat();
        let packet = [field, json.into()].concat();
        [vec![0x0a], varint(packet.len()), packet].concat()
    };
    let last = packet(0x7773, &snapshot.to_string());
    let trace = [packet(0x7765, events), last].concat();
    let path = folder("snapshot").join("written.pftrace");
    fs::write(&path, trace).unwrap();
    path
}

// Fails if a field of a task, a histogram, a stack or a lost task is in the file and not on the
// page.
#[test]
fn what_a_program_tells_besides_is_shown() {
    let tree = "handle\n└─ read_request\n   └─ TcpStream::read";
    let events = r#"[1000000,1,"Unpark"],[5000000000,1,"Park"]"#;
    let snapshot = json!({
        "format": "ws-snapshot 2", "program": "orders", "pid": 17, "began_ms": 1_795_822_398_583_u64,
        "now": 9_000_000_000_u64, "level": "sparse", "whole_since": 0,
        "metrics": {
            "workers": 1, "free_permits": 0, "live_tasks": 1, "global_queue": 0, "ordered_queue": 0,
            "processors": [{ "polls": 5, "steals": 0, "local_queue": 0, "own_ordered_queue": 0 }],
            "histograms": {
                "poll": [[1000, 5], [2000, 90], [4000, 5]],
                "wake": [[1000, 0]],
            },
        },
        "tasks": [{
            "id": 7, "name": "order", "state": "idle", "age": 8_000_000_000_u64, "parent": 1,
            "polls": 12345, "wakes": 8, "moves": 3, "idle_for": 2_000_000_000_u64,
            "busy": 250_000_000, "longest_poll": 3_400_000, "longest_wake": 56_000,
            "waits_for": tree, "where": "src/main.rs:10:5", "lock_ns": 1500,
        }],
        "stalls": [{
            "id": 7, "name": "order", "began": 3_000_000_000_u64, "for": 101_000_000, "cpu": 20_000,
            "kind": "blocked", "phase": "begun", "where": "src/main.rs:10:5",
            "stack": "std::thread::sleep\norders::handle",
        }],
        "lost": [{
            "id": 9, "state": "idle", "age": 60_000_000_000_u64, "where": "src/main.rs:99:1",
        }],
    });
    let (browser, _program) = show(&written(events, &snapshot));
    let heads = browser.texts("#head button");
    for title in [
        "idle for",
        "busy",
        "polls",
        "wakes",
        "moves",
        "longest poll",
        "wake to poll",
        "parent",
        "waits for",
        "lock",
    ] {
        assert!(heads.contains(&title.to_owned()), "{title}: {heads:?}");
    }
    let cell = |key: &str| browser.text(&format!(".space .cell[data-key={key}]"));
    assert_eq!(cell("polls"), "12,345");
    assert_eq!(cell("longest_poll"), "3.4 ms");
    assert_eq!(cell("lock_ns"), "1.5 µs");
    assert_eq!(cell("waits_for"), "TcpStream::read");
    // The whole tree is in the details.
    browser.click(".space .row");
    assert_eq!(browser.text("#detail pre"), tree);
    // A histogram without a count has no place.
    let histograms = browser.texts("#histograms-list figcaption");
    assert_eq!(histograms, ["A poll half within 2 µs, 99 % within 4 µs"]);
    let stall = browser.text("#stalls-list li");
    assert!(stall.contains("blocks its thread for 101 ms"), "{stall}");
    browser.click("#stalls-list summary");
    assert!(browser.text("#stalls-list pre").contains("orders::handle"));
    assert!(browser.text("#lost-list li").contains("task 9"));
    assert_eq!(browser.log(), [""; 0]);
}
