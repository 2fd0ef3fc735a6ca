//! The live page in Chromium. `cargo xtask ci browser` runs this.
//!
//! Each test has a program and a browser of its own. Where something has to come, it asks the page
//! until it is there; nothing sleeps for that, and nothing is timed.

mod it_is_used_by_keyboard;
mod it_shows_a_snapshot;
mod it_shows_what_is_there;
mod it_sorts_and_finds;
mod it_survives_its_server;

use std::path::{Path, PathBuf};

use ws_browser::{Browser, Program};

const SHOP: &str = env!("CARGO_BIN_EXE_shop");

/// A program with a page, and a browser that shows it.
struct Shown {
    // The browser ends first: it would see that the program is gone.
    browser: Browser,
    program: Program,
}

fn shown(arguments: &[&str]) -> Shown {
    let arguments = [&["127.0.0.1:0"], arguments].concat();
    let program = Program::start(Path::new(SHOP), &arguments);
    let browser = Browser::start(1200, 900, false);
    browser.open(&program.url);
    browser.wait("it is live", "return server.last !== null");
    Shown { browser, program }
}

/// The program that shows snapshots; the section of CI builds it.
fn ws_inspect() -> PathBuf {
    let path = Path::new(SHOP).with_file_name("ws-inspect");
    assert!(path.exists(), "`cargo build -p ws-inspect` comes first");
    path
}

impl Shown {
    /// The names of the rows on the screen.
    fn names(&self) -> Vec<String> {
        self.browser.texts(".space .cell[data-key=name]")
    }

    /// Nothing went wrong that a user does not see.
    #[track_caller]
    fn assert_quiet(&self) {
        assert_eq!(self.browser.log(), [""; 0]);
    }
}
