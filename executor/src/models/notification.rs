//! A notification: `notification.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `what_was_written_before_a_set_is_seen` | two threads write and set it, beside one that consumes it: it is set afterwards, or what both wrote was seen | 3 | 0.3 | `notification_set_looks_first`, `notification_set_relaxed`, `notification_take_relaxed` |

use super::both_ways::explore;
use crate::{
    notification::Notification,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

#[test]
fn what_was_written_before_a_set_is_seen() {
    explore(3, |turn| {
        let notification = Arc::new(Notification::default());
        let letters = Arc::new([(); 2].map(|()| AtomicU32::new(0)));
        let set = |at: usize| {
            let (notification, letters) = (notification.clone(), letters.clone());
            move || {
                letters[at].store(1, Relaxed);
                // The thread that consumes it does not sleep here.
                let _wakes = notification.set();
            }
        };
        let sets = [set(0), set(1)];
        let consumes = {
            let (notification, letters) = (notification.clone(), letters.clone());
            move || {
                let taken = notification.take();
                taken.then(|| letters.each_ref().map(|letter| letter.load(Relaxed)))
            }
        };
        let (seen, [(), ()]) = turn.race(consumes, sets);
        assert!(notification.is_set() || seen == Some([1, 1]));
    });
}
