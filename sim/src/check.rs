//! Many seeds, and the line that replays the one that failed.

use std::{
    any::Any,
    env, fmt,
    ops::{Range, RangeInclusive},
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, PoisonError},
    thread,
};

use crate::{Sim, record};

/// Runs a test with each of these seeds. `f` adds the hosts; if it does not call [`Sim::run`], that
/// is done for it.
///
/// Each seed has a fresh thread, and as many run at once as there are CPUs. With `WS_SEED` in the
/// environment that seed alone runs.
///
/// A seed that fails runs once more and is recorded: the message has the last events of each host.
/// With `WS_SIM_TRACE=FOLDER` in the environment, `FOLDER/TEST-SEED.pftrace` is written: see
/// [`Recording::write_perfetto`](crate::Recording::write_perfetto).
///
/// # Panics
///
/// If a seed fails: the message ends with the line that replays it. And if there is no seed.
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
    assert!(
        !seeds.is_empty(),
        "there is no seed in {seeds:?}, so nothing would run"
    );
    let test = thread::current().name().unwrap_or("").to_owned();
    let failed = match env::var("WS_SEED") {
        Err(env::VarError::NotPresent) => {
            let jobs = thread::available_parallelism().map_or(1, usize::from);
            let failed = first_failure(seeds.start..=seeds.end - 1, jobs, &f);
            failed.map(|(seed, what)| (seed, once_more(seed, &test, what, &f)))
        }
        Ok(text) => match parse(&text) {
            Ok(seed) => recorded(seed, &test, &f).map(|what| (seed, what)),
            Err(problem) => panic!("{problem}"),
        },
        Err(problem) => panic!("WS_SEED: {problem}"),
    };
    if let Some((seed, what)) = failed {
        panic!("{what}\n\nreplay it: WS_SEED={seed} cargo test {test}");
    }
}

/// Runs a seed on a fresh thread, whose hash maps have no keys yet, and records it.
fn recorded(seed: u64, test: &str, f: &(impl Fn(&Sim) + Sync)) -> Option<String> {
    on_fresh_thread(seed, || {
        record::ask(test);
        one(seed, f)
    })
}

/// Runs a seed that failed once more, for what its recording tells.
fn once_more(seed: u64, test: &str, what: String, f: &(impl Fn(&Sim) + Sync)) -> String {
    let differs = match recorded(seed, test, f) {
        Some(again) if again.lines().next() == what.lines().next() => return again,
        Some(again) => format!("it ended otherwise:\n{again}"),
        None => "it did not fail.".to_owned(),
    };
    format!(
        "{what}\n\nThe seed ran once more, to be recorded, and {differs}\n\
         So the run depends on more than the seed, such as a static of the program or the order \
         of addresses. The page docs/simulation.md has a list."
    )
}

/// What a seed fails with on a fresh thread.
fn on_fresh_thread(seed: u64, run: impl FnOnce() -> Option<String> + Send) -> Option<String> {
    let answer = thread::scope(|scope| {
        let thread = thread::Builder::new().name(format!("seed {seed}"));
        let thread = thread.spawn_scoped(scope, run);
        thread.expect("the system has a thread").join()
    });
    answer.unwrap_or_else(|payload| Some(text_of(&*payload)))
}

/// What `WS_SEED` says.
fn parse(text: &str) -> Result<u64, NotASeed<'_>> {
    text.trim().parse().map_err(|_| NotASeed(text))
}

struct NotASeed<'a>(&'a str);

impl fmt::Display for NotASeed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0;
        write!(
            f,
            "WS_SEED is {text:?}: give a number from 0 to {}",
            u64::MAX
        )
    }
}

/// The lowest seed that fails, of those up to the first that was seen to fail.
fn first_failure(
    seeds: RangeInclusive<u64>,
    jobs: usize,
    f: &(impl Fn(&Sim) + Sync),
) -> Option<(u64, String)> {
    let seeds = Mutex::new(seeds);
    let failed = Mutex::new(None::<(u64, String)>);
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
            let Some(what) = on_fresh_thread(seed, || one(seed, f)) else {
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

fn one(seed: u64, f: &impl Fn(&Sim)) -> Option<String> {
    let sim = Sim::new(seed);
    let set_up = panic::catch_unwind(AssertUnwindSafe(|| f(&sim)));
    if let Err(payload) = set_up {
        return Some(format!("seed {seed}: {}", text_of(&*payload)));
    }
    if !sim.is_new() {
        return None;
    }
    sim.run().err().map(|failure| failure.to_string())
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
        let failed = first_failure(0..=8, 2, &|sim: &Sim| {
            both.wait();
            panic!("planted in {}", sim.seed());
        });
        let (seed, what) = failed.expect("they fail");
        assert_eq!((seed, what.as_str()), (0, "seed 0: planted in 0"));
    }

    #[test]
    fn what_is_no_seed_is_told() {
        assert_eq!(parse(" 17\n").ok(), Some(17));
        for text in ["", "x", "-1", "18446744073709551616", "0x7"] {
            let problem = parse(text).err().map(|problem| problem.to_string());
            let problem = problem.expect("it is no seed");
            assert!(problem.contains("give a number from 0 to 18446744073709551615"));
        }
    }
}
