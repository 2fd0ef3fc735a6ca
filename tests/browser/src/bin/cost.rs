//! What an open page costs the program: `cargo run --release -p ws-browser --bin cost`.
//!
//! A program with idle tasks and nothing else is looked at for 30 s. It prints the CPU time of the
//! program in that time, without a page and with one.
#![expect(
    clippy::print_stdout,
    reason = "a program that reports on its standard output"
)]

use std::{env, thread, time::Duration};

use ws_browser::{Browser, Program};

/// How long it looks.
const SECONDS: u64 = 30;

fn main() {
    let mut shop = env::current_exe().expect("it has a path");
    shop.set_file_name("shop");
    for tasks in ["0", "1000", "100000"] {
        let mut program = Program::start(&shop, &["127.0.0.1:0", "--quiet", "--idle", tasks]);
        let without = used(&mut program);
        let browser = Browser::start(1440, 1000, false);
        browser.open(&program.url);
        browser.wait("it is live", "return server.last !== null");
        // The first answers, and the page's own load, are not what goes on.
        thread::sleep(Duration::from_secs(5));
        let with = used(&mut program);
        let wait = browser.run("return server.wait");
        println!(
            "{tasks} idle tasks: {without} ms of CPU in {SECONDS} s without a page, {with} ms with one \
             ({:.2} % of a core); an answer each {wait} ms",
            with as f64 / 10.0 / SECONDS as f64
        );
    }
}

/// The CPU time of the program while we look, in milliseconds.
fn used(program: &mut Program) -> u64 {
    let now = |program: &mut Program| program.ask("cpu").parse::<u64>().expect("a number");
    let before = now(program);
    thread::sleep(Duration::from_secs(SECONDS));
    (now(program) - before) * 10
}
