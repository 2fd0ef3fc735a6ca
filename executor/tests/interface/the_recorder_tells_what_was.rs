//! The flight recorder: what a recording has of marks, spans, wakes, long polls, timers, and of the
//! names of tasks that have ended.

use std::{
    pin::pin,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use ws_executor::{
    runtime::{Builder, Clock, Runtime, Sysmon},
    task::{self, Id},
    time,
    trace::{self, Event, EventKind, Level},
};

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// The events of a name or, without one, of a kind.
fn named(runtime: &Runtime, name: &str) -> Vec<Event> {
    let events = runtime.handle().recording().events.into_iter();
    events.filter(|event| event.name == Some(name)).collect()
}

// Fails if a task that has ended has lost its name or its place, if the name is told for each poll
// or behind the poll, or if a task without a name has to pay for it.
#[test]
fn a_named_task_keeps_its_name_when_it_has_ended() {
    // No permit is revoked: another P would tell the name once more.
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    let runtime = builder.record(Level::Full).build().unwrap();
    let yields = || async {
        for _ in 0..3 {
            task::yield_now().await;
        }
    };
    let long = "n".repeat(300);
    let (line, ids) = (
        line!() + 2,
        runtime.block_on(async {
            let named = |name: &str| task::Builder::new().name(name).spawn(yields());
            let tasks = [named("prices"), named(&long), ws_executor::spawn(yields())];
            let ids = tasks.each_ref().map(|task| task.id());
            for task in tasks {
                task.await.unwrap();
            }
            let aborted = named("aborted");
            task::yield_now().await;
            let id = aborted.id();
            aborted.abort();
            aborted.await.unwrap_err();
            (ids, id)
        }),
    );
    let ([prices, cut, plain], aborted) = ids;
    let recording = runtime.handle().recording();
    let of_prices = &recording.tasks[&prices];
    assert_eq!(of_prices.name.as_deref(), Some("prices"));
    let place = of_prices.location;
    assert_eq!((place.file(), place.line()), (file!(), line));
    assert_eq!(recording.tasks[&aborted].name.as_deref(), Some("aborted"));
    let of_cut = recording.tasks[&cut].name.as_deref().unwrap();
    assert!(of_cut.starts_with(&long[..200]) && of_cut.ends_with('…'));
    assert!(!recording.tasks.contains_key(&plain));
    let kinds = |id| {
        let events = recording.events.iter();
        let own = events.filter(move |event| event.task == Some(id));
        let own = own.filter(|event| [EventKind::Named, EventKind::Run].contains(&event.kind));
        own.map(|event| event.kind).collect::<Vec<_>>()
    };
    use EventKind::{Named, Run};
    assert_eq!(kinds(prices), [Named, Run, Run, Run, Run]);
    assert_eq!(kinds(plain), [Run; 4]);
    let of_names = recording.events.iter().find(|event| event.kind == Named);
    let shown = of_names.unwrap().to_string();
    let expected = format!(r#"Named "prices" task {prices}, spawned at {place}"#);
    assert!(shown.ends_with(&expected), "{shown}");
}

/// What is recorded from now on until there is such an event.
fn wait_for(runtime: &Runtime, is_it: impl Fn(&Event) -> bool) -> Event {
    loop {
        let events = runtime.handle().recording().events;
        if let Some(event) = events.into_iter().find(&is_it) {
            return event;
        }
        thread::yield_now();
    }
}

#[test]
fn a_mark_has_the_task_that_makes_it() {
    let runtime = runtime(2);
    trace::mark("outside");
    let mark = || {
        trace::mark("here");
        task::try_id()
    };
    let ids: Vec<Option<Id>> = runtime.block_on(async {
        let mut ids = vec![mark()];
        ids.push(ws_executor::spawn(async move { mark() }).await.unwrap());
        ids.push(ws_executor::spawn_blocking(mark).await.unwrap());
        let set = task::LocalSet::new();
        let of_set = set.spawn_local(async move { mark() });
        ids.push(set.run_until(of_set).await.unwrap());
        ids.push(
            ws_executor::spawn_pinned(move || async move { mark() })
                .await
                .unwrap(),
        );
        ids
    });
    let entered = runtime.handle().enter();
    trace::mark("entered");
    drop(entered);
    trace::mark("outside");
    let marks = named(&runtime, "here");
    let kinds_are_right = marks.iter().all(|event| event.kind == EventKind::Mark);
    assert!(kinds_are_right, "{marks:?}");
    let of_marks: Vec<_> = marks.iter().map(|event| event.task).collect();
    assert_eq!(of_marks, ids);
    assert!(ids[0].is_none() && ids[1..].iter().all(Option::is_some));
    let [ref entered] = named(&runtime, "entered")[..] else {
        panic!("it was made once");
    };
    assert_eq!((entered.task, entered.processor), (None, None));
    assert_eq!(named(&runtime, "outside"), []);
    assert!(marks[1].to_string().contains("Mark \"here\" task"));
}

#[test]
fn what_is_off_records_no_mark() {
    for builder in [
        Builder::new().record(Level::Off),
        Builder::new().recorder(0),
        Builder::new().recorder(0).record(Level::Full),
    ] {
        let runtime = builder.workers(1).build().unwrap();
        runtime.block_on(async {
            trace::mark("nobody sees it");
            drop(trace::span("nobody sees it"));
        });
        assert_eq!(runtime.handle().recording().events, []);
    }
    // A span that began while nothing was recorded has no end either.
    let runtime = Builder::new().record(Level::Off).build().unwrap();
    runtime.block_on(async {
        let span = trace::span("begun too early");
        runtime.handle().record(Level::Sparse);
        drop(span);
        trace::mark("seen");
    });
    assert_eq!(named(&runtime, "begun too early"), []);
    assert_eq!(named(&runtime, "seen").len(), 1);
}

// The thread that waits has a P as well, and then the last of the workers' is one more.
#[test]
fn the_rings_of_workers_are_of_full_size_beside_a_block_on() {
    let runtime = runtime(2);
    runtime.handle().record(Level::Full);
    runtime.block_on(async {
        let yields = ws_executor::spawn(async {
            for _ in 0..15_000 {
                task::yield_now().await;
            }
        });
        yields.await.unwrap();
    });
    let recording = runtime.handle().recording();
    assert!(recording.events.len() > 30_000);
    assert_eq!(recording.overwritten, 0);
}

// Otherwise their ends are taken for one another's.
#[test]
fn spans_that_are_open_together_have_numbers_of_their_own() {
    const SPANS: usize = 1000;
    let runtime = runtime(1);
    runtime.block_on(async {
        drop(
            (0..SPANS)
                .map(|_| trace::span("one of many"))
                .collect::<Vec<_>>(),
        );
    });
    let mut open = std::collections::BTreeSet::new();
    for event in named(&runtime, "one of many") {
        match event.kind {
            EventKind::SpanBegin => assert!(open.insert(event.number), "{event}"),
            _ => assert!(open.remove(&event.number), "{event}"),
        }
    }
    assert!(open.is_empty());
}

// The next runtime may be where the last one was.
#[test]
fn a_span_of_a_runtime_that_has_ended_does_not_end_in_the_next_one() {
    for _ in 0..50 {
        let ended = runtime(1);
        let span = ended.block_on(async { trace::span("of the last one") });
        drop(ended);
        let next = runtime(1);
        next.block_on(async { drop(span) });
        assert_eq!(named(&next, "of the last one"), []);
    }
}

#[test]
fn a_span_ends_where_it_is_dropped_and_belongs_to_its_task() {
    let runtime = runtime(2);
    let (id, elsewhere) = runtime.block_on(async {
        let spawned = ws_executor::spawn(async {
            let span = trace::span("a task's");
            // Dropped by another task.
            ws_executor::spawn(async move { drop(span) }).await.unwrap();
            let outside = trace::span("ends outside");
            let inside_another = trace::span("ends outside");
            let outside = thread::spawn(move || {
                drop(outside);
                let another = Builder::new().workers(1).build().unwrap();
                another.block_on(async { drop(inside_another) });
                named(&another, "ends outside")
            });
            (task::id(), outside)
        });
        spawned.await.unwrap()
    });
    assert_eq!(elsewhere.join().unwrap(), []);
    let spans = named(&runtime, "a task's");
    let kinds: Vec<_> = spans.iter().map(|event| (event.kind, event.task)).collect();
    let begin_and_end = [EventKind::SpanBegin, EventKind::SpanEnd];
    assert_eq!(kinds, begin_and_end.map(|kind| (kind, Some(id))));
    assert!(spans[0].time <= spans[1].time);
    let kinds: Vec<_> = named(&runtime, "ends outside")
        .iter()
        .map(|event| event.kind)
        .collect();
    assert_eq!(kinds, [EventKind::SpanBegin; 2]);
}

/// The wake is recorded between the begin and the end of the waker's poll. So a recording tells
/// which task woke which.
#[test]
fn a_wake_is_in_the_poll_of_one_that_woke() {
    let runtime = Builder::new().workers(1).record(Level::Full);
    let runtime = runtime.sysmon(Sysmon::Off).build().unwrap();
    let (waiter, waker) = runtime.block_on(async {
        let (send, receive) = futures::channel::oneshot::channel::<()>();
        let (tell, told) = futures::channel::oneshot::channel::<()>();
        let waits = ws_executor::spawn(async {
            tell.send(()).unwrap();
            receive.await.unwrap();
        });
        told.await.unwrap();
        let wakes = ws_executor::spawn(async { send.send(()).unwrap() });
        let ids = (waits.id(), wakes.id());
        waits.await.unwrap();
        wakes.await.unwrap();
        ids
    });
    let events = runtime.handle().recording().events;
    let at = |kind, task| {
        let is_it = |event: &Event| event.kind == kind && event.task == Some(task);
        events.iter().position(is_it)
    };
    let woken = at(EventKind::Wake, waiter).expect("it waited");
    let began = at(EventKind::Run, waker).expect("it ran");
    let ended = at(EventKind::Done, waker).expect("it ended");
    assert!(began < woken && woken < ended, "{events:#?}");
    assert_eq!(events[woken].processor, events[began].processor);
    let idle = at(EventKind::Idle, waiter).expect("it waited");
    assert!(idle < woken);
    // It waits no more after that.
    assert!(at(EventKind::Done, waiter).expect("it ended") > woken);
}

#[test]
fn a_long_poll_is_told_while_it_goes_on_and_when_it_is_over() {
    let builder = Builder::new().workers(2);
    let builder = builder.stall_threshold(Some(Duration::from_millis(5)));
    let runtime = builder.on_stall(|_| ()).build().unwrap();
    let meet = Arc::new(Barrier::new(2));
    let task = runtime.spawn({
        let meet = meet.clone();
        async move {
            meet.wait();
        }
    });
    let id = task.id();
    let of_task = |kind| move |event: &Event| event.kind == kind && event.task == Some(id);
    let long = wait_for(&runtime, of_task(EventKind::LongPoll));
    let stall = wait_for(&runtime, of_task(EventKind::Stall));
    let at = stall.number;
    assert!(stall.time >= long.time);
    assert_eq!(long.number >> 32, at, "the number of its P");
    let tenths = long.number as u32;
    assert!(tenths >= 10, "{tenths} tenths of a millisecond");
    meet.wait();
    runtime.block_on(task).unwrap();
    let ends = |event: &Event| event.kind == EventKind::LongPollEnd && event.number == at;
    assert!(wait_for(&runtime, ends).time > long.time);
}

#[test]
fn timers_tell_how_late_they_are() {
    let runtime = Builder::new()
        .workers(1)
        .sysmon(Sysmon::Off)
        .build()
        .unwrap();
    runtime.block_on(async {
        // Far enough ahead that a slow machine has polled both by then.
        let both = [101, 100].map(|ms| ws_executor::time::sleep(Duration::from_millis(ms)));
        let mut both = pin!(futures::future::join_all(both));
        assert!(futures::poll!(&mut both).is_pending());
        // Nobody fires them meanwhile.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(105) {}
        both.await;
    });
    let events = runtime.handle().recording().events;
    let fired: Vec<_> = events
        .iter()
        .filter(|event| event.kind == EventKind::Timers)
        .collect();
    let [fired] = fired[..] else {
        panic!("they are fired at once: {fired:?}");
    };
    let (late_us, count) = (fired.number >> 32, fired.number as u32);
    assert!(late_us >= 4000 && count == 2, "{fired}");
}

#[test]
fn all_is_recorded_for_a_while() {
    let runtime = Builder::new().clock(Clock::Paused).build().unwrap();
    let handle = runtime.handle().clone();
    let spawned = |id: Id| {
        let events = handle.recording().events;
        let mut of_task = events.iter().filter(|event| event.task == Some(id));
        of_task.any(|event| event.kind == EventKind::Spawn)
    };
    runtime.block_on(async {
        let spawn = || ws_executor::spawn(async {}).id();
        let second = Duration::from_secs(1);
        assert!(!spawned(spawn()));
        handle.record_all_for(2 * second);
        let mut dump = handle.dump().into_iter();
        assert!(
            dump.all(|task| task.location.file() == file!()),
            "who asked"
        );
        handle.record_all_for(4 * second);
        assert!(spawned(spawn()));
        time::sleep(3 * second).await;
        assert!(spawned(spawn()), "the longer one goes on");
        time::sleep(2 * second).await;
        assert!(!spawned(spawn()));
        handle.record_all_for(2 * second);
        handle.record(Level::Full);
        time::sleep(3 * second).await;
        assert!(spawned(spawn()), "the program's own wish");
    });
}
