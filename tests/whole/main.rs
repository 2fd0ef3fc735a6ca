//! The runtime as a whole: macros, the netpoll beside computations, virtual time, budgets.
//!
//! What uses Unix sockets or signals is left out on Windows.

#[path = "../net_support/mod.rs"]
mod net_support;

#[cfg(unix)]
mod a_waker_that_blocks_holds_up_no_socket;
mod macros_under_the_harness;
#[cfg(unix)]
mod netpoll_is_never_starved;
mod parallel_iterators_run_on_the_workers;
#[cfg(unix)]
mod somebody_waits_in_the_netpoll;
#[cfg(unix)]
mod timers_fire_beside_busy_workers;
mod virtual_time_at_work;
mod what_is_always_ready_gives_way;
