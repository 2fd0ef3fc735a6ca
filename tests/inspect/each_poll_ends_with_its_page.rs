//! Each poll is recorded as long as a page asks for it, and then what the program wants, also if it
//! has changed that meanwhile.
//!
//! It fails if the wish of one page ends that of another, if it stays when a page is gone, or if
//! the program's own level is lost.

use serde_json::Value;
use ws::trace::Level;

use crate::client::{Client, Served, until};

/// What a page gets that asks for each poll, or does not.
fn level(served: &Served, page: u32, each_poll: bool) -> Value {
    let token = format!("x-ws-inspect: {}\r\n", served.token());
    let each_poll = u8::from(each_poll);
    let path = format!("/state?page={page}&each_poll={each_poll}");
    served.client().ask("GET", &path, &token).json()["level"].clone()
}

#[test]
fn the_level_is_full_while_a_page_asks_for_it() {
    let served = Served::new();
    assert_eq!(level(&served, 1, true), "full");
    assert_eq!(level(&served, 2, true), "full");
    assert_eq!(level(&served, 1, false), "full", "the other page wants it");
    assert_eq!(level(&served, 2, false), "sparse");
}

#[test]
fn the_programs_choice_holds_afterwards() {
    let served = Served::new();
    assert_eq!(level(&served, 1, true), "full");
    served.runtime.handle().record(Level::Off);
    assert_eq!(level(&served, 1, true), "full");
    assert_eq!(level(&served, 1, false), "off");
}

#[test]
fn a_page_that_is_gone_asks_for_nothing() {
    let served = Served::new();
    assert_eq!(level(&served, 1, true), "full");
    // To ask the page would be another page.
    let level = || served.runtime.handle().viewer().level();
    until("polls are recorded no more", || level() == Level::Sparse);
}

#[test]
fn two_servers_of_a_runtime_do_not_end_each_other() {
    let served = Served::new();
    let handle = served.runtime.handle();
    let second = ws::inspect::serve_of(handle, "127.0.0.1:0");
    let second = served.runtime.block_on(second).unwrap();
    assert_eq!(level(&served, 1, true), "full");
    let state = Client::connect(second.addr()).get("/state?page=1").json();
    assert_eq!(state["level"], "full");
    assert_eq!(level(&served, 1, false), "sparse");
}
