//! Stalls: when they are reported, to which hook, and what is said. The monitor finds them (*A
//! stall* in `monitor.rs`).
//!
//! - A stall that reaches the threshold is reported, at most one in [`REPORT_EVERY`]. The others
//!   are counted, and the next report says how many; nothing more is heard of them.
//! - While a stall that was reported goes on, it is reported whenever it has lasted twice as long
//!   as at its last report. These reports have the same limit, for themselves: they take no turn
//!   from a stall that is new. A task that is stuck for a day is reported some 17 times.
//! - The end of a stall that was reported is always reported, with its whole time. There are no
//!   more of these than of the first, so they have no limit of their own.
//!
//! A report that a stall has begun or goes on has the stack of its thread (`stall/stack.rs`). Who
//! tells it, is in `stall/teller.rs`.
//!
//! The monitor does not stay awake for the second and the third. A thread that is stuck beside an
//! idle runtime has lost its permit or has the last one. If it has one, the monitor does not sleep
//! for good. If it has none, it takes one when its poll has ended, which wakes the monitor (*The
//! monitor's sleep* in `permit/idle.rs`). If the monitor sleeps for good, it wakes up when a report
//! is due.

mod stack;
mod teller;

use std::{fmt, panic::Location, sync::Arc as StdArc, time::Duration};

use ws_stack::SystemCall;

pub use self::stack::StallStack;
pub(super) use self::teller::Teller;
use super::{Shared, processor::Peer, snapshots::Why};
use crate::{
    cell::{Id, quietly},
    note::event,
    policy::constants::COMPUTES_PART,
    reports::Subject,
    sync::atomic::Ordering::Relaxed,
    throttle::REPORT_EVERY,
};

/// When and how stalls are reported.
#[derive(Clone)]
pub(crate) struct Stall {
    pub(crate) threshold: Option<Duration>,
    pub(crate) hook: Option<StallHook>,
}

type StallHook = StdArc<dyn Fn(&StallReport) + Send + Sync>;

impl Default for Stall {
    fn default() -> Self {
        // Ten slices: well beyond what a poll should take, and far below what users notice.
        Self {
            threshold: Some(Duration::from_millis(100)),
            hook: None,
        }
    }
}

impl fmt::Debug for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stall")
            .field("threshold", &self.threshold)
            .field("hook", &self.hook.is_some())
            .finish()
    }
}

/// A poll that holds its thread for long, at one of three moments: see [`StallPhase`], and
/// [`Builder::on_stall`](crate::runtime::Builder::on_stall).
///
/// `Display` says it in a sentence. Behind that there are lines with the
/// [system call](Self::system_call) and the [stack](Self::stack) of the thread, except in the last
/// report. To find the functions of the stack may take long the first time, see [`StallStack`].
///
/// ```
/// use std::sync::mpsc;
/// use ws::runtime::Builder;
///
/// let (tell, told) = mpsc::channel();
/// let runtime = Builder::new()
///     .on_stall(move |stall| _ = tell.send(stall.clone()))
///     .build()?;
/// let task = ws::task::Builder::new().name("report");
/// let task = task.spawn_on(async move { told.recv() }, runtime.handle());
/// // "task 1 "report", spawned at src/main.rs:9:17, blocks its thread for 100.6ms (CPU time 23.1µs)"
/// let stall = runtime.block_on(task).unwrap().unwrap();
/// let text = stall.to_string();
/// assert!(text.lines().next().unwrap().contains("\"report\""));
/// # Ok::<(), ws::runtime::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StallReport {
    /// The task's id.
    pub id: Id,
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub location: &'static Location<'static>,
    /// Whether the stall has just been found, goes on, or is over.
    pub phase: StallPhase,
    /// What the thread did for most of the time, if the system tells.
    pub kind: StallKind,
    /// How long the stall has lasted; in the last report, how long it was. The monitor sees a begin
    /// and an end up to one of its looks late, mostly 10 ms or less.
    pub running_for: Duration,
    /// How much of that time the thread was on a core. `None` where the system does not tell: it
    /// does on Linux.
    pub cpu_time: Option<Duration>,
    /// Stalls that were not reported since the last report, for there were too many.
    pub suppressed: u64,
    /// Where the thread is: the functions that it is in. In the last report there is none.
    pub stack: StallStack,
    /// The system call that blocks the thread, if one does. `None` also where the system does not
    /// tell: it does on Linux.
    pub system_call: Option<SystemCall>,
}

/// Which report of a stall this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallPhase {
    /// The first one: the stall has lasted for the threshold.
    Begun,
    /// The stall goes on, and has lasted twice as long as at its last report, and a second longer.
    GoesOn,
    /// It is over: its poll has ended, or come to a `join`, or has announced that it blocks
    /// ([`block_in_place`](crate::block_in_place)).
    Ended,
}

/// What a thread does in a poll that stalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallKind {
    /// It was on a core for less than a quarter of the time, and was seen to wait for something
    /// else: a lock, a file, a sleep.
    Blocked,
    /// It was on a core for a quarter of the time or more. All stalls are of this kind where the
    /// system does not tell what a thread waits for; [`cpu_time`](StallReport::cpu_time) may say
    /// more there.
    Computing,
    /// It was on a core for less than a quarter of the time, and was seen to wait only for a core:
    /// there are more threads than cores, or a quota of CPU time is used up. The task is not at
    /// fault.
    Descheduled,
}

/// ```
/// assert_eq!(ws::runtime::StallPhase::GoesOn.to_string(), "goes on");
/// ```
impl fmt::Display for StallPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Begun => "begun",
            Self::GoesOn => "goes on",
            Self::Ended => "ended",
        })
    }
}

/// ```
/// assert_eq!(ws::runtime::StallKind::Blocked.to_string(), "blocked");
/// ```
impl fmt::Display for StallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Blocked => "blocked",
            Self::Computing => "computing",
            Self::Descheduled => "descheduled",
        })
    }
}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = Subject {
            id: self.id,
            name: self.name.as_deref(),
            location: self.location,
        };
        let how = match (self.kind, self.phase == StallPhase::Ended) {
            (StallKind::Blocked, false) => "blocks its thread",
            (StallKind::Blocked, true) => "blocked its thread",
            (StallKind::Computing, false) => "computes on its thread",
            (StallKind::Computing, true) => "computed on its thread",
            (StallKind::Descheduled, false) => "waits for a core",
            (StallKind::Descheduled, true) => "waited for a core",
        };
        write!(f, "{subject}, {how} for {:?}", self.running_for)?;
        if let Some(cpu_time) = self.cpu_time {
            write!(f, " (CPU time {cpu_time:?})")?;
        }
        if self.suppressed > 0 {
            write!(f, "; {} stalls before were not reported", self.suppressed)?;
        }
        if self.phase == StallPhase::Ended {
            return Ok(());
        }
        if let Some(call) = self.system_call {
            write!(f, "\n      in the system call {call}")?;
        }
        write!(f, "\n{}", self.stack)
    }
}

/// A stall at one look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) kind: StallKind,
    running_for: Duration,
    pub(crate) cpu_time: Option<Duration>,
}

impl Measured {
    /// It has lasted for `lasted` nanoseconds, and its thread was on a core for `used` of them.
    /// `waited`: whether the thread was seen to wait for something else than a core, if the system
    /// told.
    fn new(lasted: u64, used: Option<u64>, waited: Option<bool>) -> Self {
        // Two clocks, which are not read at the same time.
        let used = used.map(|used| used.min(lasted));
        let kind = match waited {
            Some(true) if hardly_ran(lasted, used) => StallKind::Blocked,
            Some(false) if hardly_ran(lasted, used) => StallKind::Descheduled,
            _ => StallKind::Computing,
        };
        Self {
            kind,
            running_for: Duration::from_nanos(lasted),
            cpu_time: used.map(Duration::from_nanos),
        }
    }
}

/// Whether a thread was mostly on no core, which used `used` of `lasted` nanoseconds. If the system
/// does not tell, it was on one.
fn hardly_ran(lasted: u64, used: Option<u64>) -> bool {
    used.is_some_and(|used| used < lasted / COMPUTES_PART)
}

/// What the monitor has made known of a stall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Told {
    /// It has not lasted for the threshold.
    #[default]
    Nothing,
    /// Nothing, for good: it was counted, or is not that of a task.
    Suppressed,
    /// It was reported, so its end will be.
    Reported,
}

/// What the monitor remembers of a poll that may stall: of the part since it came to a fork.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stalling {
    /// How often its thread had come to a fork by the last look.
    forks: u64,
    /// Since when that has not moved, in nanoseconds of the runtime's clock.
    since: u64,
    /// Its thread's CPU time then.
    cpu: Option<u64>,
    /// Whether the system said since then that its thread waits for something other than a core.
    /// None: it said nothing, or was not asked.
    waited: Option<bool>,
    pub(crate) told: Told,
}

impl Stalling {
    pub(crate) fn begin(now: u64, cpu: Option<u64>, forks: u64) -> Self {
        Self {
            forks,
            since: now,
            cpu,
            waited: None,
            told: Told::Nothing,
        }
    }

    /// Whether nothing is decided about it.
    pub(crate) fn is_open(&self) -> bool {
        self.told == Told::Nothing
    }

    /// Whether its begin was reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.told == Told::Reported
    }

    /// What it is at a look that reads the CPU time `cpu`.
    pub(crate) fn measure(&self, now: u64, cpu: Option<u64>) -> Measured {
        Measured::new(self.lasted(now), self.used(cpu), self.waited)
    }

    fn lasted(&self, now: u64) -> u64 {
        now.saturating_sub(self.since)
    }

    fn used(&self, cpu: Option<u64>) -> Option<u64> {
        cpu.zip(self.cpu)
            .map(|(cpu, before)| cpu.saturating_sub(before))
    }

    /// The system was asked whether its thread waits for something other than a core. That it did
    /// so once is more than that it did not at another look, and any answer is more than none.
    pub(crate) fn note_wait(&mut self, waits: Option<bool>) {
        self.waited = self.waited.max(waits);
    }

    /// At a look at `now`: if the clock went back behind its begin, it begins anew there.
    pub(crate) fn begins_at_most(&mut self, now: u64) {
        self.since = self.since.min(now);
    }

    /// Whether the system is to be asked what its thread waits for. Also if the thread has run so
    /// far: it may be blocked from now on, and the next look at it may be after its end.
    pub(crate) fn is_unexplained(&self) -> bool {
        self.waited != Some(true)
    }

    /// It is over: what is to be reported of that.
    pub(crate) fn ended(&self, now: u64, cpu: Option<u64>) -> Option<Measured> {
        self.is_reported().then(|| self.measure(now, cpu))
    }

    /// At a look that sees that the poll came to so many forks. If there were fewer, this is the
    /// end of one stall, and another one may begin.
    pub(crate) fn came_by(&mut self, forks: u64, now: u64, cpu: Option<u64>) -> Option<Measured> {
        if forks == self.forks {
            return None;
        }
        let ended = self.ended(now, cpu);
        *self = Self::begin(now, cpu, forks);
        ended
    }

    /// Which report may be due. One that it goes on is not due at each look; see
    /// [`Reports::goes_on`].
    pub(crate) fn due(
        &self,
        threshold: Option<Duration>,
        now: u64,
        cpu: Option<u64>,
    ) -> Option<StallPhase> {
        let has_begun = |most| self.measure(now, cpu).running_for >= most;
        match self.told {
            Told::Nothing => threshold
                .is_some_and(has_begun)
                .then_some(StallPhase::Begun),
            Told::Suppressed => None,
            Told::Reported => Some(StallPhase::GoesOn),
        }
    }
}

/// A stall that was reported and goes on.
struct Open {
    /// The index of its P.
    index: usize,
    /// When it began, in nanoseconds of the runtime's clock.
    since: u64,
    /// The last report.
    report: StallReport,
}

impl Open {
    /// When it will have lasted twice as long as at the last report, which was [`REPORT_EVERY`]
    /// before that.
    fn repeats_at(&self) -> u64 {
        let lasted = self.report.running_for;
        let next = (2 * lasted).max(lasted + REPORT_EVERY);
        self.since + next.as_nanos() as u64
    }
}

/// What was reported, as the monitor remembers it.
#[derive(Default)]
pub(crate) struct Reports {
    /// When a stall was reported last for the first time, in nanoseconds of the runtime's clock.
    began: Option<u64>,
    /// When one was reported last to go on.
    repeated: Option<u64>,
    /// Not reported since the last report, for there were too many.
    suppressed: u64,
    open: Vec<Open>,
}

impl Reports {
    /// The poll in which a P's thread was at `ticks` has stalled for the threshold.
    pub(crate) fn begun(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        ticks: u64,
        now: u64,
        measured: Measured,
    ) -> Told {
        // A root is its own thread's business.
        let Some(task) = shared.find_live(peer.progress.running.load(Relaxed)) else {
            return Told::Suppressed;
        };
        // It is about this task only if it is still the same poll.
        if peer.progress.ticks.load(Relaxed) != ticks {
            return Told::Suppressed;
        }
        if is_too_soon(now, self.began) {
            self.suppressed += 1;
            return Told::Suppressed;
        }
        self.began = Some(now);
        let header = task.header();
        let (stack, system_call) = StallStack::of(shared, peer, ticks);
        let report = StallReport {
            id: header.id(),
            name: header.name().map(str::to_owned),
            location: header.location(),
            phase: StallPhase::Begun,
            kind: measured.kind,
            running_for: measured.running_for,
            cpu_time: measured.cpu_time,
            suppressed: std::mem::take(&mut self.suppressed),
            stack,
            system_call,
        };
        event!(shared, Stall, header, peer.index);
        // Before the hook, which may end the program.
        shared.snapshot(Why::Stall);
        send(shared, &report);
        self.open.push(Open {
            index: peer.index,
            since: now - measured.running_for.as_nanos() as u64,
            report,
        });
        Told::Reported
    }

    /// That of this P was reported, and goes on.
    pub(crate) fn goes_on(
        &mut self,
        shared: &Shared,
        peer: &Peer,
        ticks: u64,
        now: u64,
        measured: Measured,
    ) {
        let at = self.position(peer.index);
        let open = &mut self.open[at];
        // It may have begun anew, by a clock that went back.
        open.since = now - measured.running_for.as_nanos() as u64;
        if now >= open.repeats_at() && !is_too_soon(now, self.repeated) {
            self.repeated = Some(now);
            let suppressed = std::mem::take(&mut self.suppressed);
            open.report.update(StallPhase::GoesOn, measured, suppressed);
            let (stack, system_call) = StallStack::of(shared, peer, ticks);
            open.report.stack = stack;
            open.report.system_call = system_call;
            send(shared, &open.report);
        }
    }

    /// That of this P was reported, and is over.
    pub(crate) fn ended(&mut self, shared: &Shared, index: usize, measured: Measured) {
        let at = self.position(index);
        let mut report = self.open.swap_remove(at).report;
        let suppressed = std::mem::take(&mut self.suppressed);
        report.update(StallPhase::Ended, measured, suppressed);
        report.stack = StallStack::none("the stall is over");
        report.system_call = None;
        send(shared, &report);
    }

    /// When the next report that a stall goes on is due.
    pub(crate) fn repeats_at(&self) -> Option<u64> {
        let first = self.open.iter().map(Open::repeats_at).min()?;
        let next = |last| last + REPORT_EVERY.as_nanos() as u64;
        Some(first.max(self.repeated.map_or(0, next)))
    }

    fn position(&self, index: usize) -> usize {
        let mut all = self.open.iter();
        all.position(|open| open.index == index)
            .expect("it was reported, and is not over")
    }
}

/// Whether there was a report of a kind just before. If the clock went back by more than the time
/// between two of them, there was not.
fn is_too_soon(now: u64, last: Option<u64>) -> bool {
    last.is_some_and(|last| now.abs_diff(last) < REPORT_EVERY.as_nanos() as u64)
}

impl StallReport {
    fn update(&mut self, phase: StallPhase, measured: Measured, suppressed: u64) {
        self.phase = phase;
        self.kind = measured.kind;
        self.running_for = measured.running_for;
        self.cpu_time = measured.cpu_time;
        self.suppressed = suppressed;
    }
}

fn send(shared: &Shared, stall: &StallReport) {
    shared.keep_stall(stall);
    match &shared.config.stall.hook {
        Some(hook) => quietly("the `on_stall` hook", || hook(stall)),
        None => shared.tell_stall(stall),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// That a task blocks, which the caller's line spawned.
    #[track_caller]
    pub(in crate::sched) fn made_up() -> StallReport {
        StallReport {
            id: Id::new(7),
            name: Some("slow".to_owned()),
            location: Location::caller(),
            phase: StallPhase::Begun,
            kind: StallKind::Blocked,
            running_for: Duration::from_millis(20),
            cpu_time: Some(Duration::from_millis(1)),
            suppressed: 0,
            stack: StallStack::none("a test"),
            system_call: None,
        }
    }

    #[test]
    fn a_report_says_who_does_what() {
        let mut stall = made_up();
        let location = stall.location;
        let task = format!("task 7 \"slow\", spawned at {location}, ");
        let words = [
            (
                StallKind::Blocked,
                "blocks its thread",
                "blocked its thread",
            ),
            (
                StallKind::Computing,
                "computes on its thread",
                "computed on its thread",
            ),
            (
                StallKind::Descheduled,
                "waits for a core",
                "waited for a core",
            ),
        ];
        for (kind, goes_on, ended) in words {
            stall.kind = kind;
            for phase in [StallPhase::Begun, StallPhase::GoesOn, StallPhase::Ended] {
                stall.phase = phase;
                let (how, stack) = if phase == StallPhase::Ended {
                    (ended, "")
                } else {
                    (goes_on, "\n      no stack: a test")
                };
                assert_eq!(
                    stall.to_string(),
                    format!("{task}{how} for 20ms (CPU time 1ms){stack}")
                );
            }
        }
        stall.name = None;
        stall.cpu_time = None;
        stall.suppressed = 3;
        let words = format!(
            "task 7, spawned at {location}, waited for a core for 20ms; 3 stalls before were not reported"
        );
        assert_eq!(stall.to_string(), words);
    }

    #[test]
    fn who_is_on_a_core_for_a_quarter_of_the_time_computes() {
        let kind = |used, waited| {
            let measured = Measured::new(100, used, waited);
            assert_eq!(measured.running_for, Duration::from_nanos(100));
            (measured.kind, measured.cpu_time.map(|time| time.as_nanos()))
        };
        for waited in [None, Some(false), Some(true)] {
            assert_eq!(kind(None, waited), (StallKind::Computing, None));
            assert_eq!(kind(Some(25), waited), (StallKind::Computing, Some(25)));
            assert_eq!(kind(Some(101), waited), (StallKind::Computing, Some(100)));
        }
        let hardly_ran = |waited| kind(Some(24), waited);
        assert_eq!(hardly_ran(Some(true)), (StallKind::Blocked, Some(24)));
        assert_eq!(hardly_ran(Some(false)), (StallKind::Descheduled, Some(24)));
        assert_eq!(hardly_ran(None), (StallKind::Computing, Some(24)));
    }
}
