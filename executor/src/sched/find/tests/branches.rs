//! J1: branches of a join that somebody asks for, takes and gives back. The first test fails if a
//! steal is no ask, of the victim or of the thief (*After a steal* in `fork_join/owner.rs`), the
//! second if a scope hears a thread that asks where it has nothing for that thread, the third if
//! whoever takes a branch back that was shared for long shares no other, or shares one after any,
//! the next if a search takes branches in its first round, the last if the first join forgets a
//! thread that got nothing (`promote_for_asks`).
//!
//! J5: a scope ends after a branch that is handed back. It hangs if `drop` in `branch/deque.rs`
//! does not put it back into a list.

use super::*;

thread_local! {
    /// A worker for a closure that must be `Send`, although it stays here.
    pub(super) static THIEF: Cell<Option<Worker>> = const { Cell::new(None) };
}

#[test]
fn after_a_steal_both_share_a_branch() {
    let runtime = runtime();
    let (owner, thief) = (thread(&runtime), thread(&runtime));
    let shared = runtime.handle().shared().clone();
    let branch_deque = |index| &shared.peer(index).queues.branch_deque;
    let shares = |index| join(|| branch_deque(index).has_shared(), || ()).0;
    let (own, other) = (owner.index(), thief.index());
    for worker in [&owner, &thief] {
        context::with_worker_frame(worker, || {
            shares(worker.index());
            assert!(
                !shares(worker.index()),
                "nobody has asked since the first fork"
            );
        });
    }
    THIEF.set(Some(thief));
    let (owners, thiefs) = context::with_worker_frame(&owner, || {
        branch_deque(own).ask_as_helper();
        let steal = || {
            let branch = BranchDeque::claim(branch_deque(own), 0).expect("it was promoted");
            let thief = THIEF.take().expect("it is here");
            context::with_worker_frame(&thief, || crate::branch::run_claimed(branch, other, 0));
            THIEF.set(Some(thief));
            shares(own)
        };
        join(steal, || shares(other))
    });
    assert!(owners, "the victim shares nothing");
    assert!(thiefs, "the thief shares nothing");
    end(runtime, [owner, THIEF.take().expect("it is back")]);
}

#[test]
fn a_scope_whose_branch_was_stolen_forgets_nobody_who_asked() {
    let runtime = runtime();
    let (owner, thief) = (thread(&runtime), thread(&runtime));
    let shared = runtime.handle().shared().clone();
    let branch_deque = &shared.peer(owner.index()).queues.branch_deque;
    let mut ran = false;
    context::with_worker_frame(&owner, || {
        branch_deque.ask_as_helper();
        scope(|scope| {
            scope.spawn(|_| ran = true);
            let branch = BranchDeque::take(branch_deque).expect("it was promoted");
            context::with_worker_frame(&thief, || {
                crate::branch::run_claimed(branch, thief.index(), 0)
            });
            branch_deque.ask();
        });
        assert!(!branch_deque.ask(), "nobody asks for the next one");
    });
    assert!(ran);
    end(runtime, [owner, thief]);
}

/// A thief that has lost its permit hands the branch back, and the scope ends after it all the
/// same.
#[test]
fn a_branch_of_a_scope_that_is_handed_back_is_its_owners() {
    let (owner, ran_on) = limited(|send| {
        let runtime = runtime();
        let (owner, thief) = (thread(&runtime), thread(&runtime));
        let shared = runtime.handle().shared().clone();
        let branch_deque = &shared.peer(owner.index()).queues.branch_deque;
        let mut ran_on = vec![];
        context::with_worker_frame(&owner, || {
            branch_deque.ask_as_helper();
            scope(|scope| {
                scope.spawn(|_| {
                    ran_on.push(context::with_worker(|worker| worker.unwrap().index()));
                });
                let branch = BranchDeque::take(branch_deque).expect("it was promoted");
                context::with_worker_frame(&thief, || drop(branch));
            });
        });
        send.send((owner.index(), ran_on)).unwrap();
        end(runtime, [owner, thief]);
    });
    assert_eq!(ran_on, [owner]);
}

#[test]
fn one_that_takes_back_what_was_shared_for_long_shares_the_next() {
    let runtime = runtime();
    // The other permit is taken, too: nobody but a helper asks.
    let (owner, busy) = (thread(&runtime), thread(&runtime));
    busy.found_work();
    let shared = runtime.handle().shared().clone();
    let branch_deque = &shared.peer(owner.index()).queues.branch_deque;
    let shares = || join(|| branch_deque.has_shared(), || ()).0;
    context::with_worker_frame(&owner, || {
        shares();
        for (micros, far_apart) in [(99, false), (100, true), (99, false)] {
            branch_deque.ask_as_helper();
            let first = || {
                assert!(branch_deque.has_shared(), "somebody asked");
                shared.time.clock().advance(Duration::from_micros(micros));
            };
            join(first, || ());
            assert_eq!(shares(), far_apart, "after {micros} us");
            assert!(!shares(), "once: that one was taken back at once");
        }
    });
    end(runtime, [owner, busy]);
}

/// The first join has one branch for two that search, so the second shares another.
#[test]
fn joins_share_one_branch_for_each_that_searches() {
    let builder = Builder::new().workers(4).sysmon(Sysmon::Off);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let workers = [(); 4].map(|()| thread(&runtime));
    let [forks, searching @ .., computes] = &workers;
    computes.found_work();
    for worker in searching {
        assert!(worker.begin_search());
    }
    let shared = runtime.handle().shared().clone();
    assert_eq!(shared.could_take(), 2);
    let branch_deque = shared.peer(forks.index()).queues.branch_deque.clone();
    context::with_worker_frame(forks, || {
        branch_deque.ask();
        let ((deepest, ()), ()) = join(
            || join(|| join(|| branch_deque.shared(), || ()).0, || ()),
            || (),
        );
        assert_eq!(deepest, 2, "not one for each");
    });
    searching.iter().for_each(Sleeper::found_work);
    end(runtime, workers);
}

#[test]
fn a_search_takes_tasks_of_any_before_branches() {
    // In whatever order it comes to the two.
    for _ in 0..20 {
        let builder = Builder::new().workers(3).sysmon(Sysmon::Off);
        let runtime = builder.build_with(Clock::stopped()).unwrap();
        let [forks, has_tasks, searches] = [(); 3].map(|()| thread(&runtime));
        context::with_worker_frame(&has_tasks, || (0..2).for_each(|_| drop(spawn(async {}))));
        let shared = runtime.handle().shared().clone();
        let branch_deque = &shared.peer(forks.index()).queues.branch_deque;
        THIEF.set(Some(searches));
        let search = || {
            assert!(branch_deque.has_shared());
            let thief = THIEF.take().expect("it is here");
            let task = match step(&thief) {
                Step::Run(task) => task,
                other => panic!("a task waits: {other:?}"),
            };
            context::with_worker_frame(&thief, || thief.poll(task));
            THIEF.set(Some(thief));
        };
        context::with_worker_frame(&forks, || {
            branch_deque.ask_as_helper();
            join(search, || ());
        });
        let searches = THIEF.take().expect("it is back");
        end(runtime, [forks, has_tasks, searches]);
    }
}

/// S3: a thread that wants a permit comes before the branch.
#[test]
fn a_permit_is_lent_before_a_branch_is_taken() {
    let runtime = runtime();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let wanting = wanting(&runtime);
    let shared = runtime.handle().shared().clone();
    let branch_deque = &shared.peer(computer.index()).queues.branch_deque;
    THIEF.set(Some(searcher));
    let search = || {
        assert!(branch_deque.has_shared());
        let searcher = THIEF.take().expect("it is here");
        let found = step(&searcher);
        assert_parks(&searcher, &found);
        THIEF.set(Some(searcher));
    };
    context::with_worker_frame(&computer, || {
        branch_deque.ask_as_helper();
        join(search, || ());
    });
    assert_eq!(wanting.own_peer().state().load(), WorkerState::Running);
    let searcher = THIEF.take().expect("it is back");
    end(runtime, [searcher, computer, wanting]);
}
