//! Asker and handlers: *The request* in `slot.rs`.
//!
//! | model | shows | bound | seconds | mutants that fail it |
//! | --- | --- | --- | --- | --- |
//! | `a_late_handler_serves_no_other_thread` | an answer is that of the thread that was asked, whatever a late handler does, and the value has one owner at a time | 3 | 4 | `slot_*`, but the one below |
//! | `a_late_handler_serves_no_other_request` | the same if both requests are to one thread | 3 | 0.3 | `slot_give_up_stores` |
//!
//! The asker gives up as soon as it has looked once, so it meets handlers in each phase.

use super::both_ways::explore;
use crate::{
    slot::{Answer, Slot},
    sync::Arc,
};

/// Asks, and looks once. What the handler has made of the value, if it is through.
#[expect(unsafe_code, reason = "the model is the only asker")]
fn ask_once(slot: &Slot<u32>, thread: u32, value: u32) -> Option<u32> {
    // SAFETY: the model has one asker.
    if !unsafe { slot.ask(thread, |place| *place = value) } {
        return None;
    }
    match slot.answer() {
        Answer::None(word) => {
            slot.give_up(word);
            None
        }
        Answer::Begun(_) => None,
        // SAFETY: as above, and the answer is there.
        Answer::Done => Some(unsafe { slot.take(|value| *value) }),
    }
}

/// The handler of a thread adds its number.
fn serve(slot: Arc<Slot<u32>>, thread: u32) -> impl FnOnce() + 'static {
    move || _ = slot.serve(thread, |value| *value += thread)
}

#[test]
fn a_late_handler_serves_no_other_thread() {
    explore(3, |turn| {
        let slot = Arc::new(Slot::new(0));
        let handlers = [serve(slot.clone(), 1), serve(slot.clone(), 2)];
        let asks = move || {
            let first = ask_once(&slot, 1, 10);
            assert!(matches!(first, None | Some(11)), "{first:?}");
            let second = ask_once(&slot, 2, 20);
            assert!(matches!(second, None | Some(22)), "{second:?}");
        };
        turn.race(asks, handlers);
    });
}

#[test]
fn a_late_handler_serves_no_other_request() {
    explore(3, |turn| {
        let slot = Arc::new(Slot::new(0));
        let handled = slot.clone();
        // On one thread, one after the other.
        let handler = move || {
            serve(handled.clone(), 1)();
            serve(handled, 1)();
        };
        let asks = move || {
            for value in [10, 20] {
                let answer = ask_once(&slot, 1, value);
                assert!(
                    answer.is_none_or(|answer| answer == value + 1),
                    "{answer:?}"
                );
            }
        };
        turn.race(asks, [handler]);
    });
}
