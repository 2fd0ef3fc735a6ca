//! S4: the owner's push into a ring with room is done at its first try, whatever thieves do meanwhile.
//!
//! It fails when `try_push` in `queue/local.rs` gives an item back although there is room, or counts room by a head that
//! no thief has moved since (`room_for` then says that the ring is full when it is empty).

use super::*;

#[test]
fn beside_thieves() {
    let count = scaled(100_000);
    let mut source = Source::default();
    let (queue, stealer) = local_queue();
    let done = Arc::new(AtomicBool::new(false));
    let thieves: Vec<_> = (0..3)
        .map(|_| {
            let (stealer, done) = (stealer.clone(), done.clone());
            thread::spawn(move || {
                let (own, _) = local_queue();
                while !done.load(Relaxed) {
                    if let Steal::Stolen { first, .. } = stealer.steal_into(&own) {
                        drop(first);
                        own.drain(drop);
                    }
                }
            })
        })
        .collect();
    for _ in 0..count {
        // The owner alone fills it, so room that is there stays.
        if queue.len() < CAPACITY as usize {
            assert!(queue.try_push(source.next()).is_ok(), "there was room");
        } else {
            drop(queue.pop());
        }
    }
    done.store(true, Relaxed);
    for thief in thieves {
        thief.join().expect("a thief does not panic");
    }
    drop((queue, stealer));
    assert_eq!(source.ended(), source.made);
}

/// Thieves that have taken all leave room for a whole ring, which the owner notices by itself.
#[test]
fn into_a_ring_that_thieves_have_emptied() {
    let mut source = Source::default();
    let (queue, stealer) = local_queue();
    let (thief, _) = local_queue();
    for _ in 0..10 {
        for _ in 0..CAPACITY {
            assert!(queue.try_push(source.next()).is_ok());
        }
        assert!(queue.try_push(source.next()).is_err(), "it is full");
        while let Steal::Stolen { .. } = stealer.steal_into(&thief) {
            thief.drain(drop);
        }
    }
    assert_eq!(source.ended(), source.made);
}
