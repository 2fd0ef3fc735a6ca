//! The numbers of the policy, in one table: what each counts, and where it comes from.
//!
//! "Free" says that a quarter of the number and four times as much make no difference in any row of
//! the benchmarks (`docs/decisions/2026-11-30-guessed-numbers.md`). "Guessed" says that it makes
//! one, or that no row would show it, and that the best number is not known.
//!
//! Where a guarantee names a number of these, it says so as a bound (L4, F4, O4): with others the
//! bound would be another, and nothing would be lost. Most of the decisions that use them are
//! beside this file. A size that a mechanism is built on, such as the room of a local queue, is not
//! here.

use std::time::Duration;

use super::Limits;

// --- what is due at a tick of a worker: `tick.rs` ---

/// The most ticks from one look at what is for all to the next (L4). As in Go: a prime, so that it
/// does not fall into step with a program's own period.
pub(crate) const GLOBAL_TICK: u64 = 61;
/// The fewest ticks from one look to the next. Guessed: local tasks keep the larger part. Odd, so
/// that it does not fall into step with [`TIMER_TICK`].
pub(crate) const SLOW_TICK: u64 = 5;
/// Time from one look to the next, if that is between so many ticks. tokio aims at 200 us; half of
/// it, since the slice of `runnext` beside a queue ([`NEXT_SLICE`]) is over at a look.
pub(crate) const LOOK_PERIOD: Duration = Duration::from_micros(100);
/// Ticks that took longer count less with each look, in the number of ticks to the next one: by the
/// part that the look is of this time. Guessed: five looks, after which a third is left. 128 tasks
/// that end at once take 15 us, and say nothing of the polls that come after them.
pub(crate) const LOOK_MEMORY: Duration = Duration::from_micros(500);
/// Ticks between two looks at the timers of the own P while there is local work. Guessed: a clock
/// reading costs about a poll. At such a tick the local queue comes before the fork deque, too.
pub(crate) const TIMER_TICK: u64 = 16;
/// Ticks between two polls that are measured: this many at least, and up to twice as many more.
/// Free: two readings of the clock in 128 polls are an eighth of a nanosecond for each.
pub(crate) const SAMPLE_TICKS: u64 = 64;
/// One steal of so many is timed, the first one of a P too. Free: to time each took 9 % of a
/// steal's instructions.
pub(crate) const STEALS_TO_A_TIMED_ONE: u64 = 8;
/// Ticks between two turns of *the exchange*, if the last one is [`EXCHANGE_PERIOD_MS`] ago. A full
/// local queue is exchanged for another. It has mostly had its turn by then, even if every fifth
/// tick is for the global one.
pub(crate) const EXCHANGE_TICK: u64 = 6 * GLOBAL_TICK;
/// The same with short polls. With full queues the exchange moves 128 tasks each way. At every
/// 976th tick it cost about 10 instructions a poll. At every 244th tick it cost 45, and 4.5 % of a
/// ping-pong of 1,000 pairs.
pub(crate) const EXCHANGE_TICK_SHORT: u64 = 3 * EXCHANGE_TICK;
/// In milliseconds of a clock that shows whole ones: it was more than one. 366 polls of more than
/// some 3 us take that long, and an exchange is nothing beside them.
pub(crate) const EXCHANGE_PERIOD_MS: u32 = 2;
/// Time after which the monitor asks a poll to yield (F2), and may give its permit to others. As in
/// Go.
pub(crate) const SLICE: Duration = Duration::from_millis(10);
/// How long a task and those it wakes into `runnext` may run before a local queue that waits has
/// its turn (F4). Half of [`LOOK_PERIOD`], so that it is over at the next look where polls take
/// long. Go has 10 ms for that. A chain of tasks that wake each other has some 500 polls in this
/// time, and one that computes for 10 us a poll has a few.
pub(crate) const NEXT_SLICE: Duration = Duration::from_micros(50);
/// The least number of ticks that this takes. As in tokio, where three tasks in a row run from
/// there. If one task wakes another and yields, the two have turns in any case.
pub(crate) const NEXT_TICKS: u64 = 3;
/// Shortest time between two looks at the netpoll and at others' timers by workers that have local
/// work.
pub(crate) const NETPOLL_PERIOD: Duration = Duration::from_micros(50);
/// The same before [`GLOBAL_TICK`] ticks have gone by. Ten times as long: it is for polls that take
/// more than 8 us.
pub(crate) const NETPOLL_PERIOD_SLOW: Duration = Duration::from_micros(500);

/// Time between two looks for lost tasks. Guessed: a task that is lost stays so.
pub(crate) const LOST_EVERY: Duration = Duration::from_secs(1);
/// Their looks take one part in so many of a core. Guessed.
pub(crate) const LOST_PART: u64 = 100;

/// Tasks that a `LocalSet` runs in one poll. As in tokio.
pub(crate) const LOCAL_SET_TICK: usize = 61;

// --- how much a task does in one poll: `budget.rs` ---

/// Units in a poll. As in tokio, where it was chosen by measuring; a power of two below 256.
pub(crate) const BUDGET: u8 = 128;
/// Refusals that make a poll one that does not come back. Eight times the budget: a task polls
/// fewer children than that at once, and a poll that spins in vain reaches it in a fraction of a
/// millisecond.
pub(crate) const REFUSALS: u16 = 1024;

// --- tasks with a priority: `tick.rs`, `share.rs` ---

/// Tasks of its own queue that a P takes before the shared one has its turn (O4).
pub(crate) const OWN_MAX: u32 = 60;
/// Ticks from one turn for those below, or one look at all others, until the next is due. It comes
/// at the latest two ticks later, since the global queue and a pinned task may both be first.
pub(crate) const TURN_TICKS: u64 = 59;
/// The most tasks that are taken out of the shared queue at once. Free: a quarter of a P's own
/// queue.
pub(crate) const SHARE_MAX: usize = 64;

// --- how many tasks of the global queue a worker takes: `share.rs` ---

/// The most tasks that an exchange takes with short polls: half of a local queue, as thieves take
/// it. With longer polls it takes twice as many, a whole queue.
pub(crate) const EXCHANGED_MAX: usize = 128;
/// Number of tasks in the global queue that have their turn at looks before a full local queue
/// has had its own.
pub(crate) const EXCHANGE_FEW: usize = 4;
/// A worker that has less than its share at a look takes a batch that fills its local queue to
/// this length: half of one.
pub(crate) const FILLS_TO: usize = EXCHANGED_MAX;
/// Number of tasks at the front of the global queue among which a thread looks for a blocking call.
/// Free: a call is often spawned by a task of its own.
pub(crate) const CALLS_WITHIN: usize = 4;

// --- what is tried less often if it is in vain: `backoff.rs` ---

/// *The wake back-off* in `sched/push.rs`: to wake a thread for a lone `runnext`. The limit is
/// measured with the ring and the spawn-then-compute benchmarks: with it the ring keeps 0.5 % of a
/// second core busy. The trust is guessed: a program's first spawns tell little about the next.
pub(crate) const WAKES: Limits = Limits {
    trust: 3,
    pause_max: 4096,
};
/// The same for branches of joins, by time; see *How many it promotes* in `fork_join/owner.rs`.
pub(crate) const FORK_WAKES: Limits = Limits {
    trust: 2,
    pause_max: 64,
};
/// First pause of [`FORK_WAKES`]: about a wake-up.
pub(crate) const FORK_WAKES_PAUSE: Duration = Duration::from_micros(20);
/// To spin before a sleep. Guessed. In the spawn-join benchmark 22 of 4,000 times were in vain. In
/// an HTTP server, whose work comes by the netpoll, all of 2,000 were: it was a tenth of the CPU
/// time in user mode, and threads parked as often without it.
pub(crate) const SPINS: Limits = Limits {
    trust: 4,
    pause_max: 64,
};
/// To give the core up for a permit; see `sched/contention.rs`. Guessed: each try may cost the
/// caller some milliseconds.
pub(crate) const YIELDING: Limits = Limits {
    trust: 1,
    pause_max: 1024,
};
/// To let a thread that blocks keep its permit; see `policy/short_wait.rs`. Guessed; with a
/// limit of 64, ticks beside blocked threads came 375 us late instead of 229 (p99).
pub(crate) const SHORT_WAITS: Limits = Limits {
    trust: 1,
    pause_max: 1024,
};

// --- how a worker looks for others' work: `search.rs` ---

/// How long the last round of stealing waits for a victim to move on before it takes its `runnext`:
/// Go sleeps 3 us before it takes one, in its last round.
pub(crate) const RUNNEXT_WAIT: Duration = Duration::from_micros(10);
/// Number of Ps' queues that a spinner looks at again before it parks while others run. With
/// [`SPIN_PAUSES`] they take about 5 us with two Ps here, a third of what a wake-up costs. Measured
/// with the fan-in and the spawn-join benchmarks: it halves the parks of the second, and takes 10 %
/// off the time of both. Three times as long gains no more.
pub(crate) const SPIN_LOOKS: usize = 256;
/// Pauses of the core between two looks at all.
pub(crate) const SPIN_PAUSES: u32 = 4;
/// Number of other Ps that a worker looks at after the netpoll: each costs a load from another
/// core's cache.
pub(crate) const RESCUE_LOOKS: usize = 4;
/// Time without a tick after which a P stands still. Most polls are shorter, and a thread that the
/// system takes off its core is away for milliseconds.
pub(crate) const RESCUE_AFTER: Duration = Duration::from_micros(100);

// --- what is worth a thread: `wake.rs` ---

/// A worker that comes back to its queue sooner than this after a wake-up would have run the task
/// itself about as early: a wake-up takes 5 to 30 us here.
pub(crate) const WAKE_USEFUL_AFTER: Duration = Duration::from_micros(20);
/// If no more tasks than this wait where a blocking call is spawned, the call runs next, and sends
/// them to the global queue. Free: to move them takes less time than to wake the thread that
/// they go to.
pub(crate) const CALL_MOVES_MAX: usize = 8;

// --- contended calls: `contention.rs` ---

/// How often a call that has no permit gives its core up. Guessed: when calls did so without
/// contention too, one took 0.84 us with one yield, 0.70 us with two and 0.70 us with four.
pub(crate) const YIELDS: u32 = 2;
/// The most calls for each permit that are not contended yet. Guessed.
pub(crate) const CALLS_MAX: usize = 2;
/// If both yields are in vain, and take longer than this together, they cost more than the some 4
/// us that they can gain. 10 and 50 us did as well.
pub(crate) const YIELDS_TAKE: Duration = Duration::from_micros(20);

// --- timers and the netpoll: `slack.rs` ---

/// Number of timers at the end of one wait from which on timers get slack. One alone is what the
/// wake-up was for. With 8, 50,000 sleeps a second took 12.9 us of CPU each, with 2 they take 5.2
/// (`docs/decisions/2026-11-30-guessed-numbers.md`).
pub(crate) const SLACK_TIMERS: usize = 2;
/// How long timers wait for the next ones, in nanoseconds. A fifth of what tokio's clock counts in;
/// half of it leaves 2.9 us a sleep in the measurement in `sched/wait.rs`.
pub(crate) const TIMER_SLACK: u64 = 200_000;
/// How long such waits have to follow one another before timers get slack, in nanoseconds.
pub(crate) const SLACK_AFTER: u64 = 1_000_000;
/// How long a thread sleeps instead if its wait in the netpoll fails: what timers can be late by
/// then.
pub(crate) const FAILED_WAIT: Duration = Duration::from_millis(1);

/// A sleep at least this long is armed at its first poll without another look at the clock, which
/// would make arming and dropping it dearer by a third (some 35 ns on 90). The first poll is hardly
/// ever so late that the deadline has passed. If it is, the timer fires as soon as a worker looks.
/// The length is free.
pub(crate) const UNCHECKED_MIN: Duration = Duration::from_millis(100);

// --- what is kept, or taken in blocks ---

/// The most timers that one hold of a shard's lock fires. Long enough to be worth the lock, short
/// enough that the first of many due tasks runs soon and that no armer waits for more than some
/// 20 us.
pub(crate) const FIRE_BATCH: usize = 256;
/// Number of dead entries of a heap of timers that are not swept. Free: a kilobyte of nodes.
pub(crate) const DEAD_KEPT: usize = 64;
/// An empty heap of timers with a larger capacity gives its memory back. Free: 200 kB stay.
pub(crate) const KEPT_CAPACITY: usize = 4096;
/// Ids that a P takes from the process-wide counter at once. Free: large enough that the shared
/// counter does not show in a spawn.
pub(crate) const ID_BLOCK: u64 = 1024;
/// Room that an empty list of jobs keeps. Free.
pub(crate) const JOBS_KEPT: usize = 1 << 12;

// --- blocking calls: `blocking.rs` ---

/// How often bound threads pass a call on at most. Free: the first time does it nearly always.
pub(crate) const PASSES_MAX: u32 = 4;

// --- computations that fork: `forks.rs` ---

/// Time for which a waiting join helps or looks for something to help with, before it lets others
/// have its permit. Guessed: about two wake-ups.
pub(crate) const JOIN_WAIT: Duration = Duration::from_micros(20);
/// Looks at the latch between two looks at the clock.
pub(crate) const JOIN_WAIT_LOOKS: u32 = 16;
/// Minimum time that a computation keeps the permit that it waited for at a fork, and minimum age
/// of a poll before the monitor takes its permit. Guessed: the way to the permit, some 20 us of
/// wake-ups, then costs a fifth at most.
pub(crate) const FORK_SLICE: Duration = Duration::from_micros(100);
/// A thief that waited this long for a branch has gone to sleep; see *After a steal* in
/// `fork_join/owner.rs`. Guessed: several times as long as a search and a wait for a branch take.
pub(crate) const FAR_APART: Duration = Duration::from_micros(100);

// --- the monitor: `pace.rs`, `short_wait.rs`, `monitor/` ---

/// Period after a look that had to act. As Go's shortest.
pub(crate) const PACE_FAST: Duration = Duration::from_micros(20);
/// Looks in a row at that period. As in Go: 50, so one millisecond.
pub(crate) const PACE_FAST_LOOKS: u32 = 50;
/// Longest period while no permit is free, or something is under way.
pub(crate) const PACE_BUSY: Duration = Duration::from_millis(1);
/// Longest period while only computations that fork go on.
pub(crate) const PACE_COMPUTE_ONLY: Duration = Duration::from_millis(4);
/// Longest period while no permit is free, but one was since the last look: a worker that parks now
/// and then takes what others wait for. On two cores that both serve requests, waking a thread
/// costs some 70 us, most of it in the kernel (`docs/decisions/2026-11-24-monitor.md`).
pub(crate) const PACE_OFTEN_FREE: Duration = Duration::from_millis(4);
/// Longest period while a permit is free. As in Go.
pub(crate) const PACE_SLOW: Duration = Duration::from_millis(10);
/// Looks in a row at an idle runtime before the monitor sleeps. Guessed: at this number, a program
/// that calls in now and then does not wake the monitor each time.
pub(crate) const PACE_IDLE_LOOKS: u32 = 5;
/// [`SLICE`] in nanoseconds.
pub(crate) const SLICE_NS: u64 = SLICE.as_nanos() as u64;
/// A poll that lasts as long as this is a long one. As far apart as the monitor's looks are.
pub(crate) const LOOK_NS: u64 = PACE_BUSY.as_nanos() as u64;
/// CPU time between two looks at which a poll is long, and not one that waited for a core most of
/// the time.
pub(crate) const COMPUTES_NS: u64 = LOOK_NS / 2;
/// A thread without a permit computes if it is on a core for one part in this many of the time. One
/// that stalls is off its core if it is there for less.
pub(crate) const COMPUTES_PART: u64 = 4;
/// *Compute only*: a thread computes if it is on its core for so many parts of
/// [`COMPUTE_ONLY_OF`] of its time.
pub(crate) const COMPUTE_ONLY_PARTS: u64 = 9;
pub(crate) const COMPUTE_ONLY_OF: u64 = 10;
/// Number of looks for which the runtime is not compute-only after a thread was seen that does not
/// compute. Free.
pub(crate) const RESTLESS_LOOKS: u32 = 8;
/// Time for which a thread that blocks keeps its permit, if such waits are mostly shorter.
pub(crate) const SHORT_WAIT_NS: u64 = 1_000_000;
/// How late a timer may be before the monitor fires it: its own worker fires it at the next step.
pub(crate) const TIMER_GRACE_NS: u64 = 100_000;
/// Time between two tries to start another keeper.
pub(crate) const KEEPER_RETRY: Duration = PACE_SLOW;

// --- the end of a runtime: `sched/shutdown.rs`, `cell/live.rs`, `sched/foreign_wakers.rs` ---

/// Tasks that are queued at once when all are cancelled: workers begin to drop them while the rest
/// is looked for. As many as a local queue holds.
pub(crate) const ABORTED_AT_ONCE: usize = 256;
/// How long a thread may take to leave before timers and sockets answer with errors: no thread
/// serves them in the closing, and this one may wait for one. Longer than a thread takes that waits
/// for nothing.
pub(crate) const CLOSING_WAIT: Duration = Duration::from_millis(20);
/// How long they work below another runtime's API, which may give its drop no limit: tasks that are
/// dropped meanwhile find them.
pub(crate) const HOSTED_RESOURCES_STAY: Duration = Duration::from_millis(50);
/// A thread that looks for the tasks in a live table notes after each so many slots how far it has
/// come.
pub(crate) const NOTED_EACH: u32 = 512;
/// One that has not come on in this time is slow, at more than 0.4 us a task: two that met in the
/// allocator lost 0.16.
pub(crate) const STAND_BY: Duration = Duration::from_micros(200);
/// No thread stands by for fewer slots than that: the sweep is over sooner.
pub(crate) const STAND_BY_FROM: u32 = 4 * NOTED_EACH;
/// How long the list of wakers may stand still, while a thread takes from it, before one more
/// thread does.
pub(crate) const LIST_WAIT: Duration = PACE_BUSY;
/// How long the end itself looks whether threads have returned, before a thread waits for them. To
/// return takes some 30 us, and that thread some 100. Free: few take as long.
pub(crate) const JOIN_SOON: Duration = Duration::from_micros(200);
/// Time between two looks whether a thread has returned. Free.
pub(crate) const JOIN_LOOKS: Duration = Duration::from_millis(1);

// --- what is told: `sched/shutdown.rs`, `sched/lost.rs`, `sched/stall/`, `sched/shown/` ---

/// Most names of tasks in a report of what a shutdown has left.
pub(crate) const REPORTED_MAX: usize = 10;
/// Most names of tasks when a test fails. The first ones mostly tell enough.
pub(crate) const NAMED_MAX: usize = 16;
/// Most reports of stalls that wait to be told: a `tracing` subscriber may take for ever. Two come
/// in a second at most.
pub(crate) const WAITING_MAX: usize = 32;
/// Most stalls that are kept for a viewer. Guessed: what fits a screen.
pub(crate) const STALLS_KEPT: usize = 32;
/// Most lost tasks that a viewer is told of. The first ones mostly tell enough.
pub(crate) const LOST_SHOWN: usize = 100;
