//! What always happens in the end (L), and nobody at the cost of others (F): work is found, timers
//! fire, what blocks holds up nobody.

#[path = "../common/mod.rs"]
mod common;

mod a_greedy_task_yields;
mod a_hook_that_blocks_holds_up_nobody;
mod a_root_is_not_held_up;
mod a_stall_shows_where_it_is;
mod a_stuck_worker_holds_up_nobody;
mod a_timer_fires_while_its_waker_is_cloned;
mod a_waker_that_blocks_holds_up_nobody;
mod another_executor_inside_a_task;
mod block_on_runs_only_its_own;
mod block_on_runs_pinned_tasks;
mod blocking_calls_follow_each_other;
mod compute_does_not_hold_up_its_caller;
mod foreign_threads_sleep_too;
mod forks_do_not_hold_up_tasks;
mod global_queue_is_not_starved;
mod idle_threads_end;
mod queued_work_does_not_wait_beside_a_free_permit;
mod runnext_does_not_starve;
mod spawn_blocking_waits_for_room;
mod stalls_are_reported;
mod who_arms_is_heard;
