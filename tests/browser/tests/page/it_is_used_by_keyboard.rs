//! All of the page without a mouse.

use ws_browser::key;

use super::shown;

#[test]
fn keys_move_in_the_table_and_in_time() {
    let shown = shown(&["--quiet", "--idle", "500"]);
    let browser = &shown.browser;
    let focus = "return document.activeElement.id";
    browser.press("/");
    assert_eq!(browser.run(focus), "search");
    // Those of the server come and go.
    browser.press("bin/shop.rs");
    browser.wait(
        "they are found",
        "return table.matched > 500 && table.matched < table.total",
    );
    browser.press(key::DOWN);
    assert_eq!(browser.run(focus), "table");
    // The first row, the second, and its details.
    browser.press(key::DOWN);
    browser.press(key::DOWN);
    let chosen = "return document.querySelector('.row[aria-selected=true]')?.ariaRowIndex ?? ''";
    assert_eq!(browser.run(chosen), "3");
    assert_eq!(
        browser.run("return document.getElementById('detail').hidden"),
        false
    );
    browser.press(key::END);
    let at_the_end = "return table.at === table.matched - 1
        && document.querySelector('.row[aria-selected=true]')?.ariaRowIndex
            === String(table.matched + 1)";
    browser.wait("the last row is chosen", at_the_end);
    browser.press(key::HOME);
    browser.wait("the first row is chosen", "return table.at === 0");
    browser.press(key::ESCAPE);
    assert_eq!(
        browser.run("return document.getElementById('detail').hidden"),
        true
    );

    browser.run("document.getElementById('timeline').focus()");
    browser.press(" ");
    assert_eq!(browser.text("#status"), "timeline stopped");
    assert_eq!(browser.text("#pause"), "Go on");
    browser.press("+");
    assert_eq!(browser.text("#zoom"), "5 s");
    browser.press("--");
    assert_eq!(browser.text("#zoom"), "20 s");
    browser.press(key::END);
    assert_eq!(browser.text("#status"), "live");

    browser.press("?");
    assert_eq!(browser.run("return help.open"), true);
    assert!(browser.text("#keys").contains("search"));
    browser.press(key::ESCAPE);
    browser.wait("it is closed", "return !help.open");
    browser.click("#help-open");
    browser.click("#help button");
    assert_eq!(browser.run("return help.open"), false);
    shown.assert_quiet();
}

// Fails if something that can be clicked cannot be reached, or has no name.
#[test]
fn all_that_can_be_clicked_can_be_reached_and_has_a_name() {
    let shown = shown(&[]);
    let script = "
        const all = [...document.querySelectorAll('button, a, input, select, summary, canvas')]
            .filter((it) => it.checkVisibility());
        return all.filter((it) => it.tabIndex < 0
            || !(it.ariaLabel || it.labels?.length
                || it.innerText && !it.classList.contains('icon'))).map((it) => it.outerHTML)";
    assert_eq!(shown.browser.run(script), serde_json::json!([]));
    let label = shown
        .browser
        .run("return timeline.spokenAt && document.getElementById('timeline').ariaLabel");
    assert!(
        label
            .as_str()
            .unwrap()
            .starts_with("Timeline of the last 10 s"),
        "{label}"
    );
}
