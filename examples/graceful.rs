//! An end with a deadline: on Ctrl-C no new work is taken, what runs may finish, and what takes too
//! long is aborted.
//!
//! ```text
//! cargo run --example graceful
//! ```
//!
//! The work here is jobs of different length, one every 100 ms. With a second Ctrl-C, or after
//! three seconds, those that still run are aborted: their futures are dropped at the await they
//! stand at.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::{io, pin::pin, time::Duration};

use futures::future::{Either, select};
use ws::{
    signal,
    task::{JoinError, JoinSet},
    time::{interval, sleep, timeout},
};

const DEADLINE: Duration = Duration::from_secs(3);

#[ws::main]
async fn main() -> io::Result<()> {
    let mut jobs = JoinSet::new();
    let mut ticks = interval(Duration::from_millis(100));
    let mut stop = pin!(signal::ctrl_c());
    println!("working; Ctrl-C ends it");
    for number in 0_u64.. {
        match select(stop.as_mut(), pin!(ticks.tick())).await {
            Either::Left((stopped, _)) => {
                stopped?;
                break;
            }
            Either::Right(_) => {
                jobs.spawn(job(number));
                // Those that are done are taken out, so that the set does not grow for ever.
                while let Some(joined) = jobs.try_join_next() {
                    tell(joined);
                }
            }
        }
    }

    println!("\ndraining {} jobs, {DEADLINE:?} at most", jobs.len());
    match select(
        pin!(signal::ctrl_c()),
        pin!(timeout(DEADLINE, drain(&mut jobs))),
    )
    .await
    {
        Either::Right((Ok(()), _)) => {}
        Either::Right((Err(_), _)) => println!("the time is over"),
        Either::Left((stopped, _)) => stopped?,
    }
    println!("aborting {} jobs", jobs.len());
    jobs.shutdown().await;
    Ok(())
}

/// Waits for every job.
async fn drain(jobs: &mut JoinSet<u64>) {
    while let Some(joined) = jobs.join_next().await {
        tell(joined);
    }
}

fn tell(joined: Result<u64, JoinError>) {
    match joined {
        Ok(number) => println!("job {number} is done"),
        Err(error) => println!("{error}"),
    }
}

/// Takes up to five seconds.
async fn job(number: u64) -> u64 {
    sleep(Duration::from_millis(number * 997 % 5000)).await;
    number
}
