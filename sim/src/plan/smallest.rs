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
//! 4. each one that is left with the least size, and else with one between;
//! 5. from 3 on again, until nothing changes: a fault that became short may make another one
//!    superfluous.
//!
//! Two failures are the same if they are of one [`Kind`]: the same host fails, and the first line
//! of what it fails with is the same, without digits. The size of a fault is how long it lasts, or
//! how far a clock jumps.
//!
//! *Invariant*: what is found fails. Without any one of its faults it does not fail, and with any
//! one of them halved once more neither, if [`RUNS`] were enough.
//!
//! A fault that is left out changes what comes after it, as any change does. So there may be a
//! smaller plan that leaves out two at once.
//!
//! The simulation that the check gives to the test is told the numbers of the faults that are kept,
//! and tells those of the faults that have begun. Another one that the test makes has all its
//! faults each time.
//!
//! Rejected: to draw other plans that are smaller. They are other runs, which fail as seldom as
//! any.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use crate::failure::{Failed, Kind};

/// Runs of a seed to find its smallest plan.
const RUNS: usize = 100;

/// The faults of a plan that happen: their numbers, counted from 1, and how often their sizes are
/// halved.
///
/// As text it is what `WS_FAULTS` has: `3,7/2` is the third, and the seventh for a quarter of its
/// time; `none` is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kept(Vec<(usize, u32)>);

impl Kept {
    /// How often the size of a fault is halved. None if it does not happen.
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

/// What a run has drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawn {
    /// The number of faults that were planned.
    pub(crate) planned: usize,
    /// Those that have begun: their numbers, and how often they can be halved.
    pub(crate) begun: Vec<(usize, u32)>,
}

/// The smallest plan that was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Smallest {
    pub(crate) kept: Kept,
    /// What it fails with.
    pub(crate) text: String,
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

/// Looks for the smallest plan with which a seed fails in this way. None if no faults were planned,
/// if none had begun, if the seed does not fail again, or if it came to a limit of steps.
pub(crate) fn smallest(
    failed: &Failed,
    run: impl FnMut(Option<&Kept>) -> Option<Failed>,
) -> Option<Smallest> {
    // Runs up to a limit of steps are long, and a hundred of them too long.
    if failed.kind == Kind::Steps || failed.drawn.begun.is_empty() {
        return None;
    }
    let mut search = Search {
        run,
        last: failed.clone(),
        runs: 0,
        passed: BTreeSet::new(),
    };
    if !search.fails(None) {
        return None;
    }
    let Drawn { planned, begun } = search.last.drawn.clone();
    let mut kept = Kept(begun.iter().map(|(number, _)| (*number, 0)).collect());
    if search.fails(Some(&Kept::default())) {
        kept = Kept::default();
    }
    search.shrink(&mut kept, &begun.into_iter().collect());
    Some(Smallest {
        kept,
        text: search.last.text,
        planned,
        runs: search.runs,
    })
}

struct Search<R> {
    run: R,
    /// The last run that failed so.
    last: Failed,
    runs: usize,
    /// What does not fail so.
    passed: BTreeSet<Kept>,
}

impl<R: FnMut(Option<&Kept>) -> Option<Failed>> Search<R> {
    fn fails(&mut self, kept: Option<&Kept>) -> bool {
        if self.runs == RUNS || kept.is_some_and(|kept| self.passed.contains(kept)) {
            return false;
        }
        self.runs += 1;
        match (self.run)(kept).filter(|failed| failed.kind == self.last.kind) {
            Some(failed) => {
                self.last = failed;
                true
            }
            None => {
                self.passed.extend(kept.cloned());
                false
            }
        }
    }

    fn shrink(&mut self, kept: &mut Kept, most: &BTreeMap<usize, u32>) {
        loop {
            let before = kept.clone();
            self.leave_out(kept);
            self.halve(kept, most);
            if *kept == before {
                return;
            }
        }
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
            match all.into_iter().find(|fewer| self.fails(Some(fewer))) {
                Some(fewer) => {
                    *kept = fewer;
                    parts = (parts - 1).max(2);
                }
                None if size == 1 => return,
                None => parts = (2 * parts).min(kept.0.len()),
            }
        }
    }

    /// Halves each one as often as it still fails: with the most halvings, or by bisection.
    fn halve(&mut self, kept: &mut Kept, most: &BTreeMap<usize, u32>) {
        for place in 0..kept.0.len() {
            let (number, mut fails) = kept.0[place];
            let mut passes = 1 + most.get(&number).copied().unwrap_or(0);
            let mut next = passes - 1;
            while fails + 1 < passes {
                let mut smaller = kept.clone();
                smaller.0[place].1 = next;
                if self.fails(Some(&smaller)) {
                    (fails, *kept) = (next, smaller);
                } else {
                    passes = next;
                }
                next = fails + (passes - fails) / 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test that has found something after these of its faults have begun.
    fn failed(what: &str, planned: usize, begun: impl Iterator<Item = usize>) -> Failed {
        let begun = begun.map(|number| (number, 11)).collect();
        Failed {
            text: what.to_owned(),
            kind: Kind::of_test(what),
            drawn: Drawn { planned, begun },
        }
    }

    /// Searches in a run of 30 faults, which can be halved 11 times. 25 of them have begun.
    fn search(fails: impl Fn(&Kept) -> bool) -> Option<Smallest> {
        let all = Kept((1..=25).map(|number| (number, 0)).collect());
        smallest(&failed("7 of 9 are lost", 30, 1..=25), |kept| {
            let kept = kept.unwrap_or(&all);
            let begun = kept.0.iter().map(|(number, _)| *number);
            fails(kept).then(|| failed("12 of 90 are lost\nand more", 30, begun))
        })
    }

    /// Whether the faults are there, halved at most so often.
    fn has(kept: &Kept, needed: &[(usize, u32)]) -> bool {
        let is_there = |(number, most): &(usize, u32)| kept.halvings(*number) <= Some(*most);
        let mut needed = needed.iter();
        needed.all(|one| kept.halvings(one.0).is_some() && is_there(one))
    }

    #[test]
    fn the_faults_that_matter_are_found_with_the_size_that_they_need() {
        for needed in [
            vec![(17, 2)],
            vec![(1, 0), (25, 11)],
            vec![(3, 7), (4, 1), (20, 10)],
        ] {
            let found = search(|kept| has(kept, &needed)).expect("it fails");
            assert!(found.runs <= 60, "{}", found.runs);
            assert_eq!((found.kept, found.planned), (Kept(needed), 30));
        }
    }

    // Fails without the second round.
    #[test]
    fn a_fault_that_only_a_long_one_needs_is_left_out() {
        let found = search(|kept| match kept.halvings(9) {
            // As long as it is, it needs another one.
            Some(0..3) => kept.halvings(4).is_some(),
            Some(halvings) => halvings <= 5,
            None => false,
        });
        assert_eq!(found.expect("it fails").kept, Kept(vec![(9, 5)]));
    }

    #[test]
    fn no_fault_of_what_is_found_can_be_left_out_or_halved() {
        type Fails = fn(&Kept) -> bool;
        let programs: [Fails; 4] = [
            |kept| has(kept, &[(2, 3)]) || has(kept, &[(7, 1), (8, 9)]),
            |kept| kept.0.len() >= 5 && has(kept, &[(11, 4)]),
            |kept| {
                kept.0
                    .iter()
                    .map(|(_, halvings)| 2048 >> halvings)
                    .sum::<u32>()
                    > 3_000
            },
            |kept| {
                kept.0
                    .iter()
                    .any(|(number, halvings)| number % 6 == 1 && halvings % 3 == 0)
            },
        ];
        for (place, fails) in programs.into_iter().enumerate() {
            let found = search(fails).expect("it fails");
            let Kept(kept) = &found.kept;
            assert!(
                found.runs < RUNS && fails(&found.kept),
                "{place}: {found:?}"
            );
            for place in 0..kept.len() {
                let (mut fewer, mut smaller) = (kept.clone(), kept.clone());
                fewer.remove(place);
                assert!(fewer.is_empty() || !fails(&Kept(fewer)), "{found:?}");
                smaller[place].1 += 1;
                assert!(smaller[place].1 > 11 || !fails(&Kept(smaller)), "{found:?}");
            }
        }
    }

    #[test]
    fn faults_that_have_nothing_to_do_with_it_are_left_out() {
        let found = search(|_| true).expect("it fails");
        assert_eq!(found.kept, Kept::default());
        assert_eq!(found.runs, 2);
        let text = found.to_string();
        assert!(text.ends_with("0 made it fail (found in 2 runs)"), "{text}");
    }

    #[test]
    fn another_failure_does_not_count() {
        let found = smallest(&failed("lost, after a crash", 2, 1..=2), |kept| {
            let after = if kept.is_some() { "pause" } else { "crash" };
            Some(failed(&format!("lost, after a {after}"), 2, 1..=2))
        });
        assert_eq!(found.expect("it fails").kept, Kept(vec![(1, 0), (2, 0)]));
    }

    #[test]
    fn the_work_is_bounded() {
        let mut runs = 0;
        let lost = failed("lost", 500, 1..=500);
        let found = smallest(&lost, |_| {
            runs += 1;
            (runs == 1).then(|| lost.clone())
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
