//! Many seeds, and the line that replays the one that failed.

use std::{
    any::Any,
    env, fmt,
    ops::{Range, RangeInclusive},
    panic::{self, AssertUnwindSafe},
    sync::{Mutex, PoisonError},
    thread,
};

use crate::Sim;

/// Runs a test with each of these seeds. `f` adds the hosts; if it does not call [`Sim::run`], that
/// is done for it.
///
/// Each seed has a fresh thread, and as many run at once as there are CPUs. With `WS_SEED` in the
/// environment that seed alone runs.
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
    let (seeds, jobs) = match env::var("WS_SEED") {
        Err(env::VarError::NotPresent) => (
            seeds.start..=seeds.end - 1,
            thread::available_parallelism().map_or(1, usize::from),
        ),
        Ok(text) => match parse(&text) {
            Ok(seed) => (seed..=seed, 1),
            Err(problem) => panic!("{problem}"),
        },
        Err(problem) => panic!("WS_SEED: {problem}"),
    };
    let test = thread::current().name().unwrap_or("").to_owned();
    if let Some((seed, what)) = first_failure(seeds, jobs, &f) {
        panic!("{what}\n\nreplay it: WS_SEED={seed} cargo test {test}");
    }
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
            // A fresh thread: its hash maps have no keys yet.
            let name = format!("seed {seed}");
            let answer = thread::scope(|scope| {
                let thread = thread::Builder::new().name(name);
                let thread = thread.spawn_scoped(scope, || one(seed, f));
                thread.expect("the system has a thread").join()
            });
            let what = match answer {
                Ok(None) => continue,
                Ok(Some(what)) => what,
                Err(payload) => text_of(&*payload),
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
