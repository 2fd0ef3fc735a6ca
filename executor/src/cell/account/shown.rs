//! What users see of an account.

use std::time::Duration;

/// What a task did so far. See [`TaskDump`](crate::runtime::TaskDump).
///
/// At the recorder's level [`Full`](crate::trace::Level::Full) each poll is measured, otherwise
/// about one in 128, and `measured_polls` says how many that were. At level
/// [`Off`](crate::trace::Level::Off), and without a
/// [recorder](crate::runtime::Builder::recorder), none is.
///
/// ```
/// use ws::task::yield_now;
///
/// # let runtime = ws::runtime::Builder::new().workers(1).build().unwrap();
/// let task = runtime.spawn(async {
///     yield_now().await;
///     std::future::pending::<()>().await
/// });
/// runtime.block_on(async { yield_now().await });
/// # while runtime.handle().dump()[0].account.polls < 2 { std::thread::yield_now(); }
/// let account = runtime.handle().dump()[0].account;
/// assert_eq!((account.polls, account.wakes), (2, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskAccount {
    /// Polls, the one that runs included. The drop of a future that was aborted counts as one.
    pub polls: u64,
    /// Wakes. A wake of a task that is queued already counts, too, and so does an abort. Of more
    /// than 134 million wakes before one poll not all are counted.
    pub wakes: u64,
    /// How often a poll was on another P than the poll before it, or than the spawn. Of more than
    /// 8,191 Ps some count as one.
    pub moves: u32,
    /// Since when it is idle: how long ago its last poll ended, to about 10 ms. Without the monitor
    /// ([`Builder::sysmon`](crate::runtime::Builder::sysmon)) the time of that poll, and of others
    /// that its worker has polled just before, may be included. After 49 days it counts from zero
    /// again. `None` if it is not idle.
    pub idle_for: Option<Duration>,
    /// How many of the polls were measured.
    pub measured_polls: u32,
    /// How long these took together.
    pub measured_busy: Duration,
    /// The longest poll: of those that were measured, and of those that the monitor sees. It sees
    /// one that lasts longer than the time from one of its looks to the next, 1 to 10 ms, and
    /// mostly sees it shorter than it is by up to that time. On a busy machine it may see one
    /// longer: by the time for which the thread waits for a core when the poll is about to begin,
    /// or has just ended. An announced block
    /// ([`block_in_place`](crate::block_in_place())) is no part of a poll that was measured. If the
    /// monitor looks meanwhile, it sees two polls, before the block and after it.
    pub longest_poll: Duration,
    /// The longest time from a wake to the poll that followed, of those that were timed: the next
    /// wake after a measured poll is, if that poll left the task idle.
    pub longest_wait: Duration,
}

impl TaskAccount {
    /// How long it was polled altogether. If not all polls were measured, it is an estimate, which
    /// may be far off: as if the others had taken as long as those. Zero if none was measured.
    pub fn busy(&self) -> Duration {
        let measured = u128::from(self.measured_polls.max(1));
        let ns = self.measured_busy.as_nanos() * u128::from(self.polls) / measured;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// ```
/// let account = ws::runtime::TaskAccount::default();
/// assert_eq!(account.to_string(), "0 polls, 0 wakes, 0 moves");
/// ```
impl std::fmt::Display for TaskAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} polls, {} wakes, {} moves",
            self.polls, self.wakes, self.moves
        )?;
        if let Some(idle_for) = self.idle_for {
            write!(f, ", idle for {idle_for:?}")?;
        }
        if self.measured_polls > 0 {
            write!(
                f,
                ", busy {:?} ({} polls measured), longest wait {:?}",
                self.busy(),
                self.measured_polls,
                self.longest_wait
            )?;
        }
        if self.longest_poll > Duration::ZERO {
            write!(f, ", longest poll {:?}", self.longest_poll)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_knows() {
        let ms = Duration::from_millis;
        let mut account = TaskAccount {
            polls: 10,
            wakes: 9,
            moves: 3,
            ..TaskAccount::default()
        };
        assert_eq!(account.to_string(), "10 polls, 9 wakes, 3 moves");
        account.idle_for = Some(ms(70));
        account.longest_poll = ms(6);
        let long = "10 polls, 9 wakes, 3 moves, idle for 70ms, longest poll 6ms";
        assert_eq!(account.to_string(), long);
        account.measured_polls = 2;
        account.measured_busy = ms(4);
        account.longest_wait = ms(5);
        let all = "10 polls, 9 wakes, 3 moves, idle for 70ms, busy 20ms (2 polls measured), \
                   longest wait 5ms, longest poll 6ms";
        assert_eq!(account.to_string(), all);
    }
}
