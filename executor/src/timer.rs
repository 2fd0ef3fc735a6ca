//! Timers: which waker is to be woken, and when. They know wakers, and no task.
//!
//! From the inside out: `heap` orders the timers of one P, `shard` puts it behind a lock and tells
//! the netpoll of earlier deadlines, `clock` says what time it is, really or virtually. The futures
//! that users hold are in `time/`.

pub(crate) mod clock;
pub(crate) mod heap;
pub(crate) mod shard;
#[cfg(test)]
pub(crate) mod test_util;

pub(crate) use self::{
    clock::Clock,
    heap::NEVER,
    shard::{ShutDown, TimeDriver, TimerHandle, TimerShard},
};
