//! What the scheduler did, and what a program adds to that.
//!
//! Each runtime has a flight recorder: [`Handle::recording`](crate::runtime::Handle::recording)
//! tells what is in it, and [`EventKind`] what that can be. A program puts [marks](mark) and
//! [spans](span) of its own beside that.

#[cfg(feature = "tracing-layer")]
mod layer;

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    cell::Id,
    context,
    recorder::names,
    sched::{Shared, worker::Worker},
};

#[cfg(feature = "tracing-layer")]
pub use self::layer::Layer;
pub use crate::recorder::{Event, EventKind, Level, RecordedTask, Recording, UnknownLevel};
pub use crate::sched::state::snapshot_files::Snapshots;

/// Records that the program is here, with the task that this thread polls.
///
/// Outside of a runtime, and at [`Level::Off`], it does nothing. In a process at most 65,535 names
/// are kept; marks with later ones have none, and so have spans with names after the first 4,095.
///
/// # Examples
///
/// ```
/// use ws::trace::{self, EventKind};
///
/// let runtime = ws::runtime::Runtime::new()?;
/// runtime.block_on(async { trace::mark("the cache is cold") });
/// let events = runtime.handle().recording().events;
/// let mark = events.iter().find(|event| event.kind == EventKind::Mark).expect("there is one");
/// assert_eq!(mark.name, Some("the cache is cold"));
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
pub fn mark(name: &'static str) {
    with_recorder(|shared, worker| {
        write(
            shared,
            worker,
            EventKind::Mark,
            running(worker),
            names::number(name) << 32,
        );
    });
}

/// Records that something begins, and that it ends when the value is dropped.
///
/// It belongs to the task that this thread polls, and may be held while that task waits. Where it
/// is not dropped on a thread of the same runtime, its end is not recorded. Beside that it is as a
/// [`mark`].
///
/// # Examples
///
/// ```
/// use ws::trace::{self, EventKind};
///
/// # let runtime = ws::runtime::Runtime::new()?;
/// # runtime.block_on(async {
/// let request = ws::spawn(async {
///     let _span = trace::span("look it up");
///     ws::task::yield_now().await;
/// });
/// # request.await.unwrap();
/// # });
/// # let events = runtime.handle().recording().events;
/// # let of_spans = events.iter().filter(|event| event.name == Some("look it up"));
/// # let kinds: Vec<_> = of_spans.map(|event| event.kind).collect();
/// # assert_eq!(kinds, [EventKind::SpanBegin, EventKind::SpanEnd]);
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
pub fn span(name: &'static str) -> Span {
    let mut begun = None;
    with_recorder(|shared, worker| {
        let task = running(worker);
        let name = names::number(name) << 32 | serial();
        write(shared, worker, EventKind::SpanBegin, task, name);
        begun = Some(Begun {
            recorder: shared.recorder().serial(),
            task,
            name,
        });
    });
    Span { begun }
}

/// Something that goes on; see [`span`].
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Span {
    /// If its begin was recorded.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    /// That of the runtime.
    recorder: u64,
    task: u64,
    /// The number of the name, times 2^32, and that of the span.
    name: u64,
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(Begun {
            recorder,
            task,
            name,
        }) = self.begun
        else {
            return;
        };
        with_recorder(|shared, worker| {
            if shared.recorder().serial() == recorder {
                write(shared, worker, EventKind::SpanEnd, task, name);
            }
        });
    }
}

/// Calls the function with the runtime of this thread, if that records what is rare, and with the
/// worker that this thread is.
fn with_recorder(f: impl FnOnce(&Shared, Option<&Worker>)) {
    context::with_entered(|entered| match entered {
        Some((shared, worker)) if shared.recorder().takes(Level::Sparse) => f(shared, worker),
        _ => {}
    });
}

/// A number for a span. Spans that are open at the same time mostly have different ones. A record
/// keeps the low 12 bits.
fn serial() -> u64 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        // Threads begin far from each other.
        static NEXT: Cell<u32> = Cell::new(THREADS.fetch_add(947, Relaxed));
    }
    NEXT.with(|next| next.replace(next.get().wrapping_add(1)))
        .into()
}

/// The number of the task that this thread polls; 0: none.
fn running(worker: Option<&Worker>) -> u64 {
    match Id::current() {
        Some(id) => id.as_u64(),
        None => worker.map_or(0, Worker::running_number),
    }
}

fn write(shared: &Shared, worker: Option<&Worker>, kind: EventKind, task: u64, number: u64) {
    match worker {
        Some(worker) => worker.write(kind, task, number),
        None => shared.write_elsewhere(kind, task, number),
    }
}
