//! Sockets, descriptors and copies as users meet them.
//!
//! What is about Unix alone is left out on Windows.

#[path = "../net_support/mod.rs"]
mod net_support;

#[cfg(unix)]
mod a_fifo_that_is_opened_again_waits;
mod a_server_bounds_its_connections;
#[cfg(unix)]
mod accept_survives_a_full_fd_table;
#[cfg(unix)]
mod async_fd_wakes_every_waiter;
mod cancelled_io_loses_nothing;
#[cfg(unix)]
mod clones_are_one_socket;
mod copy_carries_every_byte;
#[cfg(unix)]
mod retries_end_with_their_runtime;
mod sockets_outlive_their_runtime;
mod sockets_serve_any_thread;
mod tcp_carries_every_byte;
mod tcp_ends_are_told;
mod tcp_options_reach_the_socket;
mod udp_datagrams_arrive_whole;
#[cfg(unix)]
mod unix_sockets_carry_everything;
