//! L5: there is always a thread for every permit. Closures of `spawn_blocking` run on the threads
//! that are left under `max_threads`; the others wait for room as parked tasks. So jobs that wait
//! for async work come to an end, and a job that is aborted while it waits, or panics, holds up
//! nobody.
//!
//! It fails when `Config::blocking_max` does not hold threads back, when `Semaphore` loses the turn
//! of a job that was aborted in its queue, and when `Task::run` polls a call that was aborted.

use crate::common;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use common::{Count, Gate, limited, listen_to_panics, runtime};
use ws_executor::{
    runtime::{Builder, Runtime, Sysmon},
    task::JoinHandle,
};

/// A runtime with room for `room` jobs at a time.
fn with_room(workers: usize, room: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        .max_threads(2 * workers + room)
        .build()
        .unwrap()
}

/// Takes all the room until the gate opens.
fn fill(runtime: &Runtime, room: usize) -> (Arc<Gate>, Vec<JoinHandle<()>>) {
    let (gate, begun) = (Arc::new(Gate::default()), Arc::new(Count::new()));
    let jobs = (0..room)
        .map(|_| {
            let (gate, begun) = (gate.clone(), begun.clone());
            runtime.handle().spawn_blocking(move || {
                begun.add();
                gate.pass();
            })
        })
        .collect();
    begun.wait_for(room);
    (gate, jobs)
}

/// Tasks still run: each permit has a thread.
fn tasks_run(runtime: &Runtime) {
    let tasks: Vec<_> = (0..100).map(|n| runtime.spawn(async move { n })).collect();
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(runtime.block_on(task).unwrap(), n);
    }
}

common::with_workers! {
    /// Many more jobs than threads. Each job waits for a task.
    fn jobs_that_wait_for_async_work_end(workers: usize) {
        for max_threads in [workers + 1, 2 * workers, 2 * workers + 2] {
            let runtime = Builder::new().workers(workers).max_threads(max_threads).build().unwrap();
            let jobs: Vec<_> = (0..50u32).map(|n| {
                let handle = runtime.handle().clone();
                runtime.handle().spawn_blocking(move || {
                    let task = handle.spawn(async move {
                        ws_executor::task::yield_now().await;
                        n
                    });
                    handle.block_on(task).unwrap()
                })
            }).collect();
            let mut sum = 0;
            for job in jobs {
                sum += runtime.block_on(job).unwrap();
            }
            assert_eq!(sum, 49 * 50 / 2);
            let metrics = runtime.handle().metrics();
            assert!(metrics.threads <= max_threads, "{} threads", metrics.threads);
        }
    }

    /// More than there are threads by default, and all that have room wait at the same time.
    fn six_hundred_jobs_that_wait_for_async_work_end(workers: usize) {
        let runtime = runtime(workers);
        let (begun, gate) = (Arc::new(Count::new()), Arc::new(Gate::default()));
        let jobs: Vec<_> = (0..600u32).map(|n| {
            let (handle, begun, gate) = (runtime.handle().clone(), begun.clone(), gate.clone());
            runtime.handle().spawn_blocking(move || {
                let task = handle.spawn(async move {
                    ws_executor::task::yield_now().await;
                    n
                });
                begun.add();
                gate.pass();
                handle.block_on(task).unwrap()
            })
        }).collect();
        begun.wait_for(512);
        gate.open();
        let mut sum = 0;
        for job in jobs {
            sum += runtime.block_on(job).unwrap();
        }
        assert_eq!(sum, 599 * 600 / 2);
        let threads = runtime.handle().metrics().threads;
        assert!(threads <= 512 + 2 * workers, "{threads} threads");
    }

    fn no_more_than_the_room_run_at_once(workers: usize) {
        let runtime = with_room(workers, 3);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let jobs: Vec<_> = (0..100).map(|_| {
            let (now, most) = (now.clone(), most.clone());
            runtime.handle().spawn_blocking(move || {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, SeqCst);
            })
        }).collect();
        for job in jobs {
            runtime.block_on(job).unwrap();
        }
        assert!(most.load(SeqCst) <= 3);
    }

    fn tasks_run_while_all_room_is_taken(workers: usize) {
        let runtime = with_room(workers, 2);
        let (gate, jobs) = fill(&runtime, 2);
        let waiting: Vec<_> = (0..20).map(|n| {
            runtime.handle().spawn_blocking(move || n)
        }).collect();
        tasks_run(&runtime);
        assert!(waiting.iter().all(|job| !job.is_finished()));
        gate.open();
        for job in jobs {
            runtime.block_on(job).unwrap();
        }
        for (n, job) in waiting.into_iter().enumerate() {
            assert_eq!(runtime.block_on(job).unwrap(), n);
        }
    }

    /// A job that is aborted in the queue never runs, and those behind it do.
    fn an_aborted_job_passes_its_turn_on(workers: usize) {
        let runtime = with_room(workers, 1);
        let (gate, jobs) = fill(&runtime, 1);
        let ran = Arc::new(AtomicUsize::new(0));
        let mut waiting: Vec<_> = (0..9).map(|_| {
            let ran = ran.clone();
            runtime.handle().spawn_blocking(move || ran.fetch_add(1, SeqCst))
        }).collect();
        // All of them have been polled, and wait.
        tasks_run(&runtime);
        let mut aborted = Vec::new();
        for at in [6, 3, 0] {
            let job = waiting.remove(at);
            job.abort();
            aborted.push(job);
        }
        for job in aborted {
            assert!(runtime.block_on(job).unwrap_err().is_cancelled());
        }
        gate.open();
        for job in jobs {
            runtime.block_on(job).unwrap();
        }
        for job in waiting {
            runtime.block_on(job).unwrap();
        }
        assert_eq!(ran.load(SeqCst), 6);
    }

    /// A job that is aborted before any thread has come to it never runs, though there is room for
    /// it.
    fn an_aborted_job_does_not_begin(workers: usize) {
        // Without a monitor nobody takes a permit from a taker.
        let runtime = Builder::new().workers(workers).sysmon(Sysmon::Off).build().unwrap();
        let (gate, takers) = common::take_all_permits(&runtime, workers);
        let ran = Arc::new(Count::new());
        let runs = ran.clone();
        let job = runtime.spawn_blocking(move || runs.add());
        job.abort();
        gate.open();
        assert!(runtime.block_on(job).unwrap_err().is_cancelled());
        assert_eq!(ran.get(), 0);
        takers.into_iter().for_each(|taker| runtime.block_on(taker).unwrap());
    }

    /// Aborts that race with the turns.
    fn aborts_race_with_turns(workers: usize) {
        for _ in 0..20 {
            let runtime = with_room(workers, 1);
            let (gate, _jobs) = fill(&runtime, 1);
            let waiting: Vec<_> = (0..20).map(|n| {
                runtime.handle().spawn_blocking(move || n)
            }).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| waiting.iter().step_by(2).for_each(|job| job.abort()));
                scope.spawn(|| gate.open());
            });
            for (n, job) in waiting.into_iter().enumerate() {
                match runtime.block_on(job) {
                    Ok(output) => assert_eq!(output, n),
                    Err(error) => assert!(error.is_cancelled() && n % 2 == 0),
                }
            }
        }
    }

    /// One that runs cannot be stopped; its output counts.
    fn an_abort_comes_too_late_for_a_running_job(workers: usize) {
        let runtime = with_room(workers, 1);
        let (gate, mut jobs) = fill(&runtime, 1);
        jobs[0].abort();
        gate.open();
        runtime.block_on(jobs.remove(0)).unwrap();
    }

    fn a_panic_gives_its_room_back(workers: usize) {
        listen_to_panics();
        let runtime = with_room(workers, 1);
        for _ in 0..20 {
            let job = runtime.handle().spawn_blocking(|| panic!("expected: in a job"));
            let error: ws_executor::task::JoinError = runtime.block_on(job).unwrap_err();
            assert_eq!(error.into_panic().downcast_ref(), Some(&"expected: in a job"));
        }
        assert_eq!(runtime.block_on(runtime.handle().spawn_blocking(|| 5)).unwrap(), 5);
        tasks_run(&runtime);
    }

    /// A job may spawn jobs and wait for them, if there is room for the depth.
    fn jobs_within_jobs(workers: usize) {
        let runtime = with_room(workers, 3);
        let handle = runtime.handle().clone();
        let job = runtime.handle().spawn_blocking(move || {
            let inner = handle.clone();
            let job = handle.spawn_blocking(move || {
                inner.block_on(inner.spawn_blocking(|| 1)).unwrap() + 1
            });
            handle.block_on(job).unwrap() + 1
        });
        assert_eq!(runtime.block_on(job).unwrap(), 3);
    }

    fn block_in_place_lends_the_permit(workers: usize) {
        let runtime = runtime(workers);
        let gate = Arc::new(Gate::default());
        // As many as there are permits block, until a task that runs beside them lets them go.
        let blocked: Vec<_> = (0..workers).map(|_| {
            let gate = gate.clone();
            runtime.spawn(async move { ws_executor::block_in_place(|| gate.pass()) })
        }).collect();
        let opens = runtime.spawn(async move { gate.open() });
        runtime.block_on(opens).unwrap();
        for task in blocked {
            runtime.block_on(task).unwrap();
        }
    }
}

/// Outside of a runtime there is nothing to lend.
#[test]
fn block_in_place_outside_just_calls() {
    limited(|| assert_eq!(ws_executor::block_in_place(|| 5), 5));
}

/// By default the cap follows the number of workers: with more than 512 workers the runtime starts,
/// and blocking calls run side by side. With a cap of 512 for all it did not start, and 256 workers
/// left room for one call.
#[test]
fn by_default_there_is_room_beside_many_workers() {
    limited(|| {
        for workers in [256, 1024] {
            let runtime = Builder::new().workers(workers).build().unwrap();
            let (gate, jobs) = fill(&runtime, 8);
            gate.open();
            jobs.into_iter()
                .for_each(|job| runtime.block_on(job).unwrap());
        }
    });
}
