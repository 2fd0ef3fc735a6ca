//! What the scheduler is given by the layers above it, once, at the build of a runtime.
//!
//! The scheduler does not ask whose thread this is. Where an answer is needed, the layers above
//! give it a function ([`Above`]), or call it with the worker:
//!
//! - what a task's handle of its scheduler does when the task is woken or has ended;
//! - what the netpoll calls ([`hear`]);
//! - how a thread becomes a worker for a while, and how it enters a runtime;
//! - the monitor.
//!
//! An unsafe island: a scheduler handle finds its runtime by an address.
#![expect(
    unsafe_code,
    reason = "a scheduler handle's runtime is reached by the pointer that the scheduler handle carries; see `of`"
)]

use std::mem;

use crate::{
    cell::{Functions, Header, SchedulerHandle, Task, TaskRef, live::Removed, wake_quietly},
    context,
    monitor::Monitor,
    note::event,
    permit::{env::Env, phase::ShutdownEnv},
    reports::Subject,
    sched::{Shared, config::Above},
    sync::Arc,
};

/// For the configuration of each runtime.
pub(crate) static ABOVE: Above = Above {
    task_functions: &TASK_FUNCTIONS,
    as_worker: |worker, f| context::with_worker_frame(worker, f),
    entered: |shared, f| {
        let _entered = context::enter(shared.clone());
        f();
    },
    worker_here: |shared, f| {
        context::with_worker(|worker| {
            f(worker.filter(|worker| std::ptr::eq(Arc::as_ptr(worker.shared()), shared)));
        });
    },
    watch: |shared| Monitor::new(shared).run(),
};

/// What the netpoll of a runtime calls.
pub(crate) fn hear(shared: &Arc<Shared>) {
    let netpoll = &shared.io.netpoll;
    let this = Arc::downgrade(shared);
    netpoll.on_unheard(move || context::with_shared(&this, Shared::heard));
    let this = Arc::downgrade(shared);
    netpoll.on_wake(move |mut wakers| {
        context::with_shared(&this, |shared| shared.wake_all(mem::take(&mut wakers)));
        // The runtime has gone.
        wakers.into_iter().for_each(wake_quietly);
    });
}

/// What the scheduler handles of all Ps do.
static TASK_FUNCTIONS: Functions = Functions {
    schedule,
    remove,
    report_panic,
};

/// The runtime of a scheduler handle.
fn of(scheduler: &SchedulerHandle) -> &Shared {
    // SAFETY: `Shared::new` put its own address there. Callers hold a live task of this scheduler
    // handle, or are threads of the runtime, so the runtime is there.
    unsafe { &*scheduler.runtime().cast::<Shared>() }
}

/// A task was woken.
fn schedule(scheduler: &SchedulerHandle, task: Task) {
    let shared = of(scheduler);
    if task.header().account().times_wake() {
        shared.time_wake(task.header());
    }
    context::with_worker_of(shared, |worker| match worker {
        Some(worker) => {
            event!(worker, Wake, task.header(), 0);
            worker.push_woken(task);
        }
        None => {
            event!(shared, Wake, task.header(), 0);
            // As soon as the task is pushed it may run and end, and the runtime with it: hold it.
            let shared = shared.strong();
            shared.push_foreign(task);
        }
    });
}

/// A task has ended.
fn remove(scheduler: &SchedulerHandle, index: u32) -> Removed<TaskRef> {
    let shared = of(scheduler);
    let removed = context::with_worker(|worker| match worker {
        Some(worker) if worker.is_own_scheduler(scheduler) => worker.remove_live(index),
        _ => scheduler.live().remove(index),
    });
    shared.task_ended(|| scheduler.live().len() == 0);
    removed
}

fn report_panic(scheduler: &SchedulerHandle, header: &Header) {
    report_panic_to(of(scheduler), header);
}

/// A task that nobody joins has panicked. The panic hook has said where and why, but not in which
/// task.
pub(crate) fn report_panic_to(shared: &Shared, header: &Header) {
    let subject = Subject {
        id: header.id(),
        name: header.name(),
        location: header.location(),
    };
    #[cfg(any(test, feature = "sim"))]
    if let Some(threads) = &shared.threads.sim_threads {
        threads.panicked.lock().push(subject.to_string());
    }
    shared.telling.reports.tell(
        || {
            tracing::error!(
                task.id = %subject.id,
                task.name = subject.name,
                spawned.at = %subject.location,
                "a task panicked that nobody joins"
            );
        },
        format_args!("{subject}, panicked, and nobody joins it"),
    );
}
