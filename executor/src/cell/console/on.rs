//! Spans and events. See the head of `console.rs`.

use std::{cell::Cell, panic::Location};
use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tracing::{Dispatch, Span, trace_span};

use crate::cell::{Id, meta::Meta, report};

thread_local! {
    static HIDES_NEXT: Cell<bool> = const { Cell::new(false) };
}

/// While it is there, the next task or `block_on` of this thread has no span. `compat/tokio` has it
/// around the spawn of its tasks, which may have spans of their own.
///
/// It is a value, so that it ends with the call, also if that panics or spawns nothing. If it did
/// not, a task of somebody else's would have no span.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct HidesNext {
    /// It stays on its thread.
    of_thread: PhantomData<*const ()>,
}

impl HidesNext {
    /// From now on.
    #[expect(
        clippy::new_without_default,
        reason = "it changes what this thread does"
    )]
    pub fn new() -> Self {
        HIDES_NEXT.set(true);
        Self {
            of_thread: PhantomData,
        }
    }
}

impl Drop for HidesNext {
    fn drop(&mut self) {
        HIDES_NEXT.set(false);
    }
}

/// The span of a task: its id, and the subscriber that has it. None if nobody asks for it.
///
/// A `tracing::Span` would close with the last reference to the cell, which a `JoinHandle` may keep
/// long after the task's end.
pub(in crate::cell) struct TaskSpan(Option<(tracing::Id, Dispatch)>);

impl TaskSpan {
    /// That of a future of this size, in a new cell.
    pub(in crate::cell) fn new(meta: &Meta, blocks: bool, id: Id, size: usize) -> Self {
        if meta.is_carrier() {
            return Self(None);
        }
        let kind = match (blocks, meta.is_pinned()) {
            (true, _) => "blocking",
            (false, true) => "local",
            (false, false) => "task",
        };
        let name = meta.name().unwrap_or_default();
        Self::open(kind, name, id, size, meta.location())
    }

    fn open(kind: &str, name: &str, id: Id, size: usize, location: &Location<'_>) -> Self {
        if HIDES_NEXT.take() {
            return Self(None);
        }
        // A call each: what is dropped while a panic unwinds must not panic.
        let mut span = Span::none();
        report(|| {
            span = trace_span!(
                target: "ws::task",
                parent: None,
                "runtime.spawn",
                %kind,
                task.name = %name,
                task.id = id.as_u64(),
                size.bytes = size,
                loc.file = location.file(),
                loc.line = location.line(),
                loc.col = location.column(),
            );
        });
        let mut open = None;
        report(|| {
            span.with_subscriber(|(id, subscriber)| {
                open = Some((subscriber.clone_span(id), subscriber.clone()));
            });
        });
        report(|| drop(span));
        Self(open)
    }

    /// Calls `f` in the span.
    pub(in crate::cell) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        /// A poll that panics leaves the span as well.
        struct Leave<'a>(&'a TaskSpan);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.tell(|id, subscriber| subscriber.exit(id));
            }
        }
        self.tell(|id, subscriber| subscriber.enter(id));
        let _leave = Leave(self);
        f()
    }

    /// The future is gone. Called once.
    pub(in crate::cell) fn close(&self) {
        self.tell(|id, subscriber| {
            subscriber.try_close(id.clone());
        });
    }

    /// A waker of the task is about to do this.
    pub(in crate::cell) fn waker(&self, op: &'static str) {
        self.tell(|id, _| tracing::trace!(target: "runtime::waker", op, task.id = id.into_u64()));
    }

    /// Calls the subscriber, if there is a span.
    fn tell(&self, f: impl FnOnce(&tracing::Id, &Dispatch)) {
        if let Some((id, subscriber)) = &self.0 {
            report(|| f(id, subscriber));
        }
    }
}

impl Drop for TaskSpan {
    fn drop(&mut self) {
        // It may be the last one to hold the subscriber.
        report(|| self.0 = None);
    }
}

/// The future of a `block_on`, in a span.
#[track_caller]
pub(crate) fn in_span<F: Future>(future: F, id: Id) -> impl Future<Output = F::Output> {
    let span = TaskSpan::open("block_on", "", id, size_of::<F>(), Location::caller());
    Root {
        future: Some(future),
        span,
    }
}

pin_project! {
    /// It is polled, and dropped, in the span. As of a task, the drop is a part of the last poll,
    /// if that has an output.
    struct Root<F> {
        // None once it was dropped.
        #[pin]
        future: Option<F>,
        span: TaskSpan,
    }

    impl<F> PinnedDrop for Root<F> {
        fn drop(this: Pin<&mut Self>) {
            /// A drop that panics closes the span as well.
            struct Close<'a>(&'a TaskSpan);
            impl Drop for Close<'_> {
                fn drop(&mut self) {
                    self.0.close();
                }
            }
            let mut this = this.project();
            let close = Close(this.span);
            if this.future.is_some() {
                close.0.enter(|| this.future.set(None));
            }
        }
    }
}

impl<F: Future> Future for Root<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        this.span.enter(|| {
            let future = this.future.as_mut().as_pin_mut();
            let polled = future.expect("it has no output yet").poll(cx);
            if polled.is_ready() {
                this.future.set(None);
            }
            polled
        })
    }
}

macro_rules! root {
    ($future:expr, $id:expr) => {
        $crate::cell::console::on::in_span($future, $id)
    };
}
pub(crate) use root;
