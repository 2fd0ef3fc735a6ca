//! I3, S4: the owner's push into a ring with room is done at its first try, whatever thieves do
//! meanwhile.
//!
//! It fails when `try_push` in `queue/src/local.rs` gives an item back although there is room, or
//! counts room by a head that no thief has moved since (`room_for` then says that the ring is full
//! when it is empty). The last test fails when `is_full` is true of a ring with room for one (I3).

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

/// All its slots are filled, at each place where a ring may begin, before it is full.
#[test]
fn into_the_last_slot() {
    let mut source = Source::default();
    let (queue, _) = local_queue();
    for begin in 0..=CAPACITY as usize {
        for len in 0..256 {
            assert!(!queue.is_full(), "{len} in a ring that began at {begin}");
            assert_eq!(queue.room(), 256 - len);
            assert!(queue.push(source.next()).is_ok(), "it overflows");
        }
        assert!(queue.is_full() && queue.room() == 0);
        assert_eq!(queue.len(), 256);
        assert!(queue.try_push(source.next()).is_err());
        queue.drain(drop);
        // So the next one begins a slot further on.
        assert!(queue.push(source.next()).is_ok());
        assert!(queue.pop().is_some());
    }
    assert_eq!(source.ended(), source.made);
}
