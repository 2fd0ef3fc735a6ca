//! What the system refuses, and the runtime does without (`ws_reactor::Facility`): it is told once
//! in the life of a process, by the runtime that comes by first.
//!
//! A runtime comes by at the end of its build, and at each look of its monitor. So what is refused
//! later on is told as well. A look costs two loads.
//!
//! *It is not lost.* Where stderr is full, the words go back, and the next look tries again. Each
//! try begins with a look at stderr, for to tell is an event of `tracing` as well, and a log may
//! have that already. Until there is room, a look of the monitor costs a `poll` more.
//!
//! Rejected: to tell it at the place of the refusal. Those are in the reactor, which knows nobody
//! to tell, and some are in the middle of a wake.
//!
//! Checked by `tests/small_machines`.

use ws_reactor::Refusal;

use super::Shared;

impl Shared {
    /// Tells what was refused since that was told last.
    pub(crate) fn tell_refusals(&self) {
        // A runtime with a clock of its own does not depend on the machine, and one that nobody
        // hears must not take the words from the next one.
        if self.time.clock().is_virtual() || !self.telling.reports.are_heard() {
            return;
        }
        let new = ws_reactor::untold_refusals();
        if new.is_empty() {
            return;
        }
        if !self.telling.reports.has_room() || !self.tell_of(&new) {
            ws_reactor::untell(&new);
        }
    }

    /// False if there was no room for it.
    fn tell_of(&self, new: &[Refusal]) -> bool {
        let new: Vec<_> = new.iter().map(ToString::to_string).collect();
        let refusals = new.join("; ");
        let event = || {
            tracing::warn!(
                refusals,
                "the system refuses what the runtime can do without"
            )
        };
        self.telling.reports.tell_limited(
            event,
            format_args!("the system refuses what the runtime can do without: {refusals}"),
        )
    }
}
