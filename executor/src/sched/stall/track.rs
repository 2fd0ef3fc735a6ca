//! What the monitor remembers of stalls, and when it reports them.

use std::time::Duration;

use ws_stack::SystemCall;

use super::{StallKind, StallPhase, StallReport, StallStack, stack::LIMIT};
use crate::{
    cell::quietly,
    note::event,
    policy::constants::COMPUTES_PART,
    sched::{
        Shared,
        processor::Peer,
        state::{hooks::in_a_hook, snapshot_files::Why},
    },
    sync::atomic::Ordering::Relaxed,
    throttle::REPORT_EVERY,
};

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
        let (stack, system_call) = stack_of(shared, peer, ticks);
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
            let (stack, system_call) = stack_of(shared, peer, ticks);
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
        Some(hook) => in_a_hook(|| quietly("the `on_stall` hook", || hook(stall))),
        None => shared.tell_stall(stall),
    }
}

/// The stack of the poll in which a P's thread was at `ticks`, and the call that blocks it.
fn stack_of(shared: &Shared, peer: &Peer, ticks: u64) -> (StallStack, Option<SystemCall>) {
    if shared.threads.sim_threads.is_some() {
        return (StallStack::none("the thread is a simulated one"), None);
    }
    let look = ws_stack::capture(peer.thread.number.load(Relaxed), LIMIT);
    if peer.progress.ticks.load(Relaxed) != ticks {
        return (StallStack::none("the poll has ended meanwhile"), None);
    }
    (StallStack::copied(look.stack), look.system_call)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc as StdArc, OnceLock, Weak, mpsc};

    use super::*;
    use crate::{
        context,
        runtime::{Builder, Sysmon},
        sched::{
            find::tests::thread,
            shutdown::tests::{end, next},
            state::snapshot_files::Snapshots,
        },
        spawn,
        sync::Arc,
    };

    #[test]
    fn one_that_is_on_a_core_for_a_quarter_of_the_time_computes() {
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

    #[test]
    fn no_stack_is_shown_of_a_poll_that_has_ended_meanwhile() {
        let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
        let runtime = builder.build().unwrap();
        let worker = thread(&runtime);
        let peer = worker.peer();
        // No thread has that number.
        peer.thread.number.store(u32::MAX, Relaxed);
        let shown = |ticks| {
            stack_of(runtime.handle().shared(), peer, ticks)
                .0
                .to_string()
        };
        let ticks = peer.progress.ticks.load(Relaxed);
        let ended = "      no stack: the poll has ended meanwhile";
        assert_eq!(shown(ticks + 1), ended);
        assert_ne!(shown(ticks), ended);
        end(runtime, [worker]);
    }

    // The hook may end the program. The thread that writes may be done before that.
    #[test]
    fn a_snapshot_is_begun_before_the_hook_hears_of_a_stall() {
        let name = format!("ws-snaps-{}-before", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let (tell, told) = mpsc::channel();
        let this = StdArc::new(OnceLock::<Weak<Shared>>::new());
        let of_hook = this.clone();
        let hook = move |_: &StallReport| {
            let shared = of_hook.get().and_then(Weak::upgrade).expect("it runs");
            let written = shared.telling.snapshots.written.lock();
            let has_begun = written.writes || !written.files.is_empty();
            tell.send(has_begun).unwrap();
        };
        let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
        let builder = builder.snapshots(Snapshots::to(&dir)).on_stall(hook);
        let runtime = builder.build().unwrap();
        let shared = runtime.handle().shared();
        this.set(Arc::downgrade(shared)).expect("it is new");
        let worker = thread(&runtime);
        context::with_worker_frame(&worker, || drop(spawn(async {})));
        let task = next(&worker);
        let progress = &worker.peer().progress;
        progress.running.store(task.header().address(), Relaxed);
        let ticks = progress.ticks.load(Relaxed);
        let measured = Measured::new(0, None, None);
        Reports::default().begun(shared, worker.peer(), ticks, 0, measured);
        assert!(told.recv().unwrap());
        progress.running.store(0, Relaxed);
        shared.push_foreign(task);
        end(runtime, [worker]);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
