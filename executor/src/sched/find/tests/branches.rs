//! J1: branches of a join that somebody asks for, takes and gives back. The first test fails if a
//! steal is no ask, of the victim or of the thief (*After a steal* in `fork_join/owner.rs`), the
//! second if a scope hears who asks where it has nothing for them, the third if whoever takes a
//! branch back that was shared for long shares no other, or shares one after any, the next if a
//! search takes branches in its first round, the next if the first join forgets who got nothing
//! (`feed`), the last if `wait_for_a_branch` does not note what it takes.
//!
//! J5: a scope ends after a branch that is handed back. It hangs if `drop` in `fork_join/deque.rs`
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
    let lane = |index| &shared.peer(index).queues.lane;
    let shares = |index| join(|| lane(index).has_shared(), || ()).0;
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
        lane(own).ask_as_helper();
        let steal = || {
            let branch = Lane::claim(lane(own), 0).expect("it was promoted");
            let thief = THIEF.take().expect("it is here");
            context::with_worker_frame(&thief, || branch.run(other, 0));
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
    let lane = &shared.peer(owner.index()).queues.lane;
    let mut ran = false;
    context::with_worker_frame(&owner, || {
        lane.ask_as_helper();
        scope(|scope| {
            scope.spawn(|_| ran = true);
            let branch = Lane::take(lane).expect("it was promoted");
            context::with_worker_frame(&thief, || branch.run(thief.index(), 0));
            lane.ask();
        });
        assert!(!lane.ask(), "nobody asks for the next one");
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
        let lane = &shared.peer(owner.index()).queues.lane;
        let mut ran_on = vec![];
        context::with_worker_frame(&owner, || {
            lane.ask_as_helper();
            scope(|scope| {
                scope.spawn(|_| {
                    ran_on.push(context::with_worker(|worker| worker.unwrap().index()));
                });
                let branch = Lane::take(lane).expect("it was promoted");
                context::with_worker_frame(&thief, || drop(branch));
            });
        });
        send.send((owner.index(), ran_on)).unwrap();
        end(runtime, [owner, thief]);
    });
    assert_eq!(ran_on, [owner]);
}

#[test]
fn who_takes_back_what_was_shared_for_long_shares_the_next() {
    let runtime = runtime();
    // The other permit is taken, too: nobody but a helper asks.
    let (owner, busy) = (thread(&runtime), thread(&runtime));
    busy.found_work();
    let shared = runtime.handle().shared().clone();
    let lane = &shared.peer(owner.index()).queues.lane;
    let shares = || join(|| lane.has_shared(), || ()).0;
    context::with_worker_frame(&owner, || {
        shares();
        for (micros, far_apart) in [(99, false), (100, true), (99, false)] {
            lane.ask_as_helper();
            let first = || {
                assert!(lane.has_shared(), "somebody asked");
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
    let builder = Builder::new().workers(4).sysmon(false);
    let runtime = builder.build_with(Clock::stopped()).unwrap();
    let workers = [(); 4].map(|()| thread(&runtime));
    let [forks, searching @ .., computes] = &workers;
    computes.found_work();
    for worker in searching {
        assert!(worker.begin_search());
    }
    let shared = runtime.handle().shared().clone();
    assert_eq!(shared.could_take(), 2);
    let lane = shared.peer(forks.index()).queues.lane.clone();
    context::with_worker_frame(forks, || {
        lane.ask();
        let ((deepest, ()), ()) = join(|| join(|| join(|| lane.shared(), || ()).0, || ()), || ());
        assert_eq!(deepest, 2, "not one for each");
    });
    searching.iter().for_each(Sleeper::found_work);
    end(runtime, workers);
}

#[test]
fn a_search_takes_tasks_of_any_before_branches() {
    // In whatever order it comes to the two.
    for _ in 0..20 {
        let builder = Builder::new().workers(3).sysmon(false);
        let runtime = builder.build_with(Clock::stopped()).unwrap();
        let [forks, has_tasks, searches] = [(); 3].map(|()| thread(&runtime));
        context::with_worker_frame(&has_tasks, || (0..2).for_each(|_| drop(spawn(async {}))));
        let shared = runtime.handle().shared().clone();
        let lane = &shared.peer(forks.index()).queues.lane;
        THIEF.set(Some(searches));
        let search = || {
            assert!(lane.has_shared());
            let thief = THIEF.take().expect("it is here");
            let task = match step(&thief) {
                Step::Run(task) => task,
                other => panic!("a task waits: {other:?}"),
            };
            context::with_worker_frame(&thief, || thief.poll(task));
            THIEF.set(Some(thief));
        };
        context::with_worker_frame(&forks, || {
            lane.ask_as_helper();
            join(search, || ());
        });
        let searches = THIEF.take().expect("it is back");
        end(runtime, [forks, has_tasks, searches]);
    }
}

/// The search finds nothing in its four rounds, and its victim forks while it waits for that.
#[test]
fn a_branch_that_a_search_has_waited_for_is_in_the_log() {
    thread_local! {
        static WORKERS: RefCell<Option<(Worker, Worker)>> = const { RefCell::new(None) };
    }
    /// The victim forks once more after so many looks at it.
    fn forks_after(handle: Handle, looks: u32) {
        let waker = hook({
            let handle = handle.clone();
            move || match looks {
                0 => WORKERS.with_borrow(|workers| {
                    let (_, computer) = workers.as_ref().expect("they are there");
                    context::with_worker_frame(computer, || join(|| (), || ()));
                }),
                _ => forks_after(handle.clone(), looks - 1),
            }
        });
        let stage = handle.shared().threads.stage.as_ref();
        *stage.expect("its clock is virtual").before_claim.lock() = Some(waker);
    }
    let runtime = Builder::new()
        .workers(2)
        .sysmon(false)
        .stall_threshold(None)
        .events(100)
        .build_with(Clock::stopped())
        .unwrap();
    let (searcher, computer) = searcher_and_computer(&runtime);
    let (thief, victim) = (searcher.index(), computer.index());
    WORKERS.set(Some((searcher, computer)));
    let mut ran = false;
    WORKERS.with_borrow(|workers| {
        let (_, computer) = workers.as_ref().expect("they are there");
        let look = || {
            forks_after(runtime.handle().clone(), 4);
            WORKERS.with_borrow(|workers| {
                let (searcher, _) = workers.as_ref().expect("they are there");
                let found = step(searcher);
                // It goes back to its owner.
                assert!(matches!(found, Step::Branch(_)), "{found:?}");
            });
        };
        context::with_worker_frame(computer, || join(look, || ran = true));
    });
    assert!(ran);
    let events = runtime.handle().events();
    let stolen = events
        .iter()
        .filter(|it| it.kind == EventKind::BranchStolen);
    let stolen: Vec<_> = stolen.map(|it| (it.processor, it.number)).collect();
    assert_eq!(stolen, [(Some(thief), victim as u64)]);
    let (searcher, computer) = WORKERS.take().expect("they are there");
    end(runtime, [searcher, computer]);
}
