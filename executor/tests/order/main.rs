//! What comes before what: priorities (O), fork and join (J), the seeded order and the clock of a
//! paused runtime.

#[path = "../common/mod.rs"]
mod common;

mod a_scope_is_flat;
mod a_seed_draws_the_order;
mod fib_4_as_the_log_tells_it;
mod fork_runs_the_child_first;
mod join_ends_after_its_branches;
mod join_keeps_its_order;
mod join_meets_no_stranger;
mod join_needs_little_stack;
mod join_runs_anywhere;
mod lowest_priority_moves;
mod priorities_order_the_queue;
mod priority_survives_every_move;
mod scope_ends_after_its_branches;
mod virtual_time;
