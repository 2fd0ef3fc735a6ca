//! Spans and events. See the head of `trace.rs`.
#![expect(
    unsafe_code,
    reason = "only a table of functions sees that a waker is cloned and dropped"
)]

use std::{
    any::type_name,
    future::Future,
    mem::ManuallyDrop,
    panic::Location,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, RawWaker, RawWakerVTable, Waker},
};

use pin_project_lite::pin_project;
use tracing::{
    Dispatch, Id, Span,
    dispatcher::{DefaultGuard, set_default},
    instrument::Instrument,
    level_filters::LevelFilter,
    span, trace_span,
};
use ws_executor::task::{__HidesNext, JoinHandle as WsJoinHandle};

use crate::{task::JoinHandle, time::Instant};

/// The name that a program gave to a task.
pub(crate) struct Name<'a>(pub(crate) Option<&'a str>);

impl Name<'_> {
    pub(crate) const NONE: Self = Self(None);
}

/// The span of a task, which is made after the task.
type Slot = Arc<OnceLock<Span>>;

/// The right to make a task's span.
#[must_use = "it opens the span"]
pub(crate) struct Opening<'a> {
    slot: Slot,
    what: What,
    name: &'a str,
    size: Size,
    location: &'static Location<'static>,
    /// With the feature `console` of `ws`, the task would have two spans.
    _hides: __HidesNext,
}

/// The bytes of a future or of a closure.
#[derive(Clone, Copy)]
struct Size {
    now: usize,
    /// Before it was put into a box.
    original: usize,
}

impl Size {
    fn of<F>(original: usize) -> Self {
        let now = size_of::<F>();
        Self { now, original }
    }

    /// As in tokio, it is told only if the two differ.
    fn original(self) -> Option<usize> {
        (self.original != self.now).then_some(self.original)
    }
}

enum What {
    /// Of this kind.
    Task(&'static str),
    /// Of a function with this type.
    Blocking(&'static str),
}

impl Opening<'_> {
    /// Makes the span.
    pub(crate) fn open<T>(self, handle: WsJoinHandle<T>) -> JoinHandle<T> {
        // It is empty: nobody else sets it.
        let _ = self.slot.set(self.span(handle.id().as_u64()));
        JoinHandle::of(handle)
    }

    fn span(&self, id: u64) -> Span {
        let Self { name, size, .. } = *self;
        match self.what {
            What::Task(kind) => task_span(kind, name, id, size, self.location),
            What::Blocking(function) => trace_span!(
                target: "tokio::task::blocking",
                "runtime.spawn",
                kind = %"blocking",
                task.name = %name,
                task.id = id,
                "fn" = %function,
                original_size.bytes = size.original(),
                size.bytes = size.now,
                loc.file = self.location.file(),
                loc.line = self.location.line(),
                loc.col = self.location.column(),
            ),
        }
    }
}

impl Drop for Opening<'_> {
    /// If the spawn has panicked, a task that waits for the span gets one that is disabled.
    fn drop(&mut self) {
        self.slot.get_or_init(Span::none);
    }
}

fn task_span(kind: &str, name: &str, id: u64, size: Size, location: &Location<'_>) -> Span {
    trace_span!(
        target: "tokio::task",
        parent: None,
        "runtime.spawn",
        %kind,
        task.name = %name,
        task.id = id,
        original_size.bytes = size.original(),
        size.bytes = size.now,
        loc.file = location.file(),
        loc.line = location.line(),
        loc.col = location.column(),
    )
}

/// Wraps the future of a task, which had so many bytes before it was put into a box.
#[track_caller]
pub(crate) fn task<'a, F>(
    future: F,
    kind: &'static str,
    name: Name<'a>,
    original_size: usize,
) -> (Traced<F>, Opening<'a>) {
    let opening = opening::<F>(What::Task(kind), name, original_size);
    let traced = Traced {
        future: Some(future),
        slot: opening.slot.clone(),
        waker: None,
    };
    (traced, opening)
}

/// Wraps a closure that blocks.
#[track_caller]
pub(crate) fn blocking<'a, F, R>(
    f: F,
    name: Name<'a>,
    original_size: usize,
) -> (impl FnOnce() -> R + use<F, R>, Opening<'a>)
where
    F: FnOnce() -> R,
{
    let opening = opening::<F>(What::Blocking(type_name::<F>()), name, original_size);
    let slot = opening.slot.clone();
    (move || slot.wait().in_scope(f), opening)
}

#[track_caller]
fn opening<F>(what: What, name: Name<'_>, original_size: usize) -> Opening<'_> {
    Opening {
        slot: Slot::default(),
        what,
        name: name.0.unwrap_or_default(),
        size: Size::of::<F>(original_size),
        location: Location::caller(),
        _hides: __HidesNext::new(),
    }
}

/// Wraps the future of a `block_on`. As in tokio, its wakers are not counted.
#[track_caller]
pub(crate) fn block_on<F: Future>(
    future: F,
    original_size: usize,
) -> impl Future<Output = F::Output> {
    let id = ws_executor::task::__fresh_id().as_u64();
    let size = Size::of::<F>(original_size);
    let traced = future.instrument(task_span("block_on", "", id, size, Location::caller()));
    let hides = __HidesNext::new(); // as in `Opening`
    async move {
        // It may be polled by a queue of `compat/tokio`, which has taken no notice of it. If the
        // call panics before, it goes with this future.
        drop(hides);
        traced.await
    }
}

/// While it is there, this thread's spans go nowhere: those that tokio makes of
/// [`inside`](crate::context::inside) are no tasks of the program's.
pub(crate) struct Unseen(Option<DefaultGuard>);

impl Unseen {
    pub(crate) fn begin() -> Self {
        // If nobody asks for such spans, there is nothing to hide.
        let wanted = LevelFilter::current() >= LevelFilter::TRACE;
        Self(wanted.then(|| set_default(&Dispatch::none())))
    }

    pub(crate) fn end(&mut self) {
        self.0 = None;
    }
}

pin_project! {
    /// The future of a task. It is polled, and dropped, in the task's span.
    pub(crate) struct Traced<F> {
        // None once it was dropped.
        #[pin]
        future: Option<F>,
        slot: Slot,
        // What the task's wakers share, since the first poll.
        waker: Option<Arc<Counted>>,
    }

    impl<F> PinnedDrop for Traced<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // If the task was refused, its spawn has not returned yet, and there is no span.
            let _entered = this.slot.get().map(Span::enter);
            this.future.set(None);
        }
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let future = this
            .future
            .as_pin_mut()
            .expect("it is there until the drop");
        let span = this.slot.wait();
        let _entered = span.enter();
        let Some(task) = span.id() else {
            return future.poll(cx);
        };
        let counted = match this.waker {
            Some(counted) if counted.waker.will_wake(cx.waker()) => counted,
            stale => stale.insert(Arc::new(Counted {
                waker: cx.waker().clone(),
                task,
            })),
        };
        // SAFETY: the pointer is that of an `Arc`, as the table's functions ask for. It is there
        // during the poll, and the waker, which has no reference of its own, is not dropped.
        let waker = unsafe { Waker::new(Arc::as_ptr(counted).cast(), &WAKER) };
        let waker = ManuallyDrop::new(waker);
        future.poll(&mut Context::from_waker(&waker))
    }
}

/// A waker of a task's, whose clones, drops and wakes are events.
///
/// The data of a [`Waker`] of the table [`WAKER`] is a pointer that `Arc::into_raw` has returned,
/// with the reference.
struct Counted {
    waker: Waker,
    /// The id of the task's span.
    task: Id,
}

impl Counted {
    fn report(&self, op: &'static str) {
        tracing::trace!(target: "tokio::task::waker", op, task.id = self.task.into_u64());
    }
}

static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

unsafe fn clone(data: *const ()) -> RawWaker {
    let counted = data.cast::<Counted>();
    // SAFETY: the waker is alive, and its reference with it (see `Counted`).
    unsafe { &*counted }.report("waker.clone");
    // SAFETY: as above. The new reference is that of the clone.
    unsafe { Arc::increment_strong_count(counted) };
    RawWaker::new(data, &WAKER)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker's reference (see `Counted`) is taken from it, since it ends here.
    let counted = unsafe { Arc::from_raw(data.cast::<Counted>()) };
    counted.report("waker.wake");
    counted.waker.wake_by_ref();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as in `clone`.
    let counted = unsafe { &*data.cast::<Counted>() };
    counted.report("waker.wake_by_ref");
    counted.waker.wake_by_ref();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: as in `wake`.
    let counted = unsafe { Arc::from_raw(data.cast::<Counted>()) };
    counted.report("waker.drop");
}

/// An operation on a resource.
#[derive(Debug)]
pub(crate) struct Op {
    op: Span,
    poll: Span,
    resource: Span,
}

impl Op {
    /// That of a `Sleep`, with its resource.
    #[track_caller]
    pub(crate) fn sleep() -> Self {
        let location = Location::caller();
        let resource = trace_span!(
            target: "tokio::time::sleep",
            parent: None,
            "runtime.resource",
            concrete_type = "Sleep",
            kind = "timer",
            loc.file = location.file(),
            loc.line = location.line(),
            loc.col = location.column(),
        );
        Self::new(resource, "Sleep::new_timeout")
    }

    fn new(resource: Span, source: &'static str) -> Self {
        let op = trace_span!(
            target: "tokio::time::sleep",
            parent: &resource,
            "runtime.resource.async_op",
            source,
        );
        let poll = trace_span!(
            target: "tokio::time::sleep",
            parent: &op,
            "runtime.resource.async_op.poll",
        );
        Self { op, poll, resource }
    }

    /// Another operation on the same `Sleep`.
    pub(crate) fn reset(&mut self, deadline: Instant) {
        let resource = self.resource.clone();
        // console-subscriber takes what is entered for the parent.
        *self = resource.in_scope(|| Self::new(resource.clone(), "Sleep::reset"));
        self.enter().until(deadline);
    }

    pub(crate) fn enter(&self) -> Entered<'_> {
        let resource = self.resource.enter();
        let op = self.op.enter();
        let poll = self.poll.enter();
        Entered {
            _poll: poll,
            _op: op,
            _resource: resource,
        }
    }
}

/// The spans of an operation are entered. They are left in the order of the fields.
pub(crate) struct Entered<'a> {
    _poll: span::Entered<'a>,
    _op: span::Entered<'a>,
    _resource: span::Entered<'a>,
}

impl Entered<'_> {
    /// Reports what a poll has said.
    pub(crate) fn polled<T>(&self, name: &str, poll: Poll<T>) -> Poll<T> {
        tracing::trace!(
            target: "runtime::resource::poll_op",
            op_name = name,
            is_ready = poll.is_ready(),
        );
        poll
    }

    /// Reports how long it takes, in milliseconds.
    pub(crate) fn until(&self, deadline: Instant) {
        let duration = deadline.saturating_duration_since(Instant::now());
        tracing::trace!(
            target: "runtime::resource::state_update",
            duration = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            duration.unit = "ms",
            duration.op = "override",
        );
    }
}

/// The resource of an `Interval`.
#[derive(Debug)]
pub(crate) struct Interval(Span);

impl Interval {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let location = Location::caller();
        Self(trace_span!(
            target: "tokio::time::interval",
            parent: None,
            "runtime.resource",
            concrete_type = "Interval",
            kind = "timer",
            loc.file = location.file(),
            loc.line = location.line(),
            loc.col = location.column(),
        ))
    }

    /// The operation of a tick.
    pub(crate) fn tick(&self) -> Op {
        self.0
            .in_scope(|| Op::new(self.0.clone(), "Interval::tick"))
    }
}
