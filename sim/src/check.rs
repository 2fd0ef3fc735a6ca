//! Many seeds, and the line that replays the one that failed.
//!
//! # How it works
//!
//! Each seed has a fresh thread, and as many run at once as there are CPUs. The first failure stops
//! the others. Its message ends with a line of its own: the command that runs that seed alone.
//!
//! Variables of the environment change which seeds run:
//!
//! | variable | what runs |
//! | --- | --- |
//! | `WS_SEED=12` | this seed alone |
//! | `WS_SEED=12 WS_FAULTS=3,7` | this seed, with these faults of its plan alone |
//! | `WS_SEEDS=100000` | so many seeds, from the first of the test on; a test of one seed keeps it |
//!
//! *Invariant*: the seed that is named is the lowest that fails, on any number of CPUs. Seeds begin
//! in their order, and those that have begun are run to their end.
//!
//! Rejected: a process for each seed. It would also reset statics, and cost 1 ms each.

use std::{
    any::Any,
    cell::Cell,
    env, fmt,
    future::Future,
    ops::{Range, RangeInclusive},
    panic::{self, AssertUnwindSafe, Location},
    pin::pin,
    sync::{Mutex, Once, PoisonError},
    task::{Context, Poll, Waker},
    thread,
};

use crate::{
    Builder, Failure, Outcome, Sim,
    failure::{self, Failed, HEADING, Kind},
    plan::{self, Kept},
    program::sealed,
    record, world,
};

thread_local! {
    /// Whether this thread runs a seed of a check, which tells of its failure.
    static CHECKED: Cell<bool> = const { Cell::new(false) };
    /// Whether it runs a seed again that has failed. What panics then was printed already.
    static IS_AGAIN: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test with each of these seeds. `f` adds the hosts; if it does not run the simulation,
/// that is done for it.
///
/// Each seed has a fresh thread, and as many run at once as there are CPUs. With `WS_SEED=12` in
/// the environment that seed alone runs. With `WS_SEEDS=100000` so many run, from the first one on:
/// for a nightly job. [`Builder::check`] is the same for simulations with other settings.
///
/// A seed that fails runs once more and is recorded: the message has the last events of each host.
/// With `WS_SIM_TRACE=FOLDER` in the environment, `FOLDER/TEST-SEED.pftrace` is written: see
/// [`Recording::write_perfetto`](crate::Recording::write_perfetto).
///
/// If the test has a [`Plan`](crate::Plan) of faults, the seed also runs with some of them left
/// out, up to 100 times. The message tells the smallest plan that fails, and how to replay that. It
/// is the plan of the `Sim` that `f` is given: others that `f` makes keep all their faults.
///
/// # Panics
///
/// If a seed fails: the last line of the message is the command that replays it. And if there is
/// no seed.
///
/// ```
/// use std::time::Duration;
///
/// ws_sim::check(0..10, |sim| {
///     sim.client("sleeper", async { ws::time::sleep(Duration::from_secs(3600)).await });
/// });
/// ```
#[track_caller]
pub fn check(seeds: Range<u64>, f: impl Fn(&Sim) + Sync) {
    Sim::builder().check(seeds, f);
}

impl Builder {
    /// As [`check()`], with simulations that this builder makes. Its own seed has no meaning here.
    ///
    /// # Panics
    ///
    /// As [`check()`].
    ///
    /// ```
    /// use ws_sim::{Sim, secs};
    ///
    /// Sim::builder().workers(2).time_limit(secs(60)).check(0..10, |sim| {
    ///     sim.client("sleeper", async { ws::time::sleep(secs(59)).await });
    /// });
    /// ```
    #[track_caller]
    pub fn check(self, seeds: Range<u64>, f: impl Fn(&Sim) + Sync) {
        assert!(
            !seeds.is_empty(),
            "there is no seed in {seeds:?}, so nothing would run"
        );
        let test = thread::current();
        // With one thread for all tests, the harness runs them on the main one.
        let test = test.name().filter(|name| *name != "main").unwrap_or("");
        let f = |sim: &Sim| {
            f(sim);
            None
        };
        self.check_all(test, seeds.start..=seeds.end - 1, &f);
    }

    #[track_caller]
    fn check_all(self, test: &str, seeds: RangeInclusive<u64>, f: &SetUp<'_>) {
        let variable = |name| match env::var(name) {
            Err(env::VarError::NotPresent) => None,
            Ok(text) => Some(text),
            Err(problem) => panic!("{name}: {problem}"),
        };
        let chosen = choose(seeds, variable("WS_SEED"), variable("WS_SEEDS"));
        let chosen = chosen.unwrap_or_else(|problem| panic!("{problem}"));
        let kept = variable("WS_FAULTS").map(|text| match (&chosen, text.parse::<Kept>()) {
            (Chosen::Replay(_), Ok(kept)) => kept,
            (Chosen::Replay(_), Err(problem)) => panic!("{problem}"),
            _ => panic!("WS_FAULTS names the faults of one seed: give WS_SEED too"),
        });
        watch_panics();
        // Files of recordings have names also where tests have none.
        let caller = Location::caller();
        let named = match test {
            "" => format!("{}-{}", caller.file(), caller.line()),
            test => test.to_owned(),
        };
        let failed = match chosen {
            Chosen::Replay(seed) => {
                let failed = recorded(&self, seed, &named, (kept.as_ref(), false), f);
                failed.map(|failed| (seed, kept, failed.text))
            }
            Chosen::Seeds(seeds) => {
                let jobs = thread::available_parallelism().map_or(1, usize::from);
                let failed = first_failure(&self, seeds, jobs, f);
                failed.map(|(seed, failed)| told(&self, seed, &named, failed, f))
            }
        };
        if let Some((seed, kept, what)) = failed {
            let faults = kept.map(|kept| format!("WS_FAULTS={kept} "));
            let faults = faults.unwrap_or_default();
            // Without `--exact`, tests whose names have this one in them would run too.
            let test = match test {
                "" => String::new(),
                test => format!(" {test} -- --exact"),
            };
            panic!("{what}\n\nreplay it:\nWS_SEED={seed} {faults}cargo test{test}");
        }
    }
}

/// A test that adds the hosts, and perhaps runs the simulation. It answers with its error.
type SetUp<'a> = dyn Fn(&Sim) -> Option<String> + Sync + 'a;

/// What `#[ws::sim]` calls. `name` is the path of the test, with its crate.
///
/// # Panics
///
/// As [`check()`].
#[track_caller]
pub fn test<T: Outcome>(
    name: &str,
    builder: Builder,
    seeds: RangeInclusive<u64>,
    f: impl Fn(Sim) -> T + Sync,
) {
    let name = name.split_once("::").map_or(name, |(_crate, path)| path);
    let f = |sim: &Sim| sealed::Outcome::error(f(sim.clone()));
    builder.check_all(name, seeds, &f);
}

/// The output of a function under `#[ws::sim]`, which runs outside of all hosts.
///
/// # Panics
///
/// If it waits for something: nothing would wake it.
#[track_caller]
pub fn block<F: Future>(function: F) -> F::Output {
    match pin!(function).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!(
            "a function under `#[ws::sim]` waits outside of all hosts, where no time passes: \
             await there `sim.run()` alone, and put the rest into `sim.client`"
        ),
    }
}

/// Panics with a failure of a run. On a thread of a check this is not printed: the check does that.
pub(crate) fn fail(failure: &Failure) -> ! {
    if CHECKED.get() {
        panic::resume_unwind(Box::new(failure.clone()));
    }
    panic!("{failure}");
}

/// The seeds that run.
#[derive(Debug, PartialEq, Eq)]
enum Chosen {
    Seeds(RangeInclusive<u64>),
    /// One that failed, and is recorded.
    Replay(u64),
}

/// Chooses by what the two variables say.
fn choose(
    seeds: RangeInclusive<u64>,
    seed: Option<String>,
    count: Option<String>,
) -> Result<Chosen, NotANumber> {
    let parse = |name, least, text: String| match text.trim().parse() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(NotANumber { name, text, least }),
    };
    if let Some(text) = seed {
        return parse("WS_SEED", 0, text).map(Chosen::Replay);
    }
    let (first, last) = seeds.into_inner();
    let last = match count {
        Some(text) => {
            let count = parse("WS_SEEDS", 1, text)?;
            let end = first.saturating_add(count - 1);
            if first == last { last } else { end }
        }
        None => last,
    };
    Ok(Chosen::Seeds(first..=last))
}

/// Runs a seed on a fresh thread, whose hash maps have no keys yet, and records it.
fn recorded(
    builder: &Builder,
    seed: u64,
    test: &str,
    (kept, is_again): (Option<&Kept>, bool),
    f: &SetUp<'_>,
) -> Option<Failed> {
    on_fresh_thread(seed, || {
        IS_AGAIN.set(is_again);
        record::ask(test);
        one(builder, seed, kept, f)
    })
}

/// From now on the places of panics are noted, and the hook that was there is not called for a seed
/// that runs again.
fn watch_panics() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            failure::note_panic(info);
            if !IS_AGAIN.get() {
                hook(info);
            }
        }));
    });
}

/// A seed that failed, the faults that made it fail, and what is told of it.
fn told(
    builder: &Builder,
    seed: u64,
    test: &str,
    failed: Failed,
    f: &SetUp<'_>,
) -> (u64, Option<Kept>, String) {
    let smallest = plan::smallest(&failed, |kept| {
        on_fresh_thread(seed, || {
            IS_AGAIN.set(true);
            one(builder, seed, kept, f)
        })
    });
    let Some(smallest) = smallest else {
        let what = once_more(builder, seed, test, (failed.text, None), f);
        return (seed, None, what);
    };
    let note = smallest.to_string();
    let of_it = (smallest.text, Some(&smallest.kept));
    let what = once_more(builder, seed, test, of_it, f);
    (seed, Some(smallest.kept), format!("{what}\n\n{note}"))
}

/// Runs a seed that failed once more, for what its recording tells.
fn once_more(
    builder: &Builder,
    seed: u64,
    test: &str,
    (what, kept): (String, Option<&Kept>),
    f: &SetUp<'_>,
) -> String {
    let again = recorded(builder, seed, test, (kept, true), f);
    let differs = match again.map(|failed| failed.text) {
        Some(again) if what_happened(&again).eq(what_happened(&what)) => return again,
        Some(again) => format!("it ended otherwise:\n{again}"),
        None => "it did not fail.".to_owned(),
    };
    format!(
        "{what}\n\nThe seed ran once more, to be recorded, and {differs}\n\
         So the run depends on more than the seed, such as a static of the program or the order \
         of addresses. \"What differs\" in docs/simulation.md has a list."
    )
}

/// The lines of a failure that say what happened, and when.
fn what_happened(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| !failure::is_beside(line))
}

/// What a seed fails with on a fresh thread.
fn on_fresh_thread(seed: u64, run: impl FnOnce() -> Option<Failed> + Send) -> Option<Failed> {
    let answer = thread::scope(|scope| {
        let thread = thread::Builder::new().name(format!("seed {seed}"));
        let thread = thread.spawn_scoped(scope, || {
            world::seed_body(seed);
            run()
        });
        thread.expect("the system has a thread").join()
    });
    answer.unwrap_or_else(|payload| {
        let text = text_of(&*payload);
        Some(Failed {
            kind: Kind::of_test(&text),
            text,
            drawn: plan::Drawn::default(),
        })
    })
}

struct NotANumber {
    name: &'static str,
    text: String,
    least: u64,
}

impl fmt::Display for NotANumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, text, least } = self;
        let most = u64::MAX;
        write!(
            f,
            "{name} is {text:?}: give a number from {least} to {most}"
        )
    }
}

/// The lowest seed that fails, of those up to the first that was seen to fail.
fn first_failure(
    builder: &Builder,
    seeds: RangeInclusive<u64>,
    jobs: usize,
    f: &SetUp<'_>,
) -> Option<(u64, Failed)> {
    let seeds = Mutex::new(seeds);
    let failed = Mutex::new(None::<(u64, Failed)>);
    let failed_seed = || {
        let failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map(|(seed, _)| *seed)
    };
    let work = || {
        while failed_seed().is_none() {
            let next = seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(seed) = next else {
                return;
            };
            let Some(what) = on_fresh_thread(seed, || one(builder, seed, None, f)) else {
                continue;
            };
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                *failed = Some((seed, what));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn one(builder: &Builder, seed: u64, kept: Option<&Kept>, f: &SetUp<'_>) -> Option<Failed> {
    CHECKED.set(true);
    let sim = builder.clone().seed(seed).build();
    sim.keep(kept.cloned());
    // A closure of `Sim::after` is the test's, and may panic in the run.
    let test = || match f(&sim) {
        None if sim.is_new() => sim.try_run().err().map(|failure| failure.to_string()),
        error => error,
    };
    let text = match panic::catch_unwind(AssertUnwindSafe(test)) {
        Ok(error) => error?,
        Err(payload) => match payload.downcast::<Failure>() {
            Ok(failure) => failure.to_string(),
            Err(payload) => format!("seed {seed}: {}", text_of(&*payload)),
        },
    };
    // The test may have unwrapped a failure of its run.
    let of_run = sim
        .failed()
        .filter(|of_run| text.contains(&of_run.to_string()));
    let (kind, text) = match of_run {
        Some(failure) => (failure.kind(), text),
        // It may be that of another simulation, which has told all of its run.
        None if sim.is_new() || Failure::is_told_in(&text) => (Kind::of_test(&text), text),
        None => (Kind::of_test(&text), with_its_run(&sim, text)),
    };
    Some(Failed {
        text,
        kind,
        drawn: sim.drawn(),
    })
}

/// What a test found after its run, or beside it, with what a failure of the run would tell.
fn with_its_run(sim: &Sim, mut what: String) -> String {
    let faults = sim.faults_so_far();
    if !faults.is_empty() {
        what += &format!("\n{HEADING}\n{}", faults.trim_end());
    }
    if let Some(recording) = sim.recording() {
        what += &format!("\n{}", record::told(&recording).text.trim_end());
    }
    what
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a text").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_of_two_that_fail_is_named() {
        let both = std::sync::Barrier::new(2);
        let failed = first_failure(&Sim::builder(), 0..=8, 2, &|sim: &Sim| {
            both.wait();
            panic!("planted in {}", sim.seed());
        });
        let (seed, failed) = failed.expect("they fail");
        assert_eq!((seed, failed.text.as_str()), (0, "seed 0: planted in 0"));
    }

    /// The seeds of a test with ten, or the problem.
    fn chosen(seed: Option<&str>, count: Option<&str>) -> Result<Chosen, String> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        choose(5..=14, owned(seed), owned(count)).map_err(|problem| problem.to_string())
    }

    #[test]
    fn the_environment_chooses_the_seeds() {
        assert_eq!(chosen(None, None), Ok(Chosen::Seeds(5..=14)));
        assert_eq!(chosen(Some(" 17\n"), None), Ok(Chosen::Replay(17)));
        assert_eq!(chosen(None, Some("1000")), Ok(Chosen::Seeds(5..=1004)));
        assert_eq!(chosen(None, Some("1")), Ok(Chosen::Seeds(5..=5)));
        assert_eq!(chosen(Some("17"), Some("1000")), Ok(Chosen::Replay(17)));
        let most = u64::MAX.to_string();
        assert_eq!(chosen(None, Some(&most)), Ok(Chosen::Seeds(5..=u64::MAX)));
        // A test that is about one seed stays so.
        let one = choose(7..=7, None, Some("1000".to_owned()));
        assert_eq!(one.ok(), Some(Chosen::Seeds(7..=7)));
    }

    #[test]
    fn what_is_no_number_is_told() {
        for text in ["", "x", "-1", "18446744073709551616", "0x7"] {
            let problem = chosen(Some(text), None).expect_err("it is no seed");
            let wanted = "give a number from 0 to 18446744073709551615";
            assert_eq!(problem, format!("WS_SEED is {text:?}: {wanted}"));
        }
        for text in ["", "x", "0"] {
            let problem = chosen(None, Some(text)).expect_err("it is no number of seeds");
            let wanted = "give a number from 1 to 18446744073709551615";
            assert_eq!(problem, format!("WS_SEEDS is {text:?}: {wanted}"));
        }
    }
}
