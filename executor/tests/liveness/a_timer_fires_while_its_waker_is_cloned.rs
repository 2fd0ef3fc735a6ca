//! F6, S8: a waker is cloned while no lock is held, so its timer may fire in the middle of that, or
//! its runtime may end. The poll that clones it looks once more, and is ready, or panics as any
//! later one would: it does not wait for ever.
//!
//! The first fails when `TimerShard::poll` takes the look before the clone for an answer, or keeps
//! the waker of a timer that has fired; the second when it does not ask for the end once more.

use crate::common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use common::{Gate, Hook, limited, runtime};
use ws_executor::time::{self, Sleep};

/// Opens a gate when it is woken.
struct Opens(Gate);

impl Wake for Opens {
    fn wake(self: Arc<Self>) {
        self.0.open();
    }
}

fn poll(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

common::with_workers! {
    fn it_is_ready_then(workers: usize) {
        let runtime = runtime(workers);
        let _entered = runtime.enter();
        // Short for a test; but it must not have fired before the second poll.
        for ms in [1, 10, 100, 1000, 10_000] {
            let fired = Arc::new(Opens(Gate::default()));
            let mut sleep = time::sleep(Duration::from_millis(ms));
            if poll(&mut sleep, &fired.clone().into()).is_ready() {
                continue;
            }
            let (hook, waker) = Hook::new(move || fired.0.pass(), || ());
            let polled = poll(&mut sleep, &waker);
            assert!(polled.is_ready(), "it has fired, before the clone or in it");
            assert_eq!(hook.wakes(), 0);
            if hook.is_cloned() {
                return;
            }
        }
        panic!("this machine takes ten seconds from one poll to the next");
    }

    fn it_panics_where_the_runtime_has_ended(workers: usize) {
        let runtime = runtime(workers);
        let entered = runtime.enter();
        let mut sleep = time::sleep(Duration::from_secs(3600));
        drop(entered);
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
        let (hook, waker) = Hook::new(move || drop(runtime), || ());
        let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, &waker)));
        assert!(polled.is_err(), "it can never fire");
        assert!(hook.is_cloned());
    }
}

#[test]
fn a_waker_that_is_cloned_in_vain_is_dropped() {
    limited(|| {
        let runtime = runtime(1);
        let _entered = runtime.enter();
        let mut sleep = time::sleep(Duration::from_secs(3600));
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
        let (hook, waker) = Hook::new(|| (), || ());
        assert!(poll(&mut sleep, &waker).is_pending());
        assert!(hook.is_cloned(), "it waits with this one now");
        assert_eq!(Arc::strong_count(&hook), 3);
        drop(sleep);
        assert_eq!(Arc::strong_count(&hook), 2, "the timer has given it back");
    });
}
