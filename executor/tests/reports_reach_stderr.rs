//! L2, S6: without a `tracing` subscriber, a stall and a panic that nobody joins are told on
//! stderr: one line a second at most, with a count of what was left out. A thread and a descriptor
//! that cannot be had are told as well. A subscriber, or `Reports::TracingOnly`, keeps stderr
//! quiet; and a stderr that takes nothing does no harm.
//!
//! Each test is a program of its own: it runs itself once more, as a child, and reads that one's
//! stderr.
//!
//! The stack of a stall is in the lines below its own.
//!
//! It fails when a place says something to `tracing` alone; when `stderr_now` of the reactor needs
//! a descriptor, or takes a pipe that has no reader; when `tell` in `reports.rs` does not look for
//! a subscriber, or at what the builder said; when `admit_at` there lets every line pass; when
//! `write` there uses `eprintln!`, or writes the first line alone; when what must be told has no
//! limit of its own.

mod common;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use common::{Gate, limited};
use ws_executor::{
    runtime::{Builder, Reports, Runtime, UnhandledPanic},
    task,
    trace::Snapshots,
};

const CHILD: &str = "WS_TEST_CHILD_OF_REPORTS";

/// The child runs the second function, and what it returns goes to its stdout. The parent runs the
/// first.
fn with_child(
    test: &'static str,
    parent: impl FnOnce(Child) + Send + 'static,
    child: impl FnOnce() -> String,
) {
    if std::env::var_os(CHILD).is_some() {
        let said = child();
        let mut out = std::io::stdout();
        writeln!(out, "child: {said}").unwrap();
        return;
    }
    let mut command = Command::new("sh");
    command
        // So few descriptors that a test can use them up.
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    limited(move || parent(command.spawn().unwrap()));
}

/// What it said on stdout, and the lines of its runtimes on stderr.
fn ends_well(child: Child) -> (String, Vec<String>) {
    let (said, err) = ends_with(child);
    let lines = err.lines().filter(|line| line.starts_with("ws: "));
    (said, lines.map(str::to_owned).collect())
}

/// What it said on stdout, and all of stderr.
fn ends_with(child: Child) -> (String, String) {
    let output = child.wait_with_output().unwrap();
    let (out, err) = (output.stdout, output.stderr);
    let (out, err) = (
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    );
    assert!(output.status.success(), "{out}\n{err}");
    let (_, said) = out.split_once("child: ").expect("it has come to its end");
    (said.lines().next().unwrap().to_owned(), err)
}

const THRESHOLD: Duration = Duration::from_millis(20);

fn runtime(reports: Reports) -> Runtime {
    let builder = Builder::new().workers(1).stall_threshold(THRESHOLD);
    builder.reports(reports).build().unwrap()
}

/// A task panics that nobody joins. It has been reported, if at all, when this returns the line
/// where it was spawned.
fn panics(runtime: &Runtime, name: &str) -> u32 {
    // It panics when its handle is gone.
    let gate = std::sync::Arc::new(Gate::default());
    let passes = gate.clone();
    let builder = task::Builder::new().name(name);
    let line = line!() + 1;
    drop(builder.spawn_on(
        async move {
            ws_executor::block_in_place(|| passes.pass());
            panic!("expected")
        },
        runtime.handle(),
    ));
    gate.open();
    while runtime.handle().metrics().live_tasks > 0 {
        std::thread::yield_now();
    }
    line
}

#[test]
fn a_panic_that_nobody_joins() {
    let parent = |child| {
        let (line, lines) = ends_well(child);
        let place = format!("{}:{line}:", file!());
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("\"nobody's\""), "{lines:?}");
        assert!(lines[0].contains(&place), "{lines:?} does not name {place}");
        assert!(
            lines[0].ends_with("panicked, and nobody joins it"),
            "{lines:?}"
        );
    };
    with_child("a_panic_that_nobody_joins", parent, || {
        let runtime = runtime(Reports::default());
        panics(&runtime, "nobody's").to_string()
    });
}

/// Fails if the owner of the queue (`owned.rs`) is not told of a panic.
#[test]
fn a_panic_in_a_local_set_that_nobody_joins() {
    let parent = |child| {
        let (line, lines) = ends_well(child);
        let place = format!("{}:{line}:", file!());
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(&place), "{lines:?} does not name {place}");
        assert!(
            lines[0].ends_with("panicked, and nobody joins it"),
            "{lines:?}"
        );
    };
    with_child("a_panic_in_a_local_set_that_nobody_joins", parent, || {
        let line = runtime(Reports::default()).block_on(async {
            let set = task::LocalSet::new();
            let line = line!() + 1;
            drop(set.spawn_local(async { panic!("expected") }));
            set.await;
            line
        });
        line.to_string()
    });
}

/// Nobody reads a full stderr until the child has come to its end.
#[test]
fn a_full_stderr_holds_up_nobody() {
    let parent = |mut child: Child| {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ends = lines
            .map(Result::unwrap)
            .any(|line| line.contains("child: end"));
        assert!(ends);
        child.wait_with_output().unwrap();
    };
    with_child("a_full_stderr_holds_up_nobody", parent, || {
        std::panic::set_hook(Box::new(|_| ()));
        // What a pipe holds.
        std::io::stderr().write_all(&[b'x'; 65_536]).unwrap();
        let runtime = runtime(Reports::default());
        panics(&runtime, "unheard");
        drop(runtime);
        "end".to_owned()
    });
}

/// The child stalls until its stdin ends.
#[test]
fn a_stall() {
    let parent = |mut child: Child| {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().unwrap().starts_with("ws: "));
        let line = line.unwrap().unwrap();
        assert!(line.contains("\"reads\", spawned at"), "{line}");
        assert!(line.contains(" for "), "{line}");
        if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            // Below it, up to what is left out.
            let lines = lines.map(Result::unwrap);
            let is_last = |line: &String| {
                line.contains(" frames of the runtime") || line.contains("it may wait for a core")
            };
            let mut stack = Vec::new();
            for line in lines {
                assert!(line.starts_with("  "), "{stack:?} {line}");
                let ends = is_last(&line);
                stack.push(line);
                if ends {
                    break;
                }
            }
            let text = stack.join("\n");
            let is_there = text.contains("in the system call read")
                && text.contains("reports_reach_stderr.rs:");
            assert!(
                is_there || text.contains("it may wait for a core"),
                "{text}"
            );
        }
        drop(child.stdin.take());
        ends_well(child);
    };
    with_child("a_stall", parent, || {
        let runtime = runtime(Reports::default());
        let builder = task::Builder::new().name("reads");
        let reads = async {
            let mut end = Vec::new();
            std::io::stdin().read_to_end(&mut end).unwrap();
        };
        let task = builder.spawn_on(reads, runtime.handle());
        runtime.block_on(task).unwrap();
        String::new()
    });
}

// The thread that writes tells it.
#[test]
fn a_snapshot_that_cannot_be_written() {
    let parent = |child| {
        let (_, lines) = ends_well(child);
        assert_eq!(lines.len(), 1, "{lines:?}");
        let start = "ws: a recording could not be written to /proc/none/reports_reach_stderr-";
        assert!(lines[0].starts_with(start), "{lines:?}");
        assert!(lines[0].contains("-asked.pftrace: "), "{lines:?}");
    };
    with_child("a_snapshot_that_cannot_be_written", parent, || {
        let builder = Builder::new().workers(1).stall_threshold(None);
        let builder = builder.shutdown_grace(common::GRACE);
        let runtime = builder.snapshots(Snapshots::to("/proc/none")).build();
        let runtime = runtime.unwrap();
        assert!(runtime.handle().snapshot("asked"));
        // Its end waits for that thread.
        drop(runtime);
        String::new()
    });
}

/// Each has a limit of its own.
#[test]
fn a_panic_beside_a_snapshot_that_cannot_be_written() {
    let parent = |child| {
        let (_, lines) = ends_well(child);
        assert_eq!(lines.len(), 2, "{lines:?}");
        for words in ["a recording could not be written to ", "nobody joins it"] {
            let told = lines.iter().filter(|line| line.contains(words));
            assert_eq!(told.count(), 1, "{words}: {lines:?}");
        }
    };
    let test = "a_panic_beside_a_snapshot_that_cannot_be_written";
    with_child(test, parent, || {
        let builder = Builder::new().workers(1).stall_threshold(None);
        let builder = builder.shutdown_grace(common::GRACE);
        let runtime = builder.snapshots(Snapshots::to("/proc/none")).build();
        let runtime = runtime.unwrap();
        panics(&runtime, "beside");
        // Its end waits for the thread that writes.
        drop(runtime);
        String::new()
    });
}

/// Nothing runs, so there is nothing to tell, even if the threads have no time to end.
#[test]
fn nothing_is_left_of_idle_runtimes() {
    let parent = |child| {
        let (_, lines) = ends_well(child);
        assert_eq!(lines, [""; 0]);
    };
    with_child("nothing_is_left_of_idle_runtimes", parent, || {
        for _ in 0..50 {
            let builder = Builder::new().workers(2).shutdown_grace(Duration::ZERO);
            let runtime = builder.build().unwrap();
            runtime.block_on(runtime.spawn(async {})).unwrap();
        }
        String::new()
    });
}

/// A call that does not return before its runtime gives up.
#[test]
fn what_is_left_at_the_end() {
    let parent = |child| {
        let (line, err) = ends_with(child);
        let start = "ws: the runtime was shut down while tasks still ran (tasks: 1, threads: ";
        let (_, rest) = err.split_once(start).expect(&err);
        let mut lines = rest.lines();
        let first = lines.next().expect("the end of the line");
        assert!(
            first.ends_with("; their threads drop them when they return"),
            "{err}"
        );
        let left = lines.next().expect("the task");
        assert!(left.starts_with("  task "), "{err}");
        let place = format!("\"left\", spawned at {}:{line}:", file!());
        assert!(left.contains(&place), "{err} does not name {place}");
    };
    with_child("what_is_left_at_the_end", parent, || {
        let builder = Builder::new().workers(1).stall_threshold(None);
        let runtime = builder.shutdown_grace(Duration::ZERO).build().unwrap();
        let (begun, gate) = (
            std::sync::Arc::new(Gate::default()),
            std::sync::Arc::new(Gate::default()),
        );
        let (begins, passes) = (begun.clone(), gate.clone());
        let call = move || {
            begins.open();
            passes.pass();
        };
        let builder = task::Builder::new().name("left");
        let guard = runtime.enter();
        let line = line!() + 1;
        drop(builder.spawn_blocking(call));
        drop(guard);
        begun.pass();
        drop(runtime);
        gate.open();
        line.to_string()
    });
}

/// That the runtime ends is told beside the panic, whose limit is another one.
#[test]
fn a_panic_that_ends_the_runtime() {
    let parent = |child| {
        let (_, lines) = ends_well(child);
        let told = "ws: a task panicked: the runtime shuts down, as its builder asked for";
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().any(|line| line == told), "{lines:?}");
    };
    with_child("a_panic_that_ends_the_runtime", parent, || {
        let builder = Builder::new().workers(1).stall_threshold(None);
        let builder = builder.shutdown_grace(common::GRACE);
        let runtime = builder
            .unhandled_panic(UnhandledPanic::ShutdownRuntime)
            .build()
            .unwrap();
        // Alive until the panic ends the runtime. `panics` waits for that.
        drop(runtime.spawn(std::future::pending::<()>()));
        panics(&runtime, "ends");
        String::new()
    });
}

#[test]
fn a_thread_that_cannot_be_had() {
    let parent = |child| {
        let (_, lines) = ends_well(child);
        let is_told = |line: &String| {
            line.starts_with("ws: no thread could be started: work waits for the others: ")
                && line.contains("`Builder::max_threads` allows: raise it")
        };
        assert!(lines.iter().any(is_told), "{lines:?}");
    };
    with_child("a_thread_that_cannot_be_had", parent, || {
        let builder = Builder::new().workers(1).max_threads(2);
        let runtime = builder.stall_threshold(None).build().unwrap();
        let gate = std::sync::Arc::new(Gate::default());
        // The last one waits for a thread.
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let gate = gate.clone();
                runtime.spawn(async move { gate.pass() })
            })
            .collect();
        while runtime.metrics().threads_refused == 0 {
            std::thread::yield_now();
        }
        gate.open();
        for task in tasks {
            runtime.block_on(task).unwrap();
        }
        String::new()
    });
}

/// Not even to tell it.
#[test]
fn no_descriptor_is_left() {
    let parent = |child| {
        let (_, lines) = ends_well(child);
        assert_eq!(lines.len(), 1, "{lines:?}");
        let start = "ws: no room for a connection: accept waits: ";
        assert!(lines[0].starts_with(start), "{lines:?}");
        let what_to_do = "raise the limit of descriptors (`ulimit -n`";
        assert!(lines[0].contains(what_to_do), "{lines:?}");
    };
    with_child("no_descriptor_is_left", parent, || {
        let runtime = runtime(Reports::default());
        let mut files = Vec::new();
        let error = loop {
            match std::fs::File::open("/dev/null") {
                Ok(file) => files.push(file),
                Err(error) => break error,
            }
        };
        let _guard = runtime.enter();
        assert!(ws_executor::netpoll::accept_waits(&error));
        drop(files);
        String::new()
    });
}

#[test]
fn one_line_a_second() {
    const PANICS: usize = 50;
    let parent = |child| {
        let (seconds, lines) = ends_well(child);
        let seconds: usize = seconds.parse().unwrap();
        assert!(
            (1..=seconds + 1).contains(&lines.len()),
            "{seconds} s: {lines:?}"
        );
        let left_out = lines.iter().filter_map(|line| {
            let (_, count) = line.split_once(" (")?;
            let (count, _) = count.split_once(" reports before this one were left out)")?;
            Some(count.parse::<usize>().unwrap())
        });
        let left_out: usize = left_out.sum();
        let last = lines.last().unwrap();
        // Each of them has a name that is its number.
        let told: Vec<_> = (0..PANICS)
            .filter(|number| last.contains(&format!("\"{number}\"")))
            .collect();
        assert_eq!(told, [left_out + lines.len() - 1], "{lines:?}");
    };
    with_child("one_line_a_second", parent, || {
        let runtime = runtime(Reports::default());
        let begin = Instant::now();
        for number in 0..PANICS {
            panics(&runtime, &number.to_string());
        }
        begin.elapsed().as_secs().to_string()
    });
}

#[test]
fn not_if_a_subscriber_listens() {
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    let parent = |child| {
        assert_eq!(ends_well(child), ("1".to_owned(), Vec::new()));
    };
    with_child("not_if_a_subscriber_listens", parent, || {
        common::subscribe(|_| _ = HEARD.fetch_add(1, Relaxed));
        // On a slow machine a panic is a stall as well.
        let builder = Builder::new().workers(1).stall_threshold(None);
        panics(&builder.build().unwrap(), "heard");
        HEARD.load(Relaxed).to_string()
    });
}

#[test]
fn not_if_nobody_wants_it() {
    let parent = |child| {
        assert_eq!(ends_well(child), ("silent".to_owned(), Vec::new()));
    };
    with_child("not_if_nobody_wants_it", parent, || {
        let quiet = runtime(Reports::TracingOnly);
        panics(&quiet, "quiet");
        // The same stalls another runtime, with a hook and a longer threshold, which tells when it
        // is over.
        let (begun, gate) = (
            std::sync::Arc::new(Gate::default()),
            std::sync::Arc::new(Gate::default()),
        );
        let (inner, passes) = (begun.clone(), gate.clone());
        let stalls = quiet.spawn(async move {
            inner.open();
            passes.pass();
        });
        begun.pass();
        let opens = gate.clone();
        let builder = Builder::new().workers(1).stall_threshold(5 * THRESHOLD);
        let other = builder.on_stall(move |_| opens.open()).build().unwrap();
        let too = other.spawn(async move { gate.pass() });
        quiet.block_on(stalls).unwrap();
        other.block_on(too).unwrap();
        "silent".to_owned()
    });
}

/// Its other end is closed.
#[test]
fn a_stderr_that_takes_nothing() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let parent = |mut child: Child| {
        drop(child.stderr.take());
        drop(child.stdin.take());
        let (panics, _) = ends_well(child);
        assert_eq!(panics, "1", "that of the task");
    };
    with_child("a_stderr_that_takes_nothing", parent, || {
        let mut end = Vec::new();
        // Now it is closed.
        std::io::stdin().read_to_end(&mut end).unwrap();
        std::panic::set_hook(Box::new(|_| _ = PANICS.fetch_add(1, Relaxed)));
        panics(&runtime(Reports::default()), "unheard");
        assert!(std::io::stderr().write_all(b"x").is_err());
        PANICS.load(Relaxed).to_string()
    });
}

/// The same, in a program that the system ends at such a write, as it does by default.
#[cfg(unix)]
#[expect(unsafe_code, reason = "what a signal does has no face in std")]
#[test]
fn a_stderr_without_a_reader_where_sigpipe_ends_the_process() {
    let parent = |mut child: Child| {
        drop(child.stderr.take());
        drop(child.stdin.take());
        let (said, _) = ends_well(child);
        assert_eq!(said, "end");
    };
    let test = "a_stderr_without_a_reader_where_sigpipe_ends_the_process";
    with_child(test, parent, || {
        let mut end = Vec::new();
        // Now it is closed.
        std::io::stdin().read_to_end(&mut end).unwrap();
        std::panic::set_hook(Box::new(|_| ()));
        // SAFETY: no code of this process relies on what the signal does.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let runtime = runtime(Reports::default());
        panics(&runtime, "unheard");
        drop(runtime);
        "end".to_owned()
    });
}
