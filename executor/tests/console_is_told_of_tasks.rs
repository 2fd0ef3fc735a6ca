//! Feature `console`: what console-subscriber reads of each task.
//!
//! - A task of each kind has one span, with its kind, id, name and place.
//! - The span is entered and left at each poll, also if that panics. It is closed when the future
//!   is gone, also while a handle and a waker are left.
//! - The wakers of a task tell of each clone, wake and drop. They still wake the same task by
//!   `will_wake`.
//! - The future of a `block_on` is dropped in its span, as that of a task.
//! - A task that is to have no span takes it from no other one.
//! - A subscriber that panics at all of this changes nothing for the task (S6).
//!
//! Seen to fail with each of these: the carrier of a `spawn_pinned` has a span; `close` in
//! `cell/raw.rs` left out; the drop of a waker not told. And in `console/on.rs`: `report` left out;
//! the future of a `block_on` dropped outside of `enter`, or after `close`; no drop of `HidesNext`.
#![cfg(feature = "console")]

mod common;

use std::{
    collections::HashMap,
    fmt,
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, Location, catch_unwind},
    pin::Pin,
    sync::{
        Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use ws_executor::{
    spawn,
    task::{__HidesNext, Builder, JoinSet, id, yield_now},
};

#[derive(Clone, Debug, Default)]
struct Seen {
    target: String,
    fields: HashMap<&'static str, String>,
    entered: usize,
    left: usize,
    /// Handles of the span. It is closed without one.
    handles: usize,
    /// How often its wakers did what.
    wakers: HashMap<String, usize>,
}

impl Seen {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

/// The spans, by their ids.
static SEEN: Mutex<Option<HashMap<u64, Seen>>> = Mutex::new(None);

fn seen() -> MutexGuard<'static, Option<HashMap<u64, Seen>>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes something of a span. Then it panics if the task's name has the name of the method.
fn note(span: &span::Id, method: &str, f: impl FnOnce(&mut Seen)) {
    let mut seen = seen();
    let span = seen.get_or_insert_default().get_mut(&span.into_u64());
    let span = span.expect("a span of a task");
    f(span);
    let panics = span.field("task.name").contains(method);
    drop(seen);
    assert!(!panics, "expected: a subscriber in {method}");
}

/// The spans with this value of a field.
fn with(field: &str, value: &str) -> Vec<Seen> {
    let seen = seen();
    let spans = seen.iter().flat_map(HashMap::values);
    let spans = spans.filter(|span| span.field(field) == value);
    spans.cloned().collect()
}

/// The only span of a task of this name.
#[track_caller]
fn named_span(name: &str) -> Seen {
    let spans = with("task.name", name);
    assert_eq!(spans.len(), 1, "{spans:#?}");
    spans[0].clone()
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name() == "runtime.spawn" || metadata.target() == "runtime::waker"
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = span::Id::from_u64(NEXT.fetch_add(1, Relaxed));
        let mut span = Seen {
            target: attributes.metadata().target().to_owned(),
            handles: 1,
            ..Seen::default()
        };
        attributes.record(&mut span);
        seen().get_or_insert_default().insert(id.into_u64(), span);
        note(&id, "new_span", |_| ());
        id
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Seen::default();
        event.record(&mut fields);
        let id = fields.field("task.id").parse().expect("the id of a span");
        let op = fields.field("op").to_owned();
        note(&span::Id::from_u64(id), "event", |span| {
            *span.wakers.entry(op).or_default() += 1;
        });
    }

    fn enter(&self, span: &span::Id) {
        note(span, "enter", |span| span.entered += 1);
    }

    fn exit(&self, span: &span::Id) {
        note(span, "exit", |span| span.left += 1);
    }

    fn clone_span(&self, span: &span::Id) -> span::Id {
        note(span, "clone_span", |span| span.handles += 1);
        span.clone()
    }

    fn try_close(&self, span: span::Id) -> bool {
        note(&span, "try_close", |span| span.handles -= 1);
        false
    }
}

/// Has the subscriber set, and runs a future.
fn run(future: impl Future<Output = ()> + Send + 'static) {
    listen();
    common::limited(|| common::runtime(2).block_on(future));
}

fn listen() {
    static ONCE: Once = Once::new();
    common::listen_to_panics();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

/// Is pending until it is polled the second time, and is woken by a clone of its waker.
async fn twice() {
    let mut waker = None;
    poll_fn(|cx| match waker.take() {
        None => {
            waker.insert(cx.waker().clone()).wake_by_ref();
            Poll::Pending
        }
        Some::<Waker>(waker) => {
            assert!(waker.will_wake(cx.waker()));
            waker.wake();
            Poll::Ready(())
        }
    })
    .await;
}

#[test]
fn a_task_of_each_kind_has_one_span() {
    let here = Location::caller();
    let tasks = async {
        let named = |name| Builder::new().name(name);
        named("plain").spawn(twice()).await.unwrap();
        named("local").spawn_local(twice()).await.unwrap();
        named("pinned").spawn_pinned(twice).await.unwrap();
        let thread = named("blocking").spawn_blocking(|| id().as_u64());
        let id_of_thread = thread.await.unwrap().to_string();
        let mut set = JoinSet::new();
        set.spawn(twice());
        set.join_next().await.unwrap().unwrap();
        for (name, kind) in [
            ("plain", "task"),
            ("local", "local"),
            ("pinned", "local"),
            ("blocking", "blocking"),
        ] {
            let span = named_span(name);
            assert_eq!((&*span.target, span.field("kind")), ("ws::task", kind));
        }
        assert_eq!(named_span("blocking").field("task.id"), id_of_thread);
    };
    listen();
    // Other tests have roots at the same time, at the line of `run`.
    common::limited(|| {
        let line = (line!() + 1).to_string();
        common::runtime(2).block_on(tasks);
        let roots = with("loc.line", &line);
        let is_root = |span: &&Seen| span.field("kind") == "block_on";
        let root = roots.iter().find(is_root).expect("this `block_on`");
        assert!(root.entered > 0 && root.entered == root.left, "{root:?}");
    });
    let plain = named_span("plain");
    assert_eq!(plain.field("loc.file"), here.file());
    for field in ["loc.line", "loc.col", "size.bytes"] {
        assert!(plain.field(field).parse::<u32>().unwrap() > 0, "{field}");
    }
}

#[test]
fn a_span_is_closed_with_its_future() {
    run(async {
        let mut ended = Builder::new().name("ended").spawn(async {
            twice().await;
            poll_fn(|cx| Poll::Ready(cx.waker().clone())).await
        });
        let waker = (&mut ended).await.unwrap();
        let before = named_span("ended");
        // Two polls and a drop.
        assert_eq!((before.entered, before.left, before.handles), (2, 2, 0));
        drop(waker);
        let wakers = named_span("ended").wakers;
        let expected = [
            ("waker.clone", 2),
            ("waker.wake_by_ref", 1),
            ("waker.wake", 1),
            ("waker.drop", 1),
        ];
        let expected = expected.map(|(op, count)| (op.to_owned(), count));
        assert_eq!(wakers, HashMap::from(expected));
        drop(ended);

        let aborted = Builder::new().name("aborted").spawn(pending::<()>());
        aborted.abort();
        assert!(aborted.await.unwrap_err().is_cancelled());
        assert_eq!(named_span("aborted").handles, 0);

        let panics = Builder::new().name("panics");
        let panics = panics.spawn(async { panic!("expected: a task") });
        panics.await.unwrap_err();
        let span = named_span("panics");
        assert_eq!((span.entered, span.left, span.handles), (1, 1, 0));
    });
}

/// Notes, when it is dropped, how often the only `block_on` of this size is entered, and whether it
/// is closed.
struct Held<'a> {
    size: usize,
    seen: &'a Mutex<Option<(usize, usize)>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let roots = with("size.bytes", &self.size.to_string());
        assert_eq!(roots.len(), 1, "{roots:#?}");
        let inside = roots[0].entered - roots[0].left;
        *self.seen.lock().unwrap() = Some((inside, roots[0].handles));
    }
}

#[test]
fn the_future_of_a_block_on_is_dropped_in_its_span() {
    // Sets the subscriber.
    run(async {});
    /// A future that has a size of its own, and keeps what it is given until it is dropped.
    struct Keeps<'a, const SIZE: usize> {
        panics: bool,
        _held: Held<'a>,
        _room: [u8; SIZE],
    }
    impl<const SIZE: usize> Future for Keeps<'_, SIZE> {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            assert!(!self.panics, "expected: a root");
            Poll::Ready(())
        }
    }
    fn check<const SIZE: usize>(panics: bool) {
        let seen = Mutex::new(None);
        let size = size_of::<Keeps<'_, SIZE>>();
        let held = Held { size, seen: &seen };
        let root = Keeps {
            panics,
            _held: held,
            _room: [0; SIZE],
        };
        let runtime = common::runtime(1);
        let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(root)));
        assert_eq!(result.is_err(), panics);
        assert_eq!(*seen.lock().unwrap(), Some((1, 1)));
        let [root] = &with("size.bytes", &size.to_string())[..] else {
            panic!("it has one span");
        };
        assert_eq!((root.entered, root.handles), (root.left, 0));
    }
    check::<4321>(false);
    check::<5432>(true);
}

// Fails if a call that spawns nothing, such as one that panics, hides somebody else's task.
#[test]
fn what_hides_a_task_ends_with_the_call() {
    run(async {
        let named = |name| Builder::new().name(name);
        let hidden = {
            let _hides = __HidesNext::new();
            named("hidden").spawn(twice())
        };
        hidden.await.unwrap();
        assert_eq!(with("task.name", "hidden").len(), 0);
        drop(__HidesNext::new());
        named("the next").spawn(twice()).await.unwrap();
        named_span("the next");
    });
}

#[test]
fn a_subscriber_that_panics_changes_nothing() {
    run(async {
        for name in ["enter exit event try_close", "clone_span", "new_span"] {
            let named = || Builder::new().name(name);
            named().spawn(twice()).await.unwrap();
            named().spawn_local(twice()).await.unwrap();
            named().spawn_pinned(twice).await.unwrap();
            assert_eq!(named().spawn_blocking(|| 7).await.unwrap(), 7);
            let aborted = named().spawn(pending::<()>());
            yield_now().await;
            aborted.abort();
            assert!(aborted.await.unwrap_err().is_cancelled());
            let panics = named().spawn(async { panic!("expected: a task") });
            assert!(panics.await.unwrap_err().is_panic());
        }
        spawn(twice()).await.unwrap();
    });
    for span in with("task.name", "enter exit event try_close") {
        assert!(span.entered > 0 && span.entered == span.left, "{span:?}");
        assert_eq!(span.handles, 0, "{span:?}");
    }
}
