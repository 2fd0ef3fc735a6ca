//! A program that ends, and one that begins again at the same address.

use std::path::Path;

use ws_browser::{Browser, Program};

use super::SHOP;

// Fails if the page does not say that what it shows is old, or does not come back by itself.
#[test]
fn a_server_that_goes_away_and_comes_back() {
    let program = Program::start(Path::new(SHOP), &["127.0.0.1:0", "--quiet"]);
    let address = program.address().to_owned();
    let browser = Browser::start(1200, 900, false);
    browser.open(&program.url);
    browser.wait("it is live", "return server.last !== null");
    let pid = browser.run("return server.last.pid");
    drop(program);
    browser.wait(
        "it says so",
        "return !document.getElementById('gone').hidden",
    );
    assert_eq!(browser.text("#status"), "no answer");
    assert!(browser.text("#gone").contains("does not answer"));
    // What was there is still there.
    assert!(!browser.texts(".space .row").is_empty());

    let again = Program::start(Path::new(SHOP), &[&address, "--quiet"]);
    let is_back = "return server.last !== null && server.failures === 0
        && document.getElementById('gone').hidden && status.className !== 'gone'";
    let other = format!("{is_back} && server.last.pid !== {pid}");
    browser.wait("it is back", &other);
    assert_eq!(browser.text("#status"), "live");
    drop(browser);
    drop(again);
}
