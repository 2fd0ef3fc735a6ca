//! Tasks that a caller chooses: each runs once for each wake, whichever order.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::super::{Machine, Ready};
use crate::{
    block_in_place, fork, rng::Rng, runtime::Builder, spawn, spawn_blocking, spawn_local,
    spawn_pinned, task::yield_now, time::sleep,
};

fn machine(workers: usize) -> Machine {
    Machine::new(Builder::new().workers(workers).seed(1)).unwrap()
}

fn found(machine: &Machine) -> Vec<Ready> {
    let mut found = Vec::new();
    machine.find(|ready| found.push(ready));
    found
}

/// Polls tasks in a random order until all wait, for a timer at last.
fn run(machine: &Machine, rng: &Rng) {
    let mut ready = Vec::new();
    loop {
        machine.find(|found| ready.push(found));
        if ready.is_empty() {
            let Some(next) = machine.next_timer() else {
                return;
            };
            machine.jump_to(next);
            continue;
        }
        let next: Ready = ready.swap_remove(rng.below(ready.len()));
        machine.poll(next.ticket);
    }
}

#[test]
fn all_ready_tasks_are_found_and_the_caller_chooses() {
    let machine = machine(1);
    let told = Arc::new(Mutex::new(Vec::new()));
    let tasks = [0, 1, 2, 3].map(|number| {
        let told = told.clone();
        let task = machine.handle().spawn(async move {
            told.lock().unwrap().push(number);
            yield_now().await;
            told.lock().unwrap().push(number + 10);
        });
        task.id()
    });
    let mut ready = found(&machine);
    assert_eq!(ready.len(), 4);
    assert_eq!(found(&machine), [], "each is told once");
    let ticket = |ready: &[Ready], number: usize| {
        let entry = ready.iter().find(|ready| ready.task == tasks[number]);
        entry.expect("it is ready").ticket
    };
    assert!(machine.poll(ticket(&ready, 2)));
    assert!(!machine.poll(ticket(&ready, 2)), "it was polled");
    ready.retain(|ready| ready.task != tasks[2]);
    ready.extend(found(&machine));
    assert_eq!(ready.len(), 4, "it goes on while others wait");
    for number in [2, 3, 0] {
        assert!(machine.poll(ticket(&ready, number)));
    }
    assert_eq!(*told.lock().unwrap(), [2, 12, 3, 0]);
    machine.end();
}

#[test]
fn what_is_in_the_pool_is_dropped_at_the_end() {
    let machine = machine(2);
    let alive = Arc::new(());
    for _ in 0..5 {
        let held = alive.clone();
        machine.handle().spawn(async move {
            spawn_local({
                let held = held.clone();
                async move { drop(held) }
            });
            sleep(Duration::from_secs(1)).await;
            drop(held);
        });
    }
    let ready = found(&machine);
    machine.poll(ready[0].ticket);
    assert_eq!(found(&machine).len(), 1, "the pinned child");
    machine.end();
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_task_in_the_pool_may_be_aborted() {
    let machine = machine(1);
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let task = machine.handle().spawn(async move {
        counted.fetch_add(1, Relaxed);
    });
    let ready = found(&machine);
    task.abort();
    assert!(machine.poll(ready[0].ticket));
    assert!(task.is_finished());
    assert_eq!((polls.load(Relaxed), Arc::strong_count(&polls)), (0, 1));
    machine.end();
}

#[test]
fn a_thread_that_blocks_gives_its_tasks_to_others() {
    let machine = machine(1);
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let count = count.clone();
        machine.handle().spawn(async move {
            block_in_place(|| ());
            yield_now().await;
            block_in_place(|| ());
            count.fetch_add(1, Relaxed);
        });
    }
    run(&machine, &Rng::new(1, 0));
    assert_eq!(count.load(Relaxed), 8);
    machine.end();
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

fn work(rng: Arc<Mutex<Rng>>, count: Arc<AtomicUsize>, depth: usize) -> Work {
    Box::pin(async move {
        for _ in 0..4 {
            let child = match depth {
                0 => Box::pin(async {}),
                _ => work(rng.clone(), count.clone(), depth - 1),
            };
            let draw = |below| rng.lock().unwrap().below(below);
            match draw(8) {
                0 => spawn(child).await.unwrap(),
                1 => fork(child).await.await.unwrap(),
                2 => drop(spawn_local(child)),
                3 => spawn_pinned(|| child).await.unwrap(),
                4 => spawn_blocking(|| ()).await.unwrap(),
                5 => block_in_place(|| ()),
                6 => sleep(Duration::from_millis(draw(3) as u64)).await,
                _ => yield_now().await,
            }
        }
        count.fetch_add(1, Relaxed);
    })
}

#[test]
fn programs_of_all_kinds_of_tasks_come_to_their_end() {
    for seed in 0..300 {
        let machine = machine(1 + seed as usize % 4);
        let count = Arc::new(AtomicUsize::new(0));
        let rng = Arc::new(Mutex::new(Rng::new(seed, 0)));
        let tasks: Vec<_> = (0..4)
            .map(|_| machine.handle().spawn(work(rng.clone(), count.clone(), 3)))
            .collect();
        run(&machine, &Rng::new(seed, 1));
        assert!(tasks.iter().all(|task| task.is_finished()), "seed {seed}");
        machine.end();
        assert_eq!(Arc::strong_count(&count), 1, "seed {seed}: all are dropped");
    }
}
