//! I8: what is in `runnext` goes to its owner, or to one thief that has seen it stay there: a thief
//! shows what it has seen before, and gets nothing if the owner has moved on meanwhile.
//!
//! It fails when `steal` in `queue/src/runnext.rs` takes whatever is there.

use super::*;

#[test]
fn a_slot_has_one_owner_and_shows_what_was_seen() {
    let mut source = Source::default();
    let (slot, thief) = run_next();
    assert!(slot.is_empty() && thief.peek().is_none());
    assert!(slot.put(source.next()).is_none());
    let before = thief.peek().expect("it is full");
    assert_eq!(slot.put(source.next()).map(id), Some(0), "displaced");
    assert!(thief.steal(before).is_none(), "the victim has moved on");
    let now = thief.peek().expect("it is full");
    assert_eq!(thief.steal(now).map(id), Some(1));
    assert!(slot.take().is_none());
    assert!(slot.put(source.next()).is_none());
    drop((slot, thief));
    assert_eq!(source.ended(), source.made);
}

/// An owner that puts, displaces and takes, against two thieves: each item comes out once (S2).
#[test]
fn under_real_threads() {
    let count = scaled(40_000);
    let mut source = Source::default();
    let ended = source.ended.clone();
    let (slot, thief) = run_next();
    let done = Arc::new(AtomicBool::new(false));
    let thieves: Vec<_> = (0..2)
        .map(|_| {
            let (thief, done) = (thief.clone(), done.clone());
            thread::spawn(move || {
                let mut stolen = Vec::new();
                while !done.load(std::sync::atomic::Ordering::Acquire) {
                    if let Some(token) = thief.peek() {
                        stolen.extend(thief.steal(token).map(id));
                    }
                }
                stolen
            })
        })
        .collect();
    let mut own = Vec::new();
    for round in 0..count {
        own.extend(slot.put(source.next()).map(id));
        if round % 3 == 0 {
            own.extend(slot.take().map(id));
        }
    }
    own.extend(slot.take().map(id));
    done.store(true, std::sync::atomic::Ordering::Release);
    for thief in thieves {
        own.extend(thief.join().expect("a thief does not panic"));
    }
    own.sort_unstable();
    assert!(own.into_iter().eq(0..count), "each exactly once");
    assert_eq!(ended.load(Relaxed), count);
}
