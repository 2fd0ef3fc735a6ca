//! The netpoll on the system's own poller.

#[path = "../common/mod.rs"]
mod common;

#[cfg(unix)]
mod fd_table_full;
mod interrupt_is_never_lost;
mod readiness_is_never_lost;
mod second_look_sees_what_came;
mod short_transfers;
mod shutdown_wakes_everybody;
mod timer_is_never_early;
