//! The texts of the page, what comes while it is open, and nothing where there is nothing.

use ws_browser::{Browser, key};

use super::shown;

#[test]
fn its_texts_say_what_it_shows() {
    let shown = shown(&["--quiet"]);
    let browser = &shown.browser;
    assert_eq!(browser.text("#program"), "shop");
    assert_eq!(browser.text("#status"), "live");
    assert_eq!(browser.run("return document.title"), "shop · ws");
    let names = browser.texts(".tile .name");
    let expected = [
        "tasks",
        "busy workers",
        "in queues",
        "polls",
        "steals",
        "sleeps",
    ];
    assert_eq!(names, expected);
    let heads = browser.texts("#head button");
    let expected = [
        "id",
        "task",
        "state",
        "age",
        "idle for",
        "busy",
        "polls",
        "wakes",
        "moves",
        "longest poll",
        "wake to poll",
        "parent",
        "waits for",
        "spawned at",
    ];
    assert_eq!(heads, expected);
    // What has no data has no place.
    for part in ["stalls", "lost", "gone", "empty", "detail"] {
        let script = format!("return document.getElementById('{part}').hidden");
        assert_eq!(browser.run(&script), true, "{part}");
    }
    // By a key: rows of tasks that come in above move it away from under a pointer.
    browser.run("document.querySelector('#counters summary').focus()");
    browser.press(key::ENTER);
    browser.wait("counters", "return processors.rows.length > 1");
    assert!(browser.text("#numbers").contains("live tasks"));
    shown.assert_quiet();
}

// Fails if the page does not ask again, or does not show what has changed.
#[test]
fn a_task_that_comes_is_shown() {
    let mut shown = shown(&["--quiet"]);
    assert!(!shown.names().contains(&"newcomer".to_owned()));
    shown.program.tell("spawn newcomer");
    shown.browser.wait(
        "the row is there",
        "return [...document.querySelectorAll('.row')].some((it) => it.innerText.includes('newcomer'))",
    );
    shown.assert_quiet();
}

#[test]
fn a_stall_and_a_mark_are_shown() {
    let mut shown = shown(&["--quiet"]);
    shown.program.tell("stall");
    let browser = &shown.browser;
    browser.wait(
        "the stall is over",
        "return !!document.querySelector('#stalls-list .ended')",
    );
    let text = browser.text("#stalls-list li");
    assert!(text.contains("report (task "), "{text}");
    assert!(text.contains("blocked its thread for"), "{text}");
    let has_mark = "return [...timeline.lanes.lanes.values()].some((lane) =>
        lane.ticks.some((tick) => tick.text === 'the door is open'))";
    let is_drawn = "return timeline.boxes.some((box) => box.what === 'the door is open')";
    // On a busy machine ten seconds may go by, and the mark with them, before it is looked for.
    let drawn = (0..100).any(|_| {
        shown.program.tell("mark the door is open");
        shown.browser.wait("the mark is in a lane", has_mark);
        shown.browser.run(is_drawn) == true
    });
    assert!(drawn, "a mark is drawn");
    shown.assert_quiet();
}

#[test]
fn an_empty_runtime_is_no_fault() {
    let shown = shown(&["--empty", "--quiet"]);
    let browser = &shown.browser;
    browser.wait(
        "it says so",
        "return !empty.hidden && empty.innerText === 'No task is alive.'",
    );
    assert_eq!(browser.text(".tile[data-key=live_tasks] .value"), "0");
    shown.assert_quiet();
}

// Fails if a name becomes markup.
#[test]
fn a_name_is_a_text() {
    let mut shown = shown(&["--quiet"]);
    let name = "<img src=x onerror=hacked=1><b>bold</b>";
    shown.program.tell(&format!("spawn {name}"));
    let browser = &shown.browser;
    browser.wait(
        "it is shown",
        "return document.body.innerText.includes('<img src=x')",
    );
    assert_eq!(
        browser.run("return document.querySelector('img') === null"),
        true
    );
    assert_eq!(browser.run("return typeof hacked"), "undefined");
    shown.assert_quiet();
}

#[test]
fn each_poll_is_recorded_when_it_is_asked_for() {
    let shown = shown(&[]);
    let browser = &shown.browser;
    assert_eq!(
        browser.text("#timeline-note"),
        "recorded: what is rare or long"
    );
    browser.click("#each-poll");
    let says = |text: &str| {
        format!(
            "return {}.innerText === '{text}'",
            "document.getElementById('timeline-note')"
        )
    };
    browser.wait("it is full", &says("recorded: each spawn, wake and poll"));
    let has_poll = "return [...timeline.lanes.lanes.values()].some((lane) =>
        lane.slices.some((slice) => slice.kind === 'poll'))";
    browser.wait("polls are in a lane", has_poll);
    browser.click("#each-poll");
    browser.wait("it is as before", &says("recorded: what is rare or long"));
    shown.assert_quiet();
}

#[test]
fn it_fits_each_screen_in_both_themes() {
    let shown = shown(&[]);
    let browser = &shown.browser;
    let background =
        |browser: &Browser| browser.run("return getComputedStyle(document.body).backgroundColor");
    for width in [360, 800, 1440] {
        browser.size(width, 900);
        let script = format!("return document.scrollingElement.scrollWidth <= {width}");
        browser.wait("nothing is wider than the screen", &script);
    }
    browser.prefer("prefers-color-scheme", "dark");
    let dark = background(browser);
    browser.prefer("prefers-color-scheme", "light");
    let light = background(browser);
    assert_ne!(dark, light);
    browser.click("#theme");
    assert_eq!(background(browser), dark);
    browser.click("#theme");
    assert_eq!(background(browser), light);
    shown.assert_quiet();
}

// Fails if the table has an element for each task.
#[test]
fn a_hundred_thousand_tasks_are_few_rows() {
    let shown = shown(&["--quiet", "--idle", "100000"]);
    let browser = &shown.browser;
    let few = "return document.querySelectorAll('.space .row').length < 120";
    browser.wait("all are counted", "return table.matched >= 100000");
    assert_eq!(browser.run(few), true);
    browser.click("#head [data-key=id] button");
    browser.wait("it is sorted by id", "return table.rows[0]?.id === 1");
    browser.run("document.getElementById('table').scrollTop = 1e9");
    let at_the_end = "return table.offset > 99000
        && table.offset + table.rows.length === table.matched
        && document.querySelector('.space .row:last-child').getBoundingClientRect().bottom
            <= document.getElementById('table').getBoundingClientRect().bottom + 1";
    browser.wait("the last row is there", at_the_end);
    assert_eq!(browser.run(few), true);
    shown.assert_quiet();
}
