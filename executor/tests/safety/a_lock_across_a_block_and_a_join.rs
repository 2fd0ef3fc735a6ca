//! L1, without the monitor: a poll that holds a lock across `block_in_place`, and so lost its
//! permit, comes to its end although it forks meanwhile and the holder of the permit waits for the
//! lock. With the monitor, the permit is taken from the thread that waits.
//!
//! It fails by a hang when *Give way at a fork* waits for a permit where no monitor is.

use crate::common;

use std::sync::{Arc, Mutex};

use common::Gate;
use ws_executor::runtime::{Builder, Sysmon};

common::with_workers! {
    fn with_sysmon_and_without(workers: usize) {
        for sysmon in [Sysmon::On, Sysmon::Off] {
            let runtime = Builder::new().workers(workers).sysmon(sysmon).build().unwrap();
            let lock = Arc::new(Mutex::new(0));
            let (held, wanted) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
            let holder = runtime.spawn({
                let (lock, held, wanted) = (lock.clone(), held.clone(), wanted.clone());
                async move {
                    let mut count = lock.lock().unwrap();
                    held.open();
                    ws_executor::block_in_place(|| wanted.pass());
                    let (a, b) = ws_executor::join(|| 1, || 2);
                    *count += a + b;
                }
            });
            held.pass();
            // As many as take all permits.
            let waiters: Vec<_> = (0..workers)
                .map(|_| {
                    let (lock, wanted) = (lock.clone(), wanted.clone());
                    runtime.spawn(async move {
                        wanted.open();
                        *lock.lock().unwrap() += 1;
                    })
                })
                .collect();
            runtime.block_on(async {
                holder.await.unwrap();
                for waiter in waiters {
                    waiter.await.unwrap();
                }
            });
            assert_eq!(*lock.lock().unwrap(), 3 + workers);
        }
    }
}
