//! The table: sorted by each column, filtered by state, searched; and a page that is loaded again
//! shows the same.

use super::{Shown, shown};

fn sorted_by(shown: &Shown, key: &str) -> String {
    let script = format!(
        "return document.querySelector('#head [data-key={key}]').getAttribute('aria-sort')"
    );
    let order = shown.browser.run(&script);
    order.as_str().unwrap_or("not").to_owned()
}

fn with_names() -> Shown {
    let mut shown = shown(&["--quiet"]);
    for name in ["fig", "apple", "cherry"] {
        shown.program.tell(&format!("spawn {name}"));
    }
    let all = "return document.querySelectorAll('.space .row').length >= 5";
    shown.browser.wait("they are there", all);
    shown
}

// Fails if a click does not sort, or sorts the wrong way.
#[test]
fn a_click_at_a_title_sorts() {
    let shown = with_names();
    let fruit = || {
        let names = shown.names().into_iter();
        let fruit = names.filter(|name| ["fig", "apple", "cherry"].contains(&name.as_str()));
        fruit.collect::<Vec<_>>()
    };
    assert_eq!(sorted_by(&shown, "age"), "descending");
    let is = |names: &[&str]| {
        let browser = &shown.browser;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while fruit() != names {
            assert!(until > std::time::Instant::now(), "{:?}", fruit());
            browser.run("return 0");
        }
    };
    shown.browser.click("#head [data-key=name] button");
    is(&["apple", "cherry", "fig"]);
    assert_eq!(sorted_by(&shown, "name"), "ascending");
    assert_eq!(sorted_by(&shown, "age"), "not");
    shown.browser.click("#head [data-key=name] button");
    is(&["fig", "cherry", "apple"]);
    assert_eq!(sorted_by(&shown, "name"), "descending");
    shown.browser.click("#head [data-key=id] button");
    is(&["fig", "apple", "cherry"]);
    shown.assert_quiet();
}

#[test]
fn a_search_and_a_state_leave_a_part() {
    let shown = with_names();
    let browser = &shown.browser;
    browser.click("#search");
    browser.press("CHERR");
    browser.wait(
        "one is left",
        "return table.matched === 1 && table.rows.length === 1",
    );
    assert_eq!(shown.names(), ["cherry"]);
    assert!(browser.text("#tasks-count").starts_with("1 of "));
    browser.press("xyz");
    browser.wait("none is left", "return table.matched === 0");
    assert_eq!(browser.text("#empty"), "No task is like that.");
    browser.press(ws_browser::key::ESCAPE);
    browser.wait("all are back", "return table.matched === table.total");
    browser.click("#states [data-state=running]");
    let running = "return table.matched < table.total
        && document.querySelector('#states [data-state=running]').ariaPressed === 'true'";
    browser.wait("those that run are left", running);
    assert!(!shown.names().contains(&"fig".to_owned()));
    shown.assert_quiet();
}

#[test]
fn a_page_that_is_loaded_again_is_the_same() {
    let shown = with_names();
    let browser = &shown.browser;
    browser.click("#search");
    browser.press("fig");
    browser.wait("it is found", "return table.matched === 1");
    browser.run("location.reload()");
    browser.wait(
        "it is found again",
        "return server.last !== null && table.matched === 1",
    );
    assert_eq!(browser.run("return search.value"), "fig");
    assert_eq!(shown.names(), ["fig"]);
    shown.assert_quiet();
}

// Fails if the columns have other widths in the rows than in the head.
#[test]
fn columns_stand_below_their_titles() {
    let shown = with_names();
    let script = "const left = (it) => it.getBoundingClientRect().left;
        const heads = [...document.querySelectorAll('#head .cell')].map(left);
        return [...document.querySelectorAll('.space .row')].every((row) =>
            [...row.children].every((cell, i) => Math.abs(left(cell) - heads[i]) < 1))";
    for width in [800, 1440] {
        shown.browser.size(width, 900);
        shown.browser.wait("they do", script);
    }
}
