//! `Recording::write_perfetto`, read with Perfetto's own definitions of its format: every packet,
//! every field.
//!
//! It fails when a field has another number, when a track is used before it is described, when a
//! slice is not inside of the one around it, when an arrow leads to nothing, when a text is not
//! there, and when the clock is not told. And when a snapshot is no trace with more packets.

mod page;

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use perfetto_protos::{trace::Trace, trace_packet::TracePacket};
use protobuf::{Message, UnknownValueRef};
use tracing_subscriber::layer::SubscriberExt;
use ws::{
    runtime::{Builder, Runtime},
    task::{self, Id},
    trace::{self, EventKind, Level, Recording},
};

use page::{Page, Slice, knows_all};

fn runtime(workers: usize, level: Level) -> Runtime {
    let builder = Builder::new().workers(workers).record(level);
    builder.build().unwrap()
}

/// A task with a name wakes another one, in which there is a mark and two spans that overlap.
fn program(runtime: &Runtime) -> [Id; 2] {
    runtime.block_on(async {
        let (tell, told) = futures::channel::oneshot::channel();
        let (send, receive) = futures::channel::oneshot::channel();
        let waits = task::Builder::new().name("waits");
        let waits = waits.spawn(async move {
            let first = trace::span("first");
            let second = trace::span("second");
            trace::mark("half-way");
            tell.send(()).unwrap();
            receive.await.unwrap();
            drop(first);
            drop(second);
            std::future::pending::<()>().await;
        });
        told.await.unwrap();
        let wakes = ws::spawn(async { send.send(()).unwrap() });
        let ids = [waits.id(), wakes.id()];
        wakes.await.unwrap();
        // The named task waits for ever, so that it is alive when the recording is taken.
        while !is_idle(waits.id()) {
            task::yield_now().await;
        }
        ids
    })
}

fn is_idle(id: Id) -> bool {
    let handle = ws::runtime::Handle::current();
    let ends = |event: &trace::Event| {
        (event.kind, event.task, event.name) == (EventKind::SpanEnd, Some(id), Some("second"))
    };
    handle.recording().events.iter().any(ends)
}

#[test]
fn a_program_is_shown_as_it_was() {
    let runtime = runtime(2, Level::Full);
    let [waits, wakes] = program(&runtime);
    let page = Page::read(&runtime.handle().recording());
    let of_task = format!("/waits (task {waits})");
    let polls = page.slices_on(&of_task);
    assert!(polls.len() >= 2, "{polls:?}");
    // The same polls are on the tracks of the workers, under the task's name.
    let on_workers = page.slices.iter().filter(|slice| {
        let path = page.path(slice.track);
        path.starts_with("/P ") && slice.name == "waits"
    });
    let times = |slices: Vec<&Slice>| -> HashSet<_> {
        slices
            .iter()
            .map(|slice| (slice.begin, slice.end))
            .collect()
    };
    assert_eq!(times(polls.clone()), times(on_workers.collect()));
    assert!(polls.iter().all(|poll| poll.end.is_some()));
    // The spans overlap, so they are on two tracks of one name.
    let spans = page.slices_on(&format!("{of_task}/spans"));
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_ne!(spans[0].track, spans[1].track);
    assert!(spans[0].begin <= spans[1].begin && spans[0].end <= spans[1].end);
    let mark = page
        .moments
        .iter()
        .find(|it| it.name == "half-way")
        .unwrap();
    assert_eq!(page.path(mark.track), of_task);
    assert!(polls[0].begin <= mark.time && Some(mark.time) <= polls[0].end);
    // The arrow from the poll that woke it to the poll that this led to.
    let waker = page
        .slices
        .iter()
        .find(|slice| slice.task == Some(wakes.as_u64()));
    let waker = waker.expect("it ran");
    let wake = page
        .moments
        .iter()
        .find(|it| it.name == "Wake" && it.task == Some(waits.as_u64()) && it.time >= waker.begin);
    let wake = wake.expect("it was woken");
    assert_eq!(wake.track, waker.track);
    assert!(Some(wake.time) <= waker.end);
    let ends_at = |begin| {
        let mut arrows = page.arrows.values();
        arrows
            .find(|(from, _)| *from == begin)
            .and_then(|(_, to)| *to)
    };
    let to = ends_at(wake.time).expect("its arrow leads somewhere");
    assert!(polls.iter().any(|poll| poll.begin == to));
}

// Fails if the name of a task goes with the task: in a recording, or in a snapshot, whose writer
// hears of it from the events alone.
#[test]
fn a_task_that_has_ended_has_its_name() {
    let runtime = runtime(1, Level::Full);
    let ended = runtime.block_on(async {
        let prices = task::Builder::new().name("prices").spawn(async {
            trace::mark("here");
            task::yield_now().await;
        });
        let id = prices.id();
        prices.await.unwrap();
        id
    });
    let mut bytes = Vec::new();
    runtime.handle().write_snapshot(&mut bytes).unwrap();
    let mut snapshot = Trace::parse_from_bytes(&bytes).expect("it is a trace");
    let is_ours = |packet: &TracePacket| packet.special_fields.unknown_fields().iter().count() > 0;
    snapshot.packet.retain(|packet| !is_ours(packet));
    let recording = runtime.handle().recording();
    for page in [Page::read(&recording), Page::of(&snapshot, None)] {
        let of_task = format!("/prices (task {ended})");
        assert_eq!(page.slices_on(&of_task).len(), 2);
        let named = page.slices.iter().filter(|slice| slice.name == "prices");
        assert_eq!(named.count(), 2);
        let marks: Vec<_> = (page.moments.iter())
            .filter(|moment| moment.name == "here")
            .map(|moment| page.path(moment.track))
            .collect();
        assert_eq!(marks, [of_task]);
    }
}

// Fails if a line of a log is on no track of its task, has another text than was logged, or lies
// outside of the poll that logged it.
#[test]
fn a_line_of_a_log_is_on_the_track_of_its_task() {
    let runtime = runtime(2, Level::Full);
    let registry = tracing_subscriber::registry().with(trace::Layer::new());
    let registry = tracing::Dispatch::new(registry);
    let id = runtime.block_on(async {
        let (tell, told) = futures::channel::oneshot::channel();
        let prices = task::Builder::new().name("prices");
        let prices = prices.spawn(async move {
            task::yield_now().await;
            // On whatever thread this poll is.
            tracing::dispatcher::with_default(&registry, || {
                tracing::warn!(target: "orders", order = 7, "it is priced");
            });
            task::yield_now().await;
            tell.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        told.await.unwrap();
        prices.id()
    });
    let page = Page::read(&runtime.handle().recording());
    let of_task = format!("/prices (task {id})");
    let lines: Vec<_> = (page.moments.iter())
        .filter(|moment| moment.name == "it is priced order=7")
        .collect();
    let [on_worker, on_task] = lines[..] else {
        panic!("it is on two tracks: {:?}", page.moments);
    };
    assert!(page.path(on_worker.track).starts_with("/P "));
    assert_eq!(page.path(on_task.track), of_task);
    // What the program makes has no number, or a reader would have to keep it.
    assert!(page.numbered.contains("poll"));
    assert!(!page.numbered.contains("it is priced order=7"));
    assert!(!page.numbered.contains("prices"));
    let texts = [("level", "WARN"), ("target", "orders")];
    let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
    for line in lines {
        assert_eq!((line.time, line.task), (on_task.time, Some(id.as_u64())));
        assert_eq!(line.texts, texts);
    }
    // It lies in the second poll, on both tracks.
    let polls = page.slices_on(&of_task);
    assert!(polls[1].begin <= on_task.time && Some(on_task.time) <= polls[1].end);
    let on_worker = page.slices_on(&page.path(on_worker.track));
    let is_same = |slice: &&&Slice| (slice.begin, slice.end) == (polls[1].begin, polls[1].end);
    assert_eq!(on_worker.iter().filter(is_same).count(), 1);
}

#[test]
fn what_is_rare_is_shown_too() {
    let builder = Builder::new().workers(2).record(Level::Sparse);
    let builder = builder.stall_threshold(Some(Duration::from_millis(5)));
    let runtime = builder.on_stall(|_| ()).build().unwrap();
    let (end, ends) = std::sync::mpsc::channel();
    let blocks = runtime.spawn(async move { ends.recv().unwrap() });
    let is_told = |kind| {
        let events = runtime.handle().recording().events;
        events.iter().any(|event| event.kind == kind)
    };
    while !is_told(EventKind::Stall) {
        std::thread::yield_now();
    }
    end.send(()).unwrap();
    runtime.block_on(async {
        blocks.await.unwrap();
        ws::spawn_blocking(|| ()).await.unwrap();
        ws::time::sleep(Duration::from_millis(1)).await;
    });
    while !is_told(EventKind::LongPollEnd) {
        std::thread::yield_now();
    }
    let page = Page::read(&runtime.handle().recording());
    let long = page
        .slices
        .iter()
        .find(|slice| page.path(slice.track).ends_with("/long polls"));
    let long = long.expect("there was one");
    assert!(long.end.unwrap() - long.begin >= 1_000_000);
    assert!(page.moments.iter().any(|moment| moment.name == "Stall"));
    assert!(page.moments.iter().any(|moment| moment.name == "Timers"));
    assert!(page.slices.iter().any(|slice| slice.name == "sleeps"));
    let calls: Vec<_> = page
        .counters
        .iter()
        .filter(|(path, ..)| path == "/blocking calls")
        .map(|(.., value)| *value)
        .collect();
    assert!(
        calls.contains(&1) && calls.iter().all(|count| *count >= 0),
        "{calls:?}"
    );
}

/// The rings are full, so that slices have lost their begin, and the level changes all the time.
#[test]
fn what_was_overwritten_leaves_no_slice_that_is_wrong() {
    let builder = Builder::new().workers(2).record(Level::Full);
    let runtime = builder.recorder(64 * 16).build().unwrap();
    for round in 0..200 {
        runtime
            .handle()
            .record([Level::Full, Level::Sparse, Level::Off][round % 3]);
        runtime.block_on(async {
            let tasks = (0..20).map(|_| {
                ws::spawn(async {
                    let _span = trace::span("short");
                    task::yield_now().await;
                    ws::block_in_place(|| trace::mark("inside"));
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        });
        // It checks what it reads.
        Page::read(&runtime.handle().recording());
    }
}

/// A recording of these events: when in microseconds, what, on which P, and its number.
fn made_up(events: &[(u64, EventKind, Option<usize>, u64)]) -> Recording {
    let runtime = runtime(1, Level::Sparse);
    runtime.block_on(async { trace::mark("a mark") });
    let mut recording = runtime.handle().recording();
    let mut of_mark = recording.events.iter();
    let mark = of_mark.find(|event| event.name.is_some()).unwrap();
    let made_up = events.iter().map(|&(us, kind, processor, number)| {
        let mut event = mark.clone();
        event.time = Duration::from_micros(us);
        (event.kind, event.processor, event.number) = (kind, processor, number);
        event
    });
    recording.events = made_up.collect();
    recording
}

#[test]
fn what_was_not_recorded_is_made_up_for() {
    use EventKind as Kind;
    let slices = |events: &[(u64, Kind, Option<usize>, u64)]| -> Vec<_> {
        let page = Page::read(&made_up(events));
        let us = |ns| ns / 1000;
        let slices = page.slices.iter();
        slices
            .map(|slice| (slice.name.clone(), us(slice.begin), slice.end.map(us)))
            .collect()
    };
    let slice = |name: &str, begin, end| (name.to_owned(), begin, end);
    let first = Some(0);
    // The end of a sleep.
    let lost = [
        (1, Kind::Park, first, 0),
        (2, Kind::Run, first, 0),
        (3, Kind::Idle, first, 0),
    ];
    let sleeps_then_polls = [slice("sleeps", 1, Some(2)), slice("poll", 2, Some(3))];
    assert_eq!(slices(&lost), sleeps_then_polls);
    // The begin of a blocking call.
    let lost = [
        (1, Kind::Run, first, 0),
        (2, Kind::Return, first, 1),
        (3, Kind::Idle, first, 0),
    ];
    assert_eq!(slices(&lost), [slice("poll", 1, Some(3))]);
    // The begin of a poll, and the end of the next one.
    let lost = [(1, Kind::Done, first, 0), (2, Kind::Run, first, 0)];
    assert_eq!(slices(&lost), [slice("poll", 2, None)]);
    // Two that are in each other, and another P's.
    let nested = [
        (1, Kind::Run, first, 0),
        (2, Kind::Block, first, 0),
        (3, Kind::Run, Some(1), 0),
        (4, Kind::Return, first, 1),
        (5, Kind::Done, Some(1), 0),
        (6, Kind::Done, first, 0),
    ];
    let expected = [
        slice("poll", 1, Some(6)),
        slice("blocking call", 2, Some(4)),
        slice("poll", 3, Some(5)),
    ];
    assert_eq!(slices(&nested), expected);
    let page = Page::read(&made_up(&nested));
    let calls = [
        ("/blocking calls".to_owned(), 2000, 1),
        ("/blocking calls".to_owned(), 4000, 0),
    ];
    assert_eq!(page.counters, calls);
    // The monitor has seen it for 1.5 ms.
    let long = [
        (9000, Kind::LongPoll, None, 15),
        (9900, Kind::LongPollEnd, None, 0),
    ];
    assert_eq!(slices(&long), [slice("poll", 7500, Some(9900))]);
    // The track of a span that is over is that of the next one.
    let spans = [
        (1, Kind::SpanBegin, first, 0),
        (2, Kind::SpanEnd, first, 0),
        (3, Kind::SpanBegin, first, 0),
        (4, Kind::SpanEnd, Some(1), 0),
        (5, Kind::SpanEnd, Some(1), 0),
    ];
    let page = Page::read(&made_up(&spans));
    let [one, two] = &page.slices[..] else {
        panic!("{:?}", page.slices);
    };
    assert_eq!(one.track, two.track);
    assert_eq!([one.end, two.end], [Some(2000), Some(4000)]);
    // Two of one name: each has its own end.
    let spans = [
        (1, Kind::SpanBegin, first, 7),
        (2, Kind::SpanBegin, first, 8),
        (3, Kind::SpanEnd, first, 7),
        (4, Kind::SpanEnd, first, 8),
    ];
    let page = Page::read(&made_up(&spans));
    let ends: Vec<_> = page.slices.iter().map(|span| span.end).collect();
    assert_eq!(ends, [Some(3000), Some(4000)]);
    // The end of a blocking call: it ends with the poll around it.
    let lost = [
        (1, Kind::Run, first, 0),
        (2, Kind::Block, first, 0),
        (3, Kind::Done, first, 0),
    ];
    let both = [
        slice("poll", 1, Some(3)),
        slice("blocking call", 2, Some(3)),
    ];
    assert_eq!(slices(&lost), both);
    let page = Page::read(&made_up(&lost));
    let counts: Vec<_> = page.counters.iter().map(|(.., count)| *count).collect();
    assert_eq!(counts, [1, 0]);
    // The begin of a long poll, the end of the next one, and one that the monitor saw late.
    let lost = [
        (1000, Kind::LongPollEnd, None, 0),
        (9000, Kind::LongPoll, None, 15),
        (12000, Kind::LongPoll, None, 10),
        (13000, Kind::LongPollEnd, None, 0),
        (14000, Kind::LongPoll, None, 20),
    ];
    let three = [
        slice("poll", 7500, Some(11000)),
        slice("poll", 11000, Some(13000)),
        slice("poll", 13000, None),
    ];
    assert_eq!(slices(&lost), three);
    // An arrow leads to the next poll alone.
    let wakes = [
        (1, Kind::Wake, first, 0),
        (2, Kind::Run, first, 0),
        (3, Kind::Requeue, first, 0),
        (4, Kind::Run, first, 0),
    ];
    let mut recording = made_up(&wakes);
    let id = runtime(1, Level::Off).spawn(async {}).id();
    recording
        .events
        .iter_mut()
        .for_each(|event| event.task = Some(id));
    let page = Page::read(&recording);
    let arrows: Vec<_> = page.arrows.values().collect();
    assert_eq!(arrows, [&(1000, Some(2000))]);
    // What came between may have been overwritten.
    recording.whole_since = Duration::from_nanos(1001);
    let page = Page::read(&recording);
    assert!(page.arrows.values().all(|(_, to)| to.is_none()));
}

#[test]
fn a_moment_has_what_its_number_says() {
    use EventKind as Kind;
    const BOTH: u64 = 7 << 32 | 25;
    /// A kind, its number, and what is beside it.
    type Case<'a> = (Kind, u64, &'a [(&'a str, u64)]);
    let cases: [Case<'_>; 9] = [
        (Kind::Steal, BOTH, &[("P", 7), ("tasks", 25)]),
        (Kind::Timers, BOTH, &[("late_us", 7), ("timers", 25)]),
        (Kind::Netpoll, 3, &[("sockets", 3)]),
        (Kind::Overflow, 3, &[("tasks", 3)]),
        (Kind::RunNextStolen, 3, &[("P", 3)]),
        (Kind::BranchStolen, 3, &[("P", 3)]),
        (Kind::WakeThread, 3, &[("P", 3)]),
        (Kind::Revoke, 3, &[("P", 3)]),
        (Kind::GiveWay, 3, &[]),
    ];
    for (kind, number, expected) in cases {
        let page = Page::read(&made_up(&[(1, kind, Some(0), number)]));
        let numbers = page.moments.iter().flat_map(|moment| &moment.numbers);
        let numbers: Vec<_> = numbers.map(|(name, it)| (name.as_str(), *it)).collect();
        assert_eq!(numbers, expected, "{kind}");
    }
}

/// A task that forks ends its poll at the fork.
#[test]
fn polls_that_fork_are_over() {
    async fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let child = ws::fork(fib_boxed(n - 1)).await;
        fib_boxed(n - 2).await + child.await.unwrap()
    }
    fn fib_boxed(n: u64) -> std::pin::Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(fib(n))
    }
    let runtime = runtime(2, Level::Full);
    assert_eq!(runtime.block_on(runtime.spawn(fib_boxed(8))).unwrap(), 21);
    let handle = runtime.handle().clone();
    // The output of a task is there before its poll has ended; the end waits for the threads.
    drop(runtime);
    let page = Page::read(&handle.recording());
    let polls = page.slices.iter().filter(|slice| slice.task.is_some());
    let open: Vec<_> = polls.filter(|poll| poll.end.is_none()).collect();
    assert!(open.is_empty(), "{open:?}");
}

// Fails if it goes on to the end of the trace.
#[test]
fn a_span_whose_end_was_overwritten_is_not_open() {
    let builder = Builder::new().workers(1).recorder(64 << 10);
    let runtime = builder.build().unwrap();
    let span = {
        let _entered = runtime.enter();
        trace::span("lost its end")
    };
    let ends = runtime.spawn(async move {
        drop(span);
        for _ in 0..10_000 {
            trace::mark("more than the ring of a worker has");
        }
    });
    runtime.block_on(ends).unwrap();
    let recording = runtime.handle().recording();
    let page = Page::read(&recording);
    let mut slices = page.slices.iter();
    let span = slices.find(|slice| slice.name == "lost its end").unwrap();
    let mut events = recording.events.iter();
    let began = events.find(|event| event.kind == EventKind::SpanBegin);
    let lasts = (recording.whole_since - began.unwrap().time).as_nanos() as u64;
    assert_eq!(span.end.map(|end| end - span.begin), Some(lasts));
}

#[test]
fn nothing_is_a_trace_too() {
    let runtime = runtime(1, Level::Off);
    let recording = runtime.handle().recording();
    let page = Page::read(&recording);
    assert!(page.slices.is_empty() && page.tracks.is_empty());
    assert!(recording.began <= SystemTime::now());
}

// Fails if two tracks have one number, and if a description is kept for ever or for too short.
#[test]
fn tracks_have_numbers_of_their_own() {
    let builder = Builder::new().workers(2).recorder(64 << 20);
    let runtime = builder.record(Level::Sparse).build().unwrap();
    const MANY: usize = 80_000;
    runtime.block_on(async {
        trace::mark("of no task");
        for _ in 0..MANY {
            let task = async {
                let _span = trace::span("a span");
                trace::mark("a mark");
            };
            ws::spawn(task).await.unwrap();
        }
        trace::mark("of no task");
    });
    let recording = runtime.handle().recording();
    assert_eq!(recording.overwritten, 0);
    let page = Page::read(&recording);
    let spans = page.slices.iter().filter(|slice| slice.name == "a span");
    let tracks: HashSet<_> = spans.map(|slice| slice.track).collect();
    assert_eq!(tracks.len(), MANY);
}

// Fails if a packet for `ws-inspect` is one that Perfetto has a meaning for, if events are missing,
// or if the last packet comes twice.
#[test]
fn a_snapshot_is_a_trace_with_packets_that_perfetto_passes_over() {
    let runtime = Builder::new().workers(1).build().unwrap();
    const MARKS: usize = 10_000;
    runtime.block_on(async { (0..MARKS).for_each(|_| trace::mark("a mark")) });
    let mut bytes = Vec::new();
    runtime.handle().write_snapshot(&mut bytes).unwrap();
    let mut trace = Trace::parse_from_bytes(&bytes).expect("it is a trace");
    let mut ours = Vec::new();
    trace.packet.retain(|packet| {
        let unknown: Vec<_> = packet.special_fields.unknown_fields().iter().collect();
        let [(field, UnknownValueRef::LengthDelimited(json))] = unknown[..] else {
            return true;
        };
        assert_eq!(packet.data, None);
        ours.push((field, String::from_utf8(json.to_vec()).unwrap()));
        false
    });
    knows_all(&trace);
    let (field, last) = ours.pop().expect("there are packets of ours");
    assert_eq!(field, 0x7773);
    assert!(last.starts_with(r#"{"format":"ws-snapshot 2""#));
    assert!(ours.len() > 1, "events are written in pieces");
    assert!(ours.iter().all(|(field, _)| *field == 0x7765));
    let marks = ours
        .iter()
        .map(|(_, list)| list.matches(r#""a mark""#).count());
    assert_eq!(marks.sum::<usize>(), MARKS);
}
