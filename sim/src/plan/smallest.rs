//! The smallest plan that fails: the same seed again, with faults left out.
//!
//! # How it works
//!
//! A run that fails has faults that have nothing to do with it. [`smallest`] runs the seed again
//! without some of them, and keeps what fails in the same way (delta debugging: Zeller and
//! Hildebrandt, TSE 2002):
//!
//! 1. without all faults: if it fails, they have nothing to do with it;
//! 2. without those that had not begun when it failed;
//! 3. without each half, each quarter, and so on, of those that are left;
//! 4. each one that is left for half of its time, a quarter, and so on.
//!
//! Two failures are the same if their first lines are, without the numbers and the time.
//!
//! A fault that is left out changes what comes after it, as any change does. So the smallest plan
//! is one that fails, and not surely the smallest of all. [`RUNS`] bounds the work.
//!
//! The numbers of the faults that are kept go to the run by a thread-local, and so do those of the
//! faults that have begun back to here. Each run has a thread of its own.
//!
//! Rejected: to draw other plans that are smaller. They are other runs, which fail as seldom as
//! any.

use std::{cell::RefCell, fmt, str::FromStr};

use crate::failure::HEADING;

/// Runs of a seed to find its smallest plan.
const RUNS: usize = 100;

/// Halvings of the time of a fault.
const HALVINGS: u32 = 5;

/// The faults of a plan that happen: their numbers, counted from 1, and how often their times are
/// halved.
///
/// As text it is what `WS_FAULTS` has: `3,7/2` is the third, and the seventh for a quarter of its
/// time; `none` is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept(Vec<(usize, u32)>);

impl Kept {
    /// How often the time of a fault is halved. None if it does not happen.
    pub(crate) fn halvings(&self, number: usize) -> Option<u32> {
        let entry = self.0.iter().find(|(kept, _)| *kept == number);
        entry.map(|(_, halvings)| *halvings)
    }

    /// The largest number.
    pub(crate) fn last(&self) -> usize {
        self.0.iter().map(|(number, _)| *number).max().unwrap_or(0)
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (place, (number, halvings)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{number}")?;
            if *halvings > 0 {
                write!(f, "/{halvings}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "none" {
            return Ok(Self::default());
        }
        let one = |part: &str| {
            let (number, halvings) = part.split_once('/').unwrap_or((part, "0"));
            let number = number.trim().parse().ok().filter(|number| *number > 0)?;
            Some((number, halvings.trim().parse().ok()?))
        };
        let all: Option<Vec<_>> = text.split(',').map(one).collect();
        all.map(Self).ok_or_else(|| {
            format!(
                "WS_FAULTS is {text:?}: give the numbers of faults, such as \"3,7\", or \"none\""
            )
        })
    }
}

#[derive(Default)]
struct OfThread {
    kept: Option<Kept>,
    planned: usize,
    begun: Vec<usize>,
}

thread_local! {
    static OF_THREAD: RefCell<OfThread> = RefCell::default();
}

/// The next run of this thread has these faults alone.
pub(crate) fn keep(kept: Option<Kept>) {
    OF_THREAD.set(OfThread {
        kept,
        ..OfThread::default()
    });
}

/// The faults that happen, if not all do.
pub(crate) fn kept() -> Option<Kept> {
    OF_THREAD.with_borrow(|it| it.kept.clone())
}

/// Notes that so many faults are planned, or that one of them has begun.
pub(crate) fn told(planned: Option<usize>, begun: Option<usize>) {
    OF_THREAD.with_borrow_mut(|it| {
        it.planned = planned.unwrap_or(it.planned);
        it.begun.extend(begun);
    });
}

/// The number of faults that were planned for the last run of this thread, and those that have
/// begun.
pub(crate) fn drawn() -> (usize, Vec<usize>) {
    OF_THREAD.with_borrow(|it| (it.planned, it.begun.clone()))
}

/// What a run ended with, and its [`drawn`].
pub(crate) type Run = (Option<String>, (usize, Vec<usize>));

/// The smallest plan that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Smallest {
    pub(crate) kept: Kept,
    /// What it fails with.
    pub(crate) what: String,
    pub(crate) planned: usize,
    pub(crate) runs: usize,
}

impl fmt::Display for Smallest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kept,
            planned,
            runs,
            ..
        } = self;
        let left = kept.0.len();
        write!(
            f,
            "of {planned} planned faults {left} made it fail (found in {runs} runs)"
        )
    }
}

/// Looks for the smallest plan with which a seed fails as `what` says. None if no faults were
/// planned, if none had begun, or if the seed does not fail again.
pub(crate) fn smallest(what: &str, run: impl FnMut(Option<&Kept>) -> Run) -> Option<Smallest> {
    if !what.contains(HEADING) {
        return None;
    }
    let mut search = Search {
        run,
        kind: kind(what),
        what: what.to_owned(),
        runs: 0,
    };
    let (planned, begun) = search.fails(None)?;
    let mut kept = Kept(begun.into_iter().map(|number| (number, 0)).collect());
    if search.fails(Some(&Kept::default())).is_some() {
        kept = Kept::default();
    }
    search.leave_out(&mut kept);
    search.shorten(&mut kept);
    Some(Smallest {
        kept,
        what: search.what,
        planned,
        runs: search.runs,
    })
}

struct Search<R> {
    run: R,
    kind: String,
    /// Of the last run that failed so.
    what: String,
    runs: usize,
}

impl<R: FnMut(Option<&Kept>) -> Run> Search<R> {
    fn fails(&mut self, kept: Option<&Kept>) -> Option<(usize, Vec<usize>)> {
        if self.runs == RUNS {
            return None;
        }
        self.runs += 1;
        let (what, drawn) = (self.run)(kept);
        let what = what.filter(|what| kind(what) == self.kind)?;
        self.what = what;
        Some(drawn)
    }

    fn leave_out(&mut self, kept: &mut Kept) {
        let mut parts = 2;
        while kept.0.len() > 1 {
            let size = kept.0.len().div_ceil(parts);
            let without = |place: usize| {
                let mut fewer = kept.0.clone();
                fewer.drain(place..(place + size).min(fewer.len()));
                Kept(fewer)
            };
            let places = (0..kept.0.len()).step_by(size);
            let all: Vec<Kept> = places.map(without).collect();
            match all
                .into_iter()
                .find(|fewer| self.fails(Some(fewer)).is_some())
            {
                Some(fewer) => {
                    *kept = fewer;
                    parts = (parts - 1).max(2);
                }
                None if size == 1 => return,
                None => parts = (2 * parts).min(kept.0.len()),
            }
        }
    }

    fn shorten(&mut self, kept: &mut Kept) {
        for place in 0..kept.0.len() {
            for halvings in 1..=HALVINGS {
                let mut shorter = kept.clone();
                shorter.0[place].1 = halvings;
                if self.fails(Some(&shorter)).is_none() {
                    break;
                }
                *kept = shorter;
            }
        }
    }
}

/// What two failures have in common if they are of the same kind.
fn kind(what: &str) -> String {
    let line = what.lines().next().unwrap_or("");
    let end = line.rfind(", after ").unwrap_or(line.len());
    let is_digit = |c: &char| c.is_ascii_digit();
    line[..end].chars().filter(|c| !is_digit(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches in a run of 30 faults. 25 of them have begun, and the run fails with these.
    fn search(needed: &[usize], least: u32) -> Option<Smallest> {
        smallest(
            "host \"c\": 7 of 9 are lost, after 3s of time\nfaults of its plan:",
            |kept| {
                let halvings = |number| kept.map_or(Some(0), |kept| kept.halvings(number));
                let fails = |number: &usize| halvings(*number).is_some_and(|it| it <= least);
                let drawn = (
                    30,
                    (1..=25)
                        .filter(|number| halvings(*number).is_some())
                        .collect(),
                );
                let fails = needed.iter().all(fails);
                let what = "host \"c\": 12 of 90 are lost, after 800ms of time\nand more";
                (fails.then(|| what.to_owned()), drawn)
            },
        )
    }

    #[test]
    fn the_faults_that_matter_are_found() {
        for needed in [vec![17], vec![1, 25], vec![3, 4, 20]] {
            let found = search(&needed, 2).expect("it fails");
            let wanted = needed.iter().map(|number| (*number, 2)).collect();
            assert_eq!((found.kept, found.planned), (Kept(wanted), 30));
            assert!(found.runs <= 60, "{}", found.runs);
        }
    }

    #[test]
    fn faults_that_have_nothing_to_do_with_it_are_left_out() {
        let found = search(&[], 0).expect("it fails");
        assert_eq!(found.kept, Kept::default());
        assert_eq!(found.runs, 2);
        let text = found.to_string();
        assert!(text.ends_with("0 made it fail (found in 2 runs)"), "{text}");
    }

    #[test]
    fn another_failure_does_not_count() {
        let found = smallest("host \"a\": lost, after 1s\nfaults of its plan:", |kept| {
            let what = if kept.is_some() { "found" } else { "lost" };
            let what = format!("host \"a\": {what}, after 2s");
            (Some(what), (2, vec![1, 2]))
        });
        assert_eq!(found.expect("it fails").kept, Kept(vec![(1, 0), (2, 0)]));
    }

    #[test]
    fn the_work_is_bounded() {
        let mut runs = 0;
        let all: Vec<usize> = (1..=500).collect();
        let found = smallest("lost\nfaults of its plan:", |_| {
            runs += 1;
            let what = (runs == 1).then(|| "lost".to_owned());
            (what, (500, all.clone()))
        });
        assert_eq!(found.expect("it fails").runs, RUNS);
        assert_eq!(runs, RUNS);
    }

    #[test]
    fn what_is_kept_is_read_as_it_is_written() {
        for text in ["none", "3", "3,7/2,12"] {
            assert_eq!(text.parse::<Kept>().expect("it is right").to_string(), text);
        }
        for text in ["", "0", "x", "3;4", "1/x"] {
            let problem = text.parse::<Kept>().expect_err("it is wrong");
            assert!(problem.contains("give the numbers of faults"), "{problem}");
        }
    }
}
