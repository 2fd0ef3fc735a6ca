//! How a runtime ends (S7, S8): in phases, whatever goes on meanwhile, and with everything dropped.

#[path = "../common/mod.rs"]
mod common;

mod a_blocking_call_does_not_hold_up_the_end;
mod shutdown_bears_what_goes_on;
mod shutdown_drops_everything;
mod the_end_has_phases;
