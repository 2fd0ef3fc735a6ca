//! tokio-util's `DelayQueue`.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio_util::time::DelayQueue;

use crate::{
    Result,
    measure::{Numbers, Times, cpu},
};

const ENTRIES: u32 = 100_000;

/// The entries are due evenly over the time, and inserted out of order. The percentiles say how
/// late they came. The operations per second are given, unless the queue lags.
pub async fn delay_queue(length: Duration) -> Result<Numbers> {
    // In a task: there timers are a worker's.
    tokio::spawn(async move {
        let (began, before) = (Instant::now(), cpu());
        let mut queue = DelayQueue::new();
        for entry in 0..ENTRIES {
            // The factor has no divisor in common with the number of entries.
            let place = (u64::from(entry) * 61_803 % u64::from(ENTRIES)) as u32;
            let due = began + length * (place + 1) / ENTRIES;
            queue.insert_at(due, due.into());
        }
        let mut times = Times::default();
        while let Some(entry) = queue.next().await {
            times.add(entry.into_inner().elapsed());
        }
        Numbers::of(&times, began.elapsed(), cpu() - before)
    })
    .await?
}
