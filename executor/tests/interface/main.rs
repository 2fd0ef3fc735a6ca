//! What users call, beside the order of things: builders, handles, hooks, dumps, task locals.

#[path = "../common/mod.rs"]
mod common;

mod a_dump_shows_where_tasks_wait;
mod a_local_set_runs_where_it_is_polled;
mod a_task_has_an_account;
mod a_task_knows_who_it_is;
mod a_thousand_workers;
mod an_idle_task_says_what_it_waits_for;
mod builder_refuses_wrong_knobs;
mod dump_shows_what_is_alive;
mod hooks_run_once_per_thread;
mod join_set_joins_as_they_end;
mod lost_tasks_are_found;
mod runtimes_in_statics;
mod snapshots_are_written_when_it_goes_wrong;
mod task_local_follows_its_task;
mod the_recorder_tells_what_was;
mod threads_are_as_their_builder_was;
mod workers_fit_the_quota;
