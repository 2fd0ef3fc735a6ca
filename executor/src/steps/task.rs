//! I1, I2, S1, S2, S6, H3: one task beside a few flags: whether it waits, is queued, runs or is
//! done; what refers to it; and whose its output is.
//!
//! The task is the shipped one, in a cell and in a live table. Its scheduler is a queue of this
//! thread. What its polls do is in the program as well: they wake it, keep its waker, abort it,
//! drop its handle, and end in one of several ways.
//!
//! Three things are compared after each step: the state word with the flags; the number of
//! references with what this program holds; and what is alive of the future, the output and the
//! wakers of the two outsiders that may join it.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    pin::Pin,
    ptr::{self, NonNull},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
};

use crate::cell::{
    Birth, Ended, Functions, Id, JoinCell, Lane, Outcome, Parts, Place, SchedulerHandle, Task,
    TaskRef,
    live::{LiveOwner, live_table},
};

/// A poll may do something, and then ends. Of wakers, references and joiners there may be any
/// number, and a number means the one that is left of it when they are counted around.
#[derive(Debug, Clone)]
pub enum Step {
    /// Somebody does something.
    Act(Act),
    /// If the task is queued, it is run: its poll does all this, and ends so.
    Run(Vec<Act>, End),
}

/// What can happen between polls and during one.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// The poll keeps its waker. Between polls: a waker is cloned.
    Keep(usize),
    /// A waker wakes, and stays.
    WakeByRef(usize),
    /// A waker wakes, and is gone.
    Wake(usize),
    /// A waker is dropped.
    DropWaker(usize),
    /// The handle makes a reference.
    Refer,
    /// A reference is dropped.
    DropReference(usize),
    /// The task is aborted through a reference.
    Abort(usize),
    /// The task is aborted through its handle.
    AbortByHandle,
    /// The handle is polled by this joiner: two outsiders, and the task itself, by a waker of its
    /// own.
    Join(usize),
    /// The handle is dropped.
    Detach,
    /// Somebody looks at all tasks.
    Dump,
}

/// How a poll ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum End {
    /// It is not ready.
    #[default]
    Pending,
    /// It is not ready, and goes on by itself, as after a fork.
    GoesOn,
    /// It is ready.
    Ready,
    /// It panics.
    Panic,
}

/// What the drop of the future does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drops {
    /// Nothing of interest.
    Quietly,
    /// It panics.
    Panicking,
}

/// Runs the steps, and then ends the task as a shutdown does.
///
/// # Panics
///
/// Panics if the task does what its model does not.
pub fn run(drops: Drops, steps: &[Step]) {
    let world = World::new(drops);
    for step in steps {
        match step {
            Step::Act(act) => world.act(*act, None),
            Step::Run(acts, end) => world.run(acts, *end),
        }
        world.assert_equal();
    }
    world.shut_down();
    WORLD.take();
}

/// The two outsiders that may join. A third one is the task itself.
const OUTSIDERS: usize = 2;

static FUNCTIONS: Functions = Functions {
    schedule: |_, task| QUEUE.with_borrow_mut(|queue| queue.push_back(task)),
    remove: |scheduler, index| scheduler.live().remove(index),
    report_panic: |_, _| {},
};

thread_local! {
    static QUEUE: RefCell<VecDeque<Task>> = const { RefCell::new(VecDeque::new()) };
    /// What the future finds when it is polled.
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// What is alive of the task's own.
#[derive(Clone)]
struct Alive(#[expect(dead_code, reason = "what counts is its count")] Arc<()>);

/// An outsider's waker counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Queued,
    Running,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Ready,
    Cancelled,
    Panicked,
}

struct Model {
    phase: Phase,
    /// A wake came during this poll.
    woken: bool,
    cancelled: bool,
    /// The handle is there.
    handle: bool,
    /// Which joiner is to be woken.
    joiner: Option<usize>,
    /// How it ended, once it is done.
    how: How,
    /// The output is in the cell.
    output: bool,
    /// How often each outsider was woken.
    outsiders: [usize; OUTSIDERS],
}

struct World {
    scheduler: SchedulerHandle,
    owner: LiveOwner<TaskRef>,
    alive: Arc<()>,
    outsiders: [Arc<Woken>; OUTSIDERS],
    handle: RefCell<Option<JoinCell<Alive>>>,
    wakers: RefCell<Vec<Waker>>,
    references: RefCell<Vec<TaskRef>>,
    /// What the next poll does.
    script: RefCell<(Vec<Act>, End)>,
    /// What an act of a poll panicked with. The task would keep it for its handle.
    failed: Cell<Option<Box<dyn Any + Send>>>,
    drops: Drops,
    model: RefCell<Model>,
}

/// The task's own future.
struct Played {
    alive: Alive,
    drops: Drops,
}

impl Future for Played {
    type Output = Alive;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Alive> {
        let world = WORLD.with_borrow(Clone::clone).expect("a program runs");
        let (acts, end) = world.script.take();
        let acted = catch_unwind(AssertUnwindSafe(|| {
            for act in acts {
                world.act(act, Some(cx.waker()));
                world.assert_equal();
            }
        }));
        if let Err(payload) = acted {
            world.failed.set(Some(payload));
        }
        match end {
            End::Pending | End::GoesOn => Poll::Pending,
            End::Ready => Poll::Ready(self.alive.clone()),
            // Past the hook, which a fuzzer takes for a finding.
            End::Panic => resume_unwind(Box::new(self.alive.clone())),
        }
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        if self.drops == Drops::Panicking {
            resume_unwind(Box::new(self.alive.clone()));
        }
    }
}

impl World {
    /// A world with its one task.
    fn new(drops: Drops) -> Rc<Self> {
        QUEUE.with_borrow_mut(VecDeque::clear);
        let (table, owner) = live_table();
        let world = Rc::new(Self {
            scheduler: SchedulerHandle::new(Place::Foreign, ptr::null(), table, &FUNCTIONS),
            owner,
            alive: Arc::new(()),
            outsiders: Default::default(),
            handle: RefCell::default(),
            wakers: RefCell::default(),
            references: RefCell::default(),
            script: RefCell::default(),
            failed: Cell::default(),
            drops,
            model: RefCell::new(Model {
                phase: Phase::Queued,
                woken: false,
                cancelled: false,
                handle: true,
                joiner: None,
                how: How::Ready,
                output: false,
                outsiders: [0; OUTSIDERS],
            }),
        });
        WORLD.set(Some(world.clone()));
        let parts = Parts {
            birth: Birth {
                scheduler: NonNull::from(&world.scheduler),
                id: Id::new(1),
                born_ms: 0,
                lane: Lane::NONE,
                parent: None,
            },
            location: Location::caller(),
            extra: None,
        };
        let alive = Alive(world.alive.clone());
        let (task, handle) = Task::new(Played { alive, drops }, parts);
        world.handle.replace(Some(handle));
        task.enter(|reference| world.owner.insert(reference));
        QUEUE.with_borrow_mut(|queue| queue.push_back(task));
        world.assert_equal();
        world
    }

    fn run(&self, acts: &[Act], end: End) {
        let Some(task) = QUEUE.with_borrow_mut(VecDeque::pop_front) else {
            return;
        };
        let is_polled = !self.model.borrow().cancelled;
        self.model.borrow_mut().phase = Phase::Running;
        self.script.replace((acts.to_vec(), end));
        let outcome = task.run::<false>(|| 0, |_| end == End::GoesOn);
        if let Some(payload) = self.failed.take() {
            resume_unwind(payload);
        }
        let mut model = self.model.borrow_mut();
        let how = match end {
            _ if !is_polled => How::Cancelled,
            End::Ready => How::Ready,
            End::Panic => How::Panicked,
            End::Pending | End::GoesOn if model.cancelled => How::Cancelled,
            End::Pending | End::GoesOn if mem::take(&mut model.woken) || end == End::GoesOn => {
                let Outcome::Requeue(task) = outcome else {
                    panic!("I2: a wake came meanwhile, and it said {outcome:?}");
                };
                QUEUE.with_borrow_mut(|queue| queue.push_back(task));
                model.phase = Phase::Queued;
                return;
            }
            End::Pending | End::GoesOn => {
                assert!(matches!(outcome, Outcome::Idle), "it said {outcome:?}");
                model.phase = Phase::Idle;
                return;
            }
        };
        model.end(if self.drops == Drops::Panicking {
            How::Panicked
        } else {
            how
        });
        let expected = match model.how {
            How::Panicked => Ended::Panicked,
            How::Ready | How::Cancelled => Ended::Well,
        };
        let Outcome::Done(ended) = outcome else {
            panic!("it ended, and said {outcome:?}");
        };
        assert_eq!(ended, expected, "S6");
    }

    /// `polled` is the waker of the poll that does this.
    fn act(&self, act: Act, polled: Option<&Waker>) {
        let mut model = self.model.borrow_mut();
        let mut wakers = self.wakers.borrow_mut();
        let mut references = self.references.borrow_mut();
        let mut handle = self.handle.borrow_mut();
        match act {
            Act::Keep(at) => {
                let waker = polled.or_else(|| around(&wakers, at)).cloned();
                wakers.extend(waker);
            }
            Act::WakeByRef(at) => {
                if let Some(waker) = polled.or_else(|| around(&wakers, at)) {
                    waker.wake_by_ref();
                    model.wake();
                }
            }
            Act::Wake(at) => {
                if let Some(waker) = take_around(&mut wakers, at) {
                    waker.wake();
                    model.wake();
                }
            }
            Act::DropWaker(at) => drop(take_around(&mut wakers, at)),
            Act::Refer => references.extend(handle.as_ref().map(JoinCell::task_ref)),
            Act::DropReference(at) => drop(take_around(&mut references, at)),
            Act::Abort(at) => {
                if let Some(reference) = around(&references, at) {
                    reference.abort();
                    model.cancel();
                }
            }
            Act::AbortByHandle => {
                if let Some(handle) = &*handle {
                    handle.abort();
                    model.cancel();
                }
            }
            Act::Join(joiner) => {
                let joiner = joiner % (OUTSIDERS + 1);
                let waker = match self.outsiders.get(joiner) {
                    Some(outsider) => Some(Waker::from(outsider.clone())),
                    None => polled.or_else(|| around(&wakers, 0)).cloned(),
                };
                let was_taken = model.phase == Phase::Done && !model.output;
                let (Some(handle), Some(waker)) = (handle.as_mut().filter(|_| !was_taken), waker)
                else {
                    return;
                };
                match handle.poll(&mut Context::from_waker(&waker)) {
                    Poll::Pending => {
                        assert_ne!(model.phase, Phase::Done);
                        model.joiner = Some(joiner);
                    }
                    Poll::Ready(output) => {
                        assert_eq!(model.phase, Phase::Done);
                        let how = match output {
                            Ok(_) => How::Ready,
                            Err(failure) if failure.is_panic() => How::Panicked,
                            Err(_) => How::Cancelled,
                        };
                        assert_eq!(how, model.how);
                        model.output = false;
                    }
                }
            }
            Act::Detach => {
                drop(handle.take());
                (model.handle, model.joiner, model.output) = (false, None, false);
            }
            Act::Dump => {
                let mut count = 0;
                self.scheduler.live().for_each(|_| count += 1);
                assert_eq!(count, usize::from(model.phase != Phase::Done));
            }
        }
    }

    /// The cell beside the model.
    fn assert_equal(&self) {
        let model = self.model.borrow();
        let is_live = model.phase != Phase::Done;
        let queued = QUEUE.with_borrow(VecDeque::len);
        assert_eq!(queued, usize::from(model.phase == Phase::Queued), "I1");
        assert_eq!(self.scheduler.live().len(), usize::from(is_live));

        let output = usize::from(model.output && model.how != How::Cancelled);
        let alive = Arc::strong_count(&self.alive) - 1;
        assert_eq!(alive, usize::from(is_live) + output, "S2");
        for (at, outsider) in self.outsiders.iter().enumerate() {
            assert_eq!(outsider.0.load(Relaxed), model.outsiders[at]);
            let kept = Arc::strong_count(outsider) - 1;
            assert_eq!(kept, usize::from(model.joiner == Some(at)));
        }

        let (references, handle) = (self.references.borrow(), self.handle.borrow());
        assert_eq!(handle.is_some(), model.handle);
        assert!(
            handle
                .as_ref()
                .is_none_or(|handle| handle.is_done() != is_live)
        );
        let look = handle.as_ref().map(JoinCell::header);
        let look = look.or_else(|| references.first().map(TaskRef::header));
        let Some(header) = look else { return };
        let state = header.snapshot();
        let held = self.wakers.borrow().len() + references.len();
        let own = usize::from(model.handle)
            + usize::from(is_live)
            + usize::from(model.joiner == Some(OUTSIDERS));
        assert_eq!(state.references(), (held + own) as u64);
        assert_eq!(state.is_done(), !is_live);
        assert_eq!(state.is_cancelled(), model.cancelled);
        if is_live {
            assert_eq!(state.is_idle(), model.phase == Phase::Idle);
            assert_eq!(state.has_handle(), model.handle);
            assert_eq!(state.has_waker(), model.joiner.is_some());
        }
    }

    /// Cancels what is alive, and drops all that is held.
    fn shut_down(&self) {
        self.scheduler.live().for_each(|reference| {
            reference.abort();
            self.model.borrow_mut().cancel();
        });
        self.run(&[], End::Pending);
        self.assert_equal();
        assert_eq!(self.model.borrow().phase, Phase::Done, "S7");
        drop(self.references.take());
        drop(self.wakers.take());
        self.assert_equal();
        self.act(Act::Detach, None);
        self.assert_equal();
    }
}

impl Model {
    fn wake(&mut self) {
        match self.phase {
            Phase::Idle => self.phase = Phase::Queued,
            Phase::Running => self.woken = true,
            Phase::Queued | Phase::Done => {}
        }
    }

    fn cancel(&mut self) {
        if self.phase != Phase::Done && !self.cancelled {
            self.cancelled = true;
            self.wake();
        }
    }

    fn end(&mut self, how: How) {
        (self.phase, self.how, self.output) = (Phase::Done, how, self.handle);
        let outsider = self.joiner.take().filter(|joiner| *joiner < OUTSIDERS);
        if let Some(outsider) = outsider {
            self.outsiders[outsider] += 1;
        }
    }
}

/// The one with this number, counted around.
fn around<T>(all: &[T], at: usize) -> Option<&T> {
    all.get(at.checked_rem(all.len())?)
}

fn take_around<T>(all: &mut Vec<T>, at: usize) -> Option<T> {
    let at = at.checked_rem(all.len())?;
    Some(all.swap_remove(at))
}
