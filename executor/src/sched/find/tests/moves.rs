//! I8: `runnext` is stolen last, and only from a victim that did not move on since the first round.
//!
//! The first two tests fail if a round before the fourth takes it; the second also if the fourth
//! does not ask whether the victim has moved on since the first (`stays` in `sched/search.rs`).

use super::{order::spawned, *};
use crate::sync::atomic::AtomicUsize;

/// Calls that where a search looks at its only victim in the second, third and fourth round, with
/// how often it was called before.
fn at_each_round(
    runtime: &Runtime,
    f: impl Fn(usize) + Send + Sync + 'static,
) -> Shares<AtomicUsize> {
    let calls = Shares::new(AtomicUsize::new(0));
    let shared = Shares::new((runtime.handle().clone(), f, calls.clone()));
    arm(shared);
    calls
}

type Rounds<F> = (Handle, F, Shares<AtomicUsize>);

fn arm<F: Fn(usize) + Send + Sync + 'static>(rounds: Shares<Rounds<F>>) {
    let again = rounds.clone();
    let waker = hook(move || {
        let before = again.2.fetch_add(1, Relaxed);
        (again.1)(before);
        if before < 2 {
            arm(again.clone());
        }
    });
    rounds.0.shared().processors.before_claim.wake_next(waker);
}

#[test]
fn runnext_of_a_victim_that_stays_is_stolen_in_the_fourth_round() {
    let runtime = runtime();
    let (searcher, victim) = searcher_and_computer(&runtime);
    let ids = spawned(&victim, 1);
    let rounds = at_each_round(&runtime, |_| ());
    match step(&searcher) {
        Step::Run(task) => {
            assert_eq!(task.header().id(), ids[0]);
            searcher.dispose(task);
        }
        other => panic!("it has work: {other:?}"),
    }
    assert_eq!(rounds.load(Relaxed), 3, "the first, and these");
    end(runtime, [searcher, victim]);
}

#[test]
fn runnext_of_a_victim_that_moves_on_is_left_there() {
    // In the second, the third and the fourth round.
    for moves_in in 0..3 {
        let runtime = runtime();
        let (searcher, victim) = searcher_and_computer(&runtime);
        spawned(&victim, 1);
        let (shared, index) = (runtime.handle().shared().clone(), victim.index());
        let rounds = at_each_round(&runtime, move |round| {
            if round == moves_in {
                shared.peer(index).progress.ticks.fetch_add(1, Relaxed);
            }
        });
        let found = step(&searcher);
        assert!(matches!(found, Step::Park), "stolen: {found:?}");
        assert_eq!(rounds.load(Relaxed), 3, "the first, and these");
        assert!(!victim.p.runnext.is_empty());
        end(runtime, [searcher, victim]);
    }
}

/// Steps until it has stolen, and returns how often and how much it stole.
fn steals(searcher: &Worker) -> (u64, u64) {
    match step(searcher) {
        Step::Run(task) => searcher.dispose(task),
        other => panic!("there is something to steal: {other:?}"),
    }
    let counters = &searcher.own_peer().counters;
    (counters.steals.get(), counters.stolen.get())
}

/// Fails if a steal counts as one task, or that of a parent as none.
#[test]
fn a_steal_counts_with_what_it_took() {
    let runtime = runtime();
    let (searcher, victim) = searcher_and_computer(&runtime);
    // One of them is in `runnext`.
    spawned(&victim, 9);
    assert_eq!(steals(&searcher), (1, 4), "half of eight");
    end(runtime, [searcher, victim]);
}

#[test]
fn a_stolen_parent_counts() {
    let runtime = runtime();
    let (searcher, victim) = searcher_and_computer(&runtime);
    spawned(&victim, 1);
    let parent = victim.p.runnext.take().expect("it was spawned");
    victim.push_parent(parent);
    assert_eq!(steals(&searcher), (1, 1));
    end(runtime, [searcher, victim]);
}
