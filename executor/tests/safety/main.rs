//! What must never happen (S, I), and what every task may rely on (H): nothing lost, nothing twice,
//! nothing on a wrong thread.

#[path = "../common/mod.rs"]
mod common;

mod a_full_local_queue_gives_half_away;
mod a_lock_across_a_block_and_a_join;
mod a_recording_beside_writers_is_whole;
mod a_task_goes_where_its_reason_says;
mod abort_drops_on_a_worker;
mod block_in_place_works_anywhere;
mod blocking_where_a_thread_sleeps;
mod panic_stays_in_its_task;
mod parallel_programs_end_as_they_should;
mod permits_are_never_lost_or_doubled;
mod pinned_tasks_stay_on_their_thread;
mod random_forks_do_what_they_say;
mod random_programs_do_what_they_say;
mod stress;
mod user_code_runs_under_no_lock;
