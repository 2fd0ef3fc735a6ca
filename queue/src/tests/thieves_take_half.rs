//! I4: a thief takes half of a ring, rounded up, the oldest first, and all of it at once; 128 tasks
//! at most.
//!
//! It fails when `steal_into` in `queue/src/local.rs` rounds down, or takes from the back.

use super::*;

#[test]
fn half_is_rounded_up() {
    // As it is written.
    for (len, stolen) in [(0, 0), (1, 1), (2, 1), (3, 2), (256, 128)] {
        let mut source = Source::default();
        let (queue, stealer) = local_queue();
        let (thief, _) = local_queue();
        queue.push_batch(&mut source.take(len).into_iter());
        let count = match stealer.steal_into(&thief) {
            Steal::Empty => 0,
            Steal::Busy => panic!("nobody else is there"),
            Steal::Stolen { count, .. } => count,
        };
        assert_eq!(count, stolen);
        assert_eq!(thief.len(), stolen.saturating_sub(1));
        assert_eq!(queue.len(), len - stolen);
    }
}

/// Of every length, and at every place in the ring, since the ring moves on by each of them.
#[test]
fn wherever_the_ring_begins() {
    let (queue, stealer) = local_queue();
    let (thief, _) = local_queue();
    let mut source = Source::default();
    for len in (0..=CAPACITY as usize).cycle().take(1000) {
        let first = source.made;
        assert_eq!(queue.push_batch(&mut source.take(len).into_iter()), len);
        let mut stolen = Vec::new();
        if let Steal::Stolen { first, count } = stealer.steal_into(&thief) {
            stolen.push(id(first));
            thief.drain(|job| stolen.push(id(job)));
            assert_eq!(count, stolen.len());
        }
        assert!(stolen.len() <= 128);
        let half = first + len.div_ceil(2);
        assert_eq!(stolen, (first..half).collect::<Vec<_>>());
        let mut left = Vec::new();
        queue.drain(|job| left.push(id(job)));
        assert_eq!(left, (half..first + len).collect::<Vec<_>>());
    }
    assert_eq!(source.ended(), source.made);
}
