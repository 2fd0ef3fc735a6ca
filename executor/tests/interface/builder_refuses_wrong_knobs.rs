//! A knob that is out of its range is a `BuildError` that names it; nothing is built, and nothing
//! panics.
//!
//! It fails when a check of `runtime/builder.rs` is left out.

use std::{io::Write as _, sync::mpsc, time::Duration};

use ws_executor::{
    runtime::{BuildError, Builder, Runtime},
    task, time,
    trace::Level,
};

const LEAST_STACK: usize = 64 * 1024;

fn refused(builder: Builder, knob: &str, words: &str) {
    let error: BuildError = builder.build().map(drop).unwrap_err();
    assert_eq!(error.knob_name(), Some(knob));
    let text = error.to_string();
    assert!(text.contains(knob) && text.contains(words), "{text}");
}

#[test]
fn workers() {
    refused(Builder::new().workers(0), "workers", "0");
    refused(
        Builder::new().workers(1025).max_threads(5000),
        "workers",
        "1025",
    );
    refused(Builder::new().workers(usize::MAX), "workers", "1024");
    assert!(
        Builder::new()
            .workers(1024)
            .max_threads(1025)
            .build()
            .is_ok()
    );
    assert!(Builder::new().workers(1).build().is_ok());
}

#[test]
fn max_threads() {
    refused(Builder::new().workers(4).max_threads(4), "max_threads", "4");
    refused(Builder::new().workers(4).max_threads(0), "max_threads", "0");
    refused(
        Builder::new().workers(512).max_threads(512),
        "max_threads",
        "512",
    );
    assert!(Builder::new().workers(1024).build().is_ok(), "by default");
    refused(
        Builder::new().workers(1).max_threads(usize::MAX),
        "max_threads",
        "max",
    );
    assert!(Builder::new().workers(4).max_threads(5).build().is_ok());
}

#[test]
fn stack_size() {
    refused(Builder::new().workers(1).stack_size(0), "stack_size", "0");
    refused(
        Builder::new().workers(1).stack_size(1000),
        "stack_size",
        "1000",
    );
    refused(
        Builder::new().workers(1).stack_size(usize::MAX),
        "stack_size",
        "",
    );
    // A task that only yields overflows 16 KiB in a debug build.
    for bytes in [16 * 1024, LEAST_STACK - 1] {
        let builder = Builder::new().workers(1).stack_size(bytes);
        refused(builder, "stack_size", &LEAST_STACK.to_string());
    }
}

#[test]
fn recorder() {
    const MAX: usize = 1 << 30;
    for bytes in [MAX + 1, 1 << 40, usize::MAX] {
        refused(
            Builder::new().recorder(bytes),
            "recorder",
            &bytes.to_string(),
        );
    }
    // The memory of the largest follows its use.
    for bytes in [0, 1, MAX] {
        let builder = Builder::new().workers(1).recorder(bytes);
        let runtime = builder.record(Level::Full).build().unwrap();
        runtime.block_on(runtime.spawn(async {})).unwrap();
        let events = runtime.handle().recording().events;
        assert_eq!(events.is_empty(), bytes == 0, "{bytes}");
    }
}

#[test]
fn thread_name() {
    refused(
        Builder::new().workers(1).thread_name("a\0b"),
        "thread_name",
        "",
    );
}

/// The smallest values that are accepted also work.
#[test]
fn the_least_runs() {
    let runtime = Builder::new()
        .workers(1)
        .max_threads(2)
        .stack_size(LEAST_STACK)
        .build()
        .unwrap();
    assert_eq!(runtime.block_on(runtime.spawn(async { 5 })).unwrap(), 5);
}

/// On threads of the runtime: that of the test has a larger stack.
#[test]
fn the_least_stack_is_enough() {
    for workers in [1, 2] {
        let builder = Builder::new().workers(workers).stack_size(LEAST_STACK);
        let runtime = builder.build().unwrap();
        let (done, waits) = mpsc::channel();
        runtime.spawn(async move {
            let children: Vec<_> = (0..20)
                .map(|_| ws_executor::spawn(task::yield_now()))
                .collect();
            for child in children {
                child.await.unwrap();
            }
            time::sleep(Duration::from_millis(1)).await;
            task::yield_now().await;
            ws_executor::block_in_place(|| ());
            done.send(ws_executor::spawn_blocking(|| 5).await.unwrap())
        });
        assert_eq!(waits.recv(), Ok(5));
    }
}

/// In a process of its own, for the environment belongs to all threads.
#[test]
fn the_environment() {
    const CHILD: &str = "WS_TEST_CHILD_OF_WRONG_KNOBS";
    if std::env::var_os(CHILD).is_some() {
        let mut out = std::io::stdout();
        match Runtime::new() {
            Ok(runtime) => writeln!(out, "workers {}", runtime.handle().metrics().workers).unwrap(),
            Err(error) => writeln!(out, "refused {:?} {error}", error.knob_name()).unwrap(),
        }
        return;
    }
    let built_where = |variable: &str, value: &str| {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "builder_refuses_wrong_knobs::the_environment",
                "--exact",
                "--nocapture",
            ])
            .env(CHILD, "1")
            .env_remove("WS_WORKERS")
            .env_remove("WS_RECORD")
            .env(variable, value)
            .output()
            .unwrap();
        assert!(child.status.success());
        String::from_utf8(child.stdout).unwrap()
    };
    let built_with = |value: &str| built_where("WS_WORKERS", value);
    assert!(built_with("3").contains("workers 3"));
    assert!(built_with(" 7 ").contains("workers 7"));
    // A variable that is empty is one that is not set.
    for unset in ["", " "] {
        let text = built_with(unset);
        assert!(text.contains("workers "), "{unset:?}: {text}");
    }
    for wrong in ["0", "-1", "many", "1025", "99999999999999999999999"] {
        let text = built_with(wrong);
        assert!(
            text.contains("refused Some(\"WS_WORKERS\")"),
            "{wrong:?}: {text}"
        );
    }
    // A machine that is too large is the reason for one of them alone.
    let (zero, many) = (built_with("0"), built_with("1025"));
    assert!(zero.contains("must be at least 1: it is 0"), "{zero}");
    assert!(!zero.contains("a larger machine"), "{zero}");
    assert!(many.contains("a larger machine"), "{many}");
    let text = built_where("WS_RECORD", "all");
    assert!(text.contains("refused Some(\"WS_RECORD\")"), "{text}");
    assert!(
        text.contains("`sparse`") && text.contains("\"all\""),
        "{text}"
    );
}
