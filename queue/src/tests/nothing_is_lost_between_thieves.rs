//! S2, S5, I3, I10: however many thieves compete for a ring, each item goes to one of them or to
//! its owner, once, and shows what was written before its push; and of those that compete, one
//! succeeds.
//!
//! It fails when an exchange of the head in `queue/src/local.rs` becomes a store, and when `push`
//! writes into a slot that is not free. What only a weaker machine than this would show, the models
//! show (`models/queue.rs`).

use super::*;

/// Three thieves, each with a ring of its own that the others steal from as well, against an owner
/// that pushes, pops and overflows.
#[test]
fn nothing_is_lost_between_thieves() {
    let count = scaled(40_000);
    let mut source = Source::default();
    let ended = source.ended.clone();
    let (queue, stealer) = local_queue();
    let overflow = Arc::new(GlobalQueue::new());
    let owner_is_done = Arc::new(AtomicBool::new(false));
    let rings: Vec<_> = (0..3).map(|_| local_queue()).collect();
    let mut victims: Vec<_> = rings.iter().map(|(_, stealer)| stealer.clone()).collect();
    victims.push(stealer);
    let thieves: Vec<_> = rings
        .into_iter()
        .enumerate()
        .map(|(me, (own, _))| {
            let (mut victims, overflow) = (victims.clone(), overflow.clone());
            let owner_is_done = owner_is_done.clone();
            victims.remove(me);
            thread::spawn(move || {
                let mut taken = vec![];
                loop {
                    let last_round = owner_is_done.load(std::sync::atomic::Ordering::Acquire);
                    for victim in &victims {
                        if let Steal::Stolen { first, .. } = victim.steal_into(&own) {
                            taken.push(id(first));
                            // Leaves something for the others to steal.
                            taken.extend(own.pop().map(id));
                        }
                        own.drain(|job| taken.push(id(job)));
                    }
                    taken.extend(overflow.pop().map(id));
                    if last_round && overflow.is_empty() && victims.iter().all(Stealer::is_empty) {
                        return taken;
                    }
                }
            })
        })
        .collect();
    let mut taken = vec![];
    for round in 0..count {
        if let Err(batch) = queue.push(source.next()) {
            overflow.push_batch(batch);
        }
        if round % 3 == 0 {
            taken.extend(queue.pop().map(id));
        }
    }
    owner_is_done.store(true, std::sync::atomic::Ordering::Release);
    taken.extend(std::iter::from_fn(|| queue.pop()).map(id));
    for thief in thieves {
        taken.extend(thief.join().expect("a thief does not panic"));
    }
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..count), "S2: each exactly once");
    assert_eq!(ended.load(Relaxed), count);
}

/// S5: somebody gets on. All steal from one ring that nobody else touches: every try of a round
/// that finds the ring busy means that another one has taken something.
#[test]
fn of_those_that_compete_one_succeeds() {
    const THIEVES: usize = 4;
    for _ in 0..scaled(200) {
        let mut source = Source::default();
        let (queue, stealer) = local_queue();
        queue.push_batch(&mut source.take(CAPACITY as usize).into_iter());
        let start = Arc::new(Barrier::new(THIEVES));
        let thieves: Vec<_> = (0..THIEVES)
            .map(|_| {
                let (stealer, start) = (stealer.clone(), start.clone());
                thread::spawn(move || {
                    let (own, _) = local_queue();
                    let (mut steals, mut busy) = (0, 0);
                    start.wait();
                    loop {
                        match stealer.steal_into(&own) {
                            Steal::Empty => return (steals, busy),
                            Steal::Busy => busy += 1,
                            Steal::Stolen { .. } => {
                                own.drain(drop);
                                steals += 1;
                            }
                        }
                    }
                })
            })
            .collect();
        let (mut steals, mut busy) = (0, 0);
        for thief in thieves {
            let (more, in_vain) = thief.join().expect("a thief does not panic");
            steals += more;
            busy += in_vain;
        }
        // 128, 64, and so on to 1, and the last one: nine steals empty a full ring, whoever makes
        // them.
        assert_eq!(steals, 9);
        assert!(busy <= steals * (THIEVES - 1), "{busy} tries in vain");
        assert_eq!(source.ended(), source.made);
    }
}
