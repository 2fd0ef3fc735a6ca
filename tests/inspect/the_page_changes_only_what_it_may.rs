//! `ws::inspect` changes nothing but what the page asks for with its token: a snapshot is written,
//! each poll is recorded.
//!
//! It fails if the token is not asked for.

use std::{env, fs};

use ws::{runtime::Builder, trace::Snapshots};

use crate::client::{Served, until};

#[test]
fn a_snapshot_needs_the_token() {
    let dir = env::temp_dir().join(format!("ws-inspect-{}", std::process::id()));
    let builder = Builder::new().workers(2).snapshots(Snapshots::to(&dir));
    let served = Served::built(builder);
    let written = || fs::read_dir(&dir).map_or(0, Iterator::count);
    for header in ["", "x-ws-inspect: \r\n", "x-ws-inspect: 0123\r\n"] {
        let reply = served.client().ask("POST", "/snapshot", header);
        assert_eq!(reply.status, 403, "{header}");
    }
    assert_eq!(written(), 0);
    let token = format!("x-ws-inspect: {}\r\n", served.token());
    let answer = served.client().ask("POST", "/snapshot", &token).json();
    assert_eq!(answer["written"], true);
    until("it is there", || written() == 1);
    let _ = fs::remove_dir_all(dir);
}

#[test]
fn without_a_folder_none_is_written() {
    let served = Served::new();
    let token = format!("x-ws-inspect: {}\r\n", served.token());
    let answer = served.client().ask("POST", "/snapshot", &token).json();
    assert_eq!(answer["written"], false);
}

#[test]
fn each_poll_needs_the_token() {
    let served = Served::new();
    let state = served.state("page=1&each_poll=1");
    assert_eq!(state["level"], "sparse");
    assert_eq!(state["each_poll"], false);
}

#[test]
fn each_start_has_another_token() {
    assert_ne!(Served::new().token(), Served::new().token());
    assert_eq!(Served::new().token().len(), 32);
}
