//! The pictures of the live page: `cargo xtask pictures`. In both themes, and at three widths.
//!
//! ```text
//! pictures FOLDER
//! ```

use std::{env, fs, path::PathBuf};

use ws_browser::{Browser, Program};

fn main() {
    let folder = PathBuf::from(env::args().nth(1).expect("the folder for the pictures"));
    fs::create_dir_all(&folder).expect("it can be made");
    let mut shop = env::current_exe().expect("it has a path");
    shop.set_file_name("shop");
    let mut program = Program::start(&shop, &["127.0.0.1:0"]);
    for dark in [false, true] {
        for (width, height) in [(1440, 1100), (800, 1200), (360, 1400)] {
            let theme = if dark { "dark" } else { "light" };
            let browser = Browser::start(width, height, false);
            browser.prefer("prefers-color-scheme", theme);
            browser.open(&program.url);
            browser.wait(
                "there are rows",
                "return !!document.querySelector('.space .row')",
            );
            program.tell("stall");
            browser.wait(
                "a stall",
                "return !!document.querySelector('#stalls-list li.ended')",
            );
            // The curves and the timeline fill.
            let curve = "return document.querySelector('polyline').points.numberOfItems > 11";
            browser.wait("a curve", curve);
            browser.picture(&folder.join(format!("page-{width}-{theme}.png")));
        }
    }
}
