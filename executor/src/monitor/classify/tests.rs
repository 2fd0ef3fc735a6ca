//! The tables of [`classify`]: no thread, no runtime, no clock.

use std::cell::Cell;

use super::*;
use crate::{
    permit::idle::WorkerState,
    policy::constants::FORK_SLICE,
    sched::stall::{StallKind, Told},
};

const BEGAN: u64 = 1_000_000_000;
const FORK_SLICE_NS: u64 = FORK_SLICE.as_nanos() as u64;
const THRESHOLD: Duration = Duration::from_millis(20);
const THRESHOLD_NS: u64 = THRESHOLD.as_nanos() as u64;

/// What the questions are answered with. How often the system was asked.
#[derive(Clone, Debug, Default)]
struct Answers {
    cpu: Option<u64>,
    off_core: bool,
    waiting: Option<bool>,
    came_by: u64,
    forks: bool,
    computed: bool,
    next: bool,
    child: bool,
    /// Others need a permit: tasks, or branches and threads that wait for one.
    tasks: bool,
    others: bool,
    room: bool,
    clocks: Cell<u32>,
    reasons: Cell<u32>,
}

impl Ask for Answers {
    fn cpu_time(&self) -> Option<u64> {
        self.clocks.set(self.clocks.get() + 1);
        self.cpu
    }

    fn is_off_core(&self, cpu: Option<u64>) -> bool {
        cpu.is_some() && self.off_core
    }

    fn is_waiting(&self) -> Option<bool> {
        self.reasons.set(self.reasons.get() + 1);
        self.waiting
    }

    fn came_by(&self) -> u64 {
        self.came_by
    }

    fn forks(&self) -> bool {
        self.forks
    }

    fn computed(&self) -> bool {
        self.computed
    }

    fn has_next(&self) -> bool {
        self.next
    }

    fn has_child(&self) -> bool {
        self.child
    }

    fn others_need_a_permit(&self, blocked: bool) -> bool {
        self.tasks || (blocked && self.others)
    }

    fn tasks_need_a_permit(&self) -> bool {
        self.tasks
    }

    fn may_have_one_more_detached(&self) -> bool {
        self.room
    }
}

/// A worker with the last permit. It is in a poll, which one look has seen.
struct Case {
    view: View,
    round: Round,
    seen: Seen,
    waits: ShortWaits,
    answers: Answers,
}

impl Case {
    fn new() -> Self {
        let view = View {
            now: BEGAN,
            ticks: 7,
            polls: true,
            state: WorkerState::Running,
            announced: false,
            spare: false,
        };
        let seen = Seen {
            ticks: view.ticks,
            polls: true,
            since: BEGAN,
            cpu: Some(0),
            wait: Wait::begin(BEGAN),
            share: Share::begin(BEGAN, Some(0)),
            stall: Stalling::begin(BEGAN, Some(0), 0),
            long: false,
        };
        let round = Round {
            needed: false,
            took: false,
            threshold: None,
        };
        Self {
            view,
            round,
            seen,
            waits: ShortWaits::new(),
            answers: Answers::default(),
        }
    }

    /// The poll has lasted for the given time, and its thread computed all the time.
    fn computes(lasted: u64) -> Self {
        let mut case = Self::new();
        case.view.now = BEGAN + lasted;
        case.answers.cpu = Some(lasted);
        case
    }

    /// It has lasted for the given time, and its thread blocked all the time.
    fn blocks(lasted: u64) -> Self {
        let mut case = Self::computes(lasted);
        case.answers.cpu = Some(0);
        case.answers.waiting = Some(true);
        case
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Beside a free permit.
    fn beside_a_free_permit(self) -> Self {
        self.with(|case| case.view.spare = true)
    }

    /// Its permit was taken.
    fn stuck(self) -> Self {
        self.with(|case| case.view.state = WorkerState::Stuck)
    }

    fn tasks_wait(self) -> Self {
        self.with(|case| case.answers.tasks = true)
    }

    fn others_wait(self) -> Self {
        self.with(|case| case.answers.others = true)
    }

    fn needed(self) -> Self {
        self.with(|case| case.round.needed = true)
    }

    fn has_next(self) -> Self {
        self.with(|case| case.answers.next = true)
    }

    fn has_child(self) -> Self {
        self.with(|case| case.answers.child = true)
    }

    /// It is in a computation that forks, and there may be one detached computation more.
    fn forks(self) -> Self {
        self.with(|case| {
            case.answers.forks = true;
            case.answers.room = true;
        })
    }

    fn reported(self) -> Self {
        self.with(|case| case.round.threshold = Some(THRESHOLD))
    }

    /// Its thread has announced that it blocks.
    fn announced(self) -> Self {
        self.with(|case| case.view.announced = true)
    }

    /// It has moved on since.
    fn next_poll(self) -> Self {
        self.with(|case| case.view.ticks += 1)
    }

    fn verdict(&mut self) -> Verdict {
        let Self {
            view,
            round,
            seen,
            waits,
            answers,
        } = self;
        classify(view, round, seen, waits, &*answers)
    }
}

const TAKES: Act = Act::Revoke { forks: false };

fn check(table: impl IntoIterator<Item = (&'static str, Case, Act)>) {
    for (name, mut case, act) in table {
        assert_eq!(case.verdict().act, act, "{name}");
    }
}

#[test]
fn a_thread_that_computes_keeps_its_permit_for_a_slice() {
    let long = || Case::computes(SLICE_NS);
    let announced = long().tasks_wait().announced();
    check([
        (
            "short",
            Case::computes(SLICE_NS - 1).tasks_wait(),
            Act::Nothing,
        ),
        ("long", long().tasks_wait(), TAKES),
        ("nobody waits", long(), Act::Nothing),
        ("branches wait", long().others_wait(), Act::Nothing),
        ("a thread asked", long().needed(), TAKES),
        ("it was announced", announced, Act::Nothing),
        ("next poll", long().tasks_wait().next_poll(), Act::Nothing),
        ("stuck", long().needed().stuck(), Act::Nothing),
    ]);
}

#[test]
fn a_poll_of_a_millisecond_is_told_once_and_so_is_its_end() {
    for lasted in [LOOK_NS, SLICE_NS] {
        let mut case = Case::computes(LOOK_NS - 1);
        assert_eq!(case.verdict().long, None);
        case.view.now = BEGAN + lasted;
        assert_eq!(case.verdict().long, Some(Long::Begins(lasted)));
        case.view.now += LOOK_NS;
        let goes_on = Long::GoesOn(lasted + LOOK_NS);
        assert_eq!(case.verdict().long, Some(goes_on));
        let mut case = case.next_poll();
        assert_eq!(case.verdict().long, Some(Long::Ends));
        assert_eq!(case.verdict().long, None);
    }
    // One that announces that it blocks is no poll any more.
    let mut case = Case::blocks(LOOK_NS);
    assert_eq!(case.verdict().long, Some(Long::Begins(LOOK_NS)));
    assert_eq!(case.announced().verdict().long, Some(Long::Ends));
}

#[test]
fn a_thread_that_blocks_keeps_its_permit_for_a_short_wait() {
    let long = || Case::blocks(LOOK_NS);
    let free = Case::blocks(SLICE_NS).needed().beside_a_free_permit();
    check([
        (
            "short",
            Case::blocks(LOOK_NS - 1).tasks_wait(),
            Act::Nothing,
        ),
        ("long", long().tasks_wait(), TAKES),
        ("branches wait", long().others_wait(), TAKES),
        ("nobody waits", long(), Act::Nothing),
        ("a thread asked", long().needed(), TAKES),
        ("it forks", long().tasks_wait().forks(), TAKES),
        ("a permit is free", free, Act::Nothing),
    ]);
}

#[test]
fn a_computation_that_forks_gives_its_permit_to_tasks() {
    const TAKES_FORK: Act = Act::Revoke { forks: true };
    let leaf = || Case::computes(FORK_SLICE_NS).forks();
    let long = || Case::computes(SLICE_NS).forks();
    let short = Case::computes(FORK_SLICE_NS - 1).forks();
    let took = |case: Case| case.with(|case| case.round.took = true);
    let full = |case: Case| case.with(|case| case.answers.room = false);
    let other = took(Case::computes(SLICE_NS).needed());
    check([
        ("leaf", leaf().tasks_wait(), TAKES_FORK),
        ("a thread asked", leaf().needed(), TAKES_FORK),
        ("short", short.tasks_wait(), Act::Nothing),
        ("branches wait", leaf().others_wait(), Act::Nothing),
        ("no room", full(leaf().tasks_wait()), Act::Nothing),
        ("one more", took(leaf().tasks_wait()), Act::Nothing),
        ("long, no room", full(long().needed()), TAKES_FORK),
        ("long, one more", took(long().needed()), Act::Nothing),
        ("one that does not fork, beside it", other, TAKES),
    ]);
}

#[test]
fn what_it_has_for_others_is_given_away() {
    let child = Case::has_child;
    let next = Case::has_next;
    let free = Case::beside_a_free_permit;
    let stuck = || Case::blocks(1).stuck();
    let short = child(Case::computes(SLICE_NS - 1)).tasks_wait();
    check([
        ("a child, short", short, Act::Nothing),
        (
            "a child, long",
            child(Case::computes(SLICE_NS)),
            Act::GiveChild,
        ),
        ("a child, blocks", child(Case::blocks(1)), Act::GiveChild),
        (
            "a child, free",
            free(child(Case::blocks(1))),
            Act::GiveChild,
        ),
        ("next", next(Case::computes(1)), Act::Nothing),
        (
            "next, free",
            free(next(Case::computes(1))),
            Act::WakeForNext,
        ),
        ("stuck, next", next(stuck()), Act::GiveNext),
        ("stuck, child", child(stuck()), Act::GiveNext),
        ("stuck, moved", next(stuck()).next_poll(), Act::GiveNext),
        ("stuck, announced", next(stuck()).announced(), Act::GiveNext),
    ]);
}

#[test]
fn a_permit_is_taken_from_a_thread_that_computes_or_blocks() {
    for (mut case, computes) in [
        (Case::computes(SLICE_NS).needed(), true),
        (Case::blocks(SLICE_NS).needed(), false),
    ] {
        let verdict = case.verdict();
        assert_eq!(verdict.act, Act::Revoke { forks: false });
        assert_eq!(verdict.computes, Some(computes));
        // Its share of a core counts from here.
        assert_eq!(
            case.seen.share,
            Share::begin(case.view.now, case.answers.cpu)
        );
    }
}

#[test]
fn a_stuck_thread_is_marked_by_its_share_of_a_core() {
    let quarter = SLICE_NS / 4;
    // What it used, whether it was marked, whether it waits for something other than a core.
    let table = [
        (Some(quarter), false, true, Some(true)),
        (Some(quarter), true, true, Some(true)),
        (Some(quarter - 1), false, true, None),
        (Some(quarter - 1), true, false, None),
        (Some(quarter - 1), true, true, Some(false)),
        (None, true, false, Some(false)),
        (None, false, false, None),
    ];
    for (cpu, computed, waiting, mark) in table {
        let mut case = Case::computes(SLICE_NS).stuck();
        case.answers.cpu = cpu;
        case.answers.computed = computed;
        case.answers.waiting = Some(waiting);
        assert_eq!(
            case.verdict().computes,
            mark,
            "{cpu:?} {computed} {waiting}"
        );
    }
    let mut soon = Case::computes(LOOK_NS - 1).stuck();
    assert_eq!(soon.verdict().computes, None, "it is too early to say");
    let mut over = Case::computes(SLICE_NS).stuck().next_poll();
    assert_eq!(over.verdict().computes, Some(false));
}

#[test]
fn a_thread_is_told_what_to_look_up_for() {
    const NOTHING: u32 = 0;
    let table = [
        (Case::computes(SLICE_NS), attention::SLICE),
        (Case::computes(SLICE_NS).stuck(), attention::SLICE),
        (Case::computes(SLICE_NS - 1), NOTHING),
        (Case::computes(SLICE_NS).next_poll(), NOTHING),
    ];
    for (row, (mut case, bits)) in table.into_iter().enumerate() {
        assert_eq!(case.verdict().attention, bits, "row {row}");
    }
}

#[test]
fn which_reports_a_stall_has() {
    use StallPhase::{Begun, GoesOn};

    let mut case = Case::computes(THRESHOLD_NS - 1).reported();
    let verdict = case.verdict();
    assert_eq!((verdict.stall, verdict.notes.watches), (None, true));
    assert!(verdict.asks_fork);
    case.view.now += 1;
    let verdict = case.verdict();
    assert_eq!(verdict.stall.map(|it| it.0), Some(Begun));
    assert!(!verdict.notes.watches);
    case.seen.stall.told = Told::Reported;
    let verdict = case.verdict();
    assert_eq!(verdict.stall.map(|it| it.0), Some(GoesOn));
    assert_eq!(verdict.ended, None);
    // It comes to a fork: one stall is over, and another may begin.
    case.answers.came_by += 1;
    let verdict = case.verdict();
    assert!(verdict.ended.is_some() && verdict.stall.is_none());
    assert!(verdict.notes.watches);
    assert_eq!(case.verdict().ended, None, "once");

    for over in [
        |case: &mut Case| case.view.ticks += 1,
        |case: &mut Case| case.view.polls = false,
        |case: &mut Case| case.view.announced = true,
    ] {
        let mut case = Case::computes(THRESHOLD_NS).reported();
        case.seen.stall.told = Told::Reported;
        over(&mut case);
        case.answers.cpu = None;
        let ended = case.verdict().ended.expect("it is over");
        assert!(
            ended.cpu_time.is_some(),
            "its clock was read at the last look"
        );
        assert_eq!(case.verdict().ended, None, "once");
    }
    let mut silent = Case::computes(THRESHOLD_NS);
    let verdict = silent.verdict();
    assert_eq!((verdict.stall, verdict.notes.watches), (None, false));
    assert!(!verdict.asks_fork);
}

// The look fell between the begin of a step and that of its poll, or into a block that was
// announced.
#[test]
fn a_poll_that_no_look_has_seen_begins_at_the_next_one() {
    for was_in_no_poll in [
        |case: &mut Case| case.view.polls = false,
        |case: &mut Case| case.view.announced = true,
    ] {
        let mut case = Case::blocks(1).reported();
        let view = case.view;
        was_in_no_poll(&mut case);
        assert_eq!(case.verdict().stall, None);
        case.view = view;
        case.view.now += THRESHOLD_NS;
        assert_eq!(case.verdict().stall, None, "it was not seen before");
        case.view.now += THRESHOLD_NS;
        let (_, begun) = case.verdict().stall.expect("it has lasted");
        assert_eq!(
            (begun.kind, begun.cpu_time),
            (StallKind::Blocked, Some(Duration::ZERO))
        );
    }
}

// The thread marked itself when it came back without a permit.
#[test]
fn what_came_back_from_a_block_without_a_permit_stays_marked() {
    let mut case = Case::new().stuck().with(|case| case.seen.polls = false);
    assert_eq!(case.verdict().computes, None);
    let mut case = Case::new().stuck().next_poll();
    assert_eq!(case.verdict().computes, Some(false), "another poll");
    let mut case = Case::new().with(|case| case.seen.polls = false);
    assert_eq!(case.verdict().computes, Some(false), "it has a permit");
}

// No look falls between the report and the end: the monitor may sleep for good meanwhile.
#[test]
fn a_thread_that_ran_before_it_was_blocked_is_blocked_at_the_end() {
    let quarter = THRESHOLD_NS / 4;
    let mut case = Case::blocks(THRESHOLD_NS).reported();
    case.seen.cpu = Some(0);
    case.answers.cpu = Some(quarter);
    let (_, begun) = case.verdict().stall.expect("it has lasted");
    assert_eq!(begun.kind, StallKind::Computing);
    case.seen.stall.told = Told::Reported;
    case.view.now += THRESHOLD_NS;
    case.view.ticks += 1;
    let ended = case.verdict().ended.expect("it is over");
    assert_eq!(ended.kind, StallKind::Blocked);
}

#[test]
fn what_a_look_remembers_for_the_pace() {
    let half = LOOK_NS / 2;
    let used = |used| Case::computes(LOOK_NS).with(|case| case.answers.cpu = Some(used));
    let waits_for_a_core = |case: Case| case.with(|case| case.answers.waiting = Some(false));
    let off_core = |case: Case| {
        case.tasks_wait().next_poll().with(|case| {
            case.answers.cpu = Some(0);
            case.answers.off_core = true;
            case.answers.waiting = Some(true);
        })
    };
    let notes = |watchful, doubts| Notes {
        watchful,
        doubts,
        watches: false,
    };
    let nothing = Notes::default();
    let long = notes(true, false);
    let doubts = notes(false, true);
    let runnable = || waits_for_a_core(Case::blocks(1));
    let new = || off_core(Case::new());
    let on_core = new().with(|case| case.answers.off_core = false);
    let nobody_waits = new().with(|case| case.answers.tasks = false);
    let table = [
        ("computes", used(half), long),
        ("waited for a core", used(half - 1), nothing),
        ("blocks", Case::blocks(1), long),
        ("free", used(half).beside_a_free_permit(), nothing),
        ("stuck", Case::blocks(1).stuck(), long),
        ("waits for a core", runnable(), nothing),
        ("the same, free", runnable().beside_a_free_permit(), nothing),
        ("new", new(), doubts),
        ("new, on a core", on_core, nothing),
        ("new, waits for a core", waits_for_a_core(new()), nothing),
        ("new, free", new().beside_a_free_permit(), nothing),
        ("new, nobody waits", nobody_waits, nothing),
        ("new, stuck", new().stuck(), long),
    ];
    for (name, mut case, notes) in table {
        assert_eq!(case.verdict().notes, notes, "{name}");
    }
}

/// What costs is asked only if the answer matters.
#[test]
fn the_system_is_asked_rarely() {
    let rests = |case: Case| case.with(|case| case.view.state = WorkerState::Parked);
    // How often: the CPU clock, and what the thread waits for.
    let free = |case: Case| case.beside_a_free_permit();
    let stalls = Case::blocks(THRESHOLD_NS).reported();
    let computes = Case::computes(THRESHOLD_NS);
    let table = [
        ("rests", rests(Case::blocks(1)), (0, 0)),
        ("computes", Case::computes(1), (1, 0)),
        ("new", Case::new().next_poll(), (1, 0)),
        ("blocks", Case::blocks(1), (1, 1)),
        ("free", free(Case::blocks(1)), (1, 0)),
        ("free, child", free(Case::blocks(1).has_child()), (1, 1)),
        ("stuck", Case::blocks(1).stuck(), (1, 0)),
        ("stuck, stalls", stalls.stuck(), (1, 1)),
        ("computes, stalls", computes.reported(), (1, 1)),
    ];
    for (name, mut case, asked) in table {
        case.verdict();
        let answers = &case.answers;
        assert_eq!(
            (answers.clocks.get(), answers.reasons.get()),
            asked,
            "{name}"
        );
    }
}
