//! How many tasks of a queue for all a worker takes.

use super::constants::{EXCHANGE_FEW, FILLS_TO, SHARE_MAX};

/// The global queue, or the shared ordered one, as a worker sees it that asks for its part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Tasks in it.
    pub(crate) tasks: usize,
    /// Permits of the runtime.
    pub(crate) workers: usize,
}

impl Waiting {
    /// The fair share of a worker whose queue has `room`: at least one, to run.
    #[inline]
    pub(crate) fn fair_share(self, room: usize) -> usize {
        (self.tasks / self.workers + 1).min(room).max(1)
    }

    /// The same of the shared ordered queue.
    pub(crate) fn fair_share_in_order(self, room: usize) -> usize {
        self.fair_share(room).min(SHARE_MAX)
    }

    /// Whether a worker with `local` tasks has less than its share. If so, it takes what it would
    /// take if it had nothing: one task in so many ticks is little if many wait. Measured with four
    /// tasks that always want to go on for 10 us each: 10,000 new ones took 23 us each without
    /// this, and 0.44 us with it (tokio 0.43). If half a queue is there already, that has its turn
    /// first.
    #[inline]
    pub(crate) fn is_share_above(self, local: usize) -> bool {
        local < (self.tasks / self.workers).min(FILLS_TO)
    }

    /// How many tasks *the exchange* takes for a queue with `local` tasks and `room` for more. If
    /// there is room for its share, the looks for all fill it. A few tasks have their turn sooner
    /// by them.
    pub(crate) fn exchanged(self, at_most: usize, local: usize, room: usize) -> Option<usize> {
        let share = self.tasks.div_ceil(self.workers).min(at_most);
        let is_filled = self.tasks <= local && share <= room;
        (!is_filled && self.tasks > EXCHANGE_FEW).then_some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(tasks: usize, workers: usize) -> Waiting {
        Waiting { tasks, workers }
    }

    #[test]
    fn a_fair_share_fits_and_is_one_at_least() {
        for (tasks, workers, room, share) in [
            (1, 4, 256, 1),
            (8, 4, 256, 3),
            (8, 4, 2, 2),
            (8, 4, 0, 1),
            (10_000, 2, 128, 128),
        ] {
            let waiting = waiting(tasks, workers);
            assert_eq!(waiting.fair_share(room), share);
            assert_eq!(waiting.fair_share_in_order(room), share.min(64));
        }
    }

    #[test]
    fn half_a_queue_is_no_less_than_its_share() {
        for (tasks, local, is_above) in [
            (1, 0, false),
            (2, 0, true),
            (20, 9, true),
            (20, 10, false),
            (10_000, 127, true),
            (10_000, 128, false),
        ] {
            assert_eq!(waiting(tasks, 2).is_share_above(local), is_above);
        }
    }

    #[test]
    fn a_share_is_exchanged_where_there_is_no_room_for_it() {
        for (tasks, at_most, local, room, taken) in [
            (4, 128, 256, 0, None),
            (5, 128, 256, 0, Some(3)),
            (8, 128, 246, 10, None),
            (40, 128, 246, 10, Some(20)),
            // More wait than are here: they have their turn, room or not.
            (8, 128, 7, 249, Some(4)),
            (1000, 128, 256, 0, Some(128)),
            (1000, 256, 256, 0, Some(256)),
        ] {
            let exchanged = waiting(tasks, 2).exchanged(at_most, local, room);
            assert_eq!(exchanged, taken, "{tasks} {at_most} {local} {room}");
        }
    }
}
