//! Tasks that need not be `Send`, and that run while their set is polled.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::Future,
    marker::PhantomData,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker},
};

use ws_executor::task::{Spawner, TaskQueue};

use super::JoinHandle;
use crate::{
    runtime::{Id, Runtime, with_host},
    trace::{self, Name},
};

/// Tasks that run in one poll of the set. As in tokio.
const MAX_TASKS_PER_TICK: usize = 61;

thread_local! {
    /// The sets that this thread is in: those that it polls, and those that it has entered.
    static CURRENT: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
    /// How many sets this thread polls, one in a task of another.
    static POLLING: Cell<usize> = const { Cell::new(0) };
}

#[derive(Clone)]
struct Entered {
    spawner: Spawner,
    /// Tells this entry from others of the same set.
    number: u64,
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/struct.LocalSet.html).
pub struct LocalSet {
    /// None in the middle of its drop.
    queue: Option<TaskQueue>,
    id: Id,
    _not_send: PhantomData<Rc<()>>,
}

impl Default for LocalSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet").finish_non_exhaustive()
    }
}

impl LocalSet {
    /// A set without tasks.
    pub fn new() -> Self {
        Self {
            queue: Some(TaskQueue::new()),
            id: Id::next(),
            _not_send: PhantomData,
        }
    }

    fn queue(&self) -> &TaskQueue {
        self.queue.as_ref().expect("it is there until the drop")
    }

    fn spawner(&self) -> &Spawner {
        self.queue().spawner()
    }

    /// Makes `spawn_local` mean this set, on this thread, until the guard is dropped.
    pub fn enter(&self) -> LocalEnterGuard {
        LocalEnterGuard(Guard::new(self.spawner()))
    }

    /// Spawns a task into the set.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_local_named(future, Name::NONE)
    }

    #[track_caller]
    pub(super) fn spawn_local_named<F>(&self, future: F, name: Name<'_>) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (future, opening) = trace::task(future, "local", name);
        opening.open(self.spawner().spawn_local(future))
    }

    /// Runs a future in the set on a runtime, to its end.
    ///
    /// # Panics
    ///
    /// If the future does, and on a thread that drives a runtime.
    #[track_caller]
    pub fn block_on<F>(&self, rt: &Runtime, future: F) -> F::Output
    where
        F: Future,
    {
        rt.block_on(self.run_until(future))
    }

    /// Runs a future in the set, with its tasks beside it.
    pub async fn run_until<F>(&self, future: F) -> F::Output
    where
        F: Future,
    {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            polling(self.spawner(), || {
                self.queue().register(cx.waker());
                if let Poll::Ready(output) = future.as_mut().poll(cx) {
                    return Poll::Ready(output);
                }
                self.tick(cx.waker());
                Poll::Pending
            })
        })
        .await
    }

    /// The set's id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Polls the tasks that are ready, but not for ever.
    fn tick(&self, waker: &Waker) {
        let mut ran = 0;
        while ran < MAX_TASKS_PER_TICK && self.queue().run_next() {
            ran += 1;
        }
        if self.queue().end_round() {
            waker.wake_by_ref();
        }
    }
}

impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        polling(self.spawner(), || {
            self.queue().register(cx.waker());
            self.tick(cx.waker());
            if self.spawner().alive() == 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            // What its destructors spawn is refused by it, and not by another set.
            let spawner = queue.spawner().clone();
            polling(&spawner, || drop(queue));
        }
    }
}

/// Runs code of a set's tasks.
fn polling<R>(spawner: &Spawner, f: impl FnOnce() -> R) -> R {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            POLLING.set(POLLING.get() - 1);
        }
    }
    let _entered = Guard::new(spawner);
    POLLING.set(POLLING.get() + 1);
    let _over = Over;
    f()
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/task/struct.LocalEnterGuard.html).
pub struct LocalEnterGuard(#[expect(dead_code, reason = "its drop is what counts")] Guard);

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}

struct Guard {
    number: u64,
    _not_send: PhantomData<Rc<()>>,
}

impl Guard {
    fn new(spawner: &Spawner) -> Self {
        thread_local! {
            static NEXT: Cell<u64> = const { Cell::new(0) };
        }
        let number = NEXT.replace(NEXT.get() + 1);
        let spawner = spawner.clone();
        // At the thread's end `spawn_local` finds no set.
        let _ = CURRENT.try_with(|current| {
            current.borrow_mut().push(Entered { spawner, number });
        });
        Self {
            number,
            _not_send: PhantomData,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // At the thread's end there is nothing to leave.
        let _ = CURRENT.try_with(|current| {
            let mut current = current.borrow_mut();
            let at = current
                .iter()
                .rposition(|entered| entered.number == self.number);
            at.map(|at| current.remove(at))
        });
    }
}

/// Whether this thread polls a set.
pub(super) fn is_polling() -> bool {
    POLLING.get() > 0
}

/// Where `spawn_local` goes on this thread, and the kind of such tasks: to a runtime of the local
/// kind, or else to a set.
#[track_caller]
fn current() -> Option<(Spawner, &'static str)> {
    let of_runtime = with_host(|host| {
        let host = host.flatten().filter(|host| host.local)?;
        let queue = host.queue.as_ref()?;
        assert!(
            queue.is_of_this_thread(),
            "Local tasks can only be spawned on a LocalRuntime from the thread the runtime was \
             created on"
        );
        Some((queue.clone(), "task"))
    });
    of_runtime.or_else(|| {
        let set = CURRENT.try_with(|current| {
            let current = current.borrow();
            let entered = current.last()?;
            Some((entered.spawner.clone(), "local"))
        });
        set.ok().flatten()
    })
}

/// Spawns a task into the set, or the runtime of the local kind, that this thread is in.
///
/// # Panics
///
/// Outside of both.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    spawn_local_named(future, Name::NONE)
}

#[track_caller]
pub(super) fn spawn_local_named<F>(future: F, name: Name<'_>) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let Some((spawner, kind)) = current() else {
        panic!(
            "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`"
        );
    };
    let (future, opening) = trace::task(future, kind, name);
    opening.open(spawner.spawn_local(future))
}
