//! What the test harness writes at the end of each program of tests.

/// The counts of a log, which may have several programs of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    pub(crate) passed: usize,
    pub(crate) ignored: usize,
    pub(crate) failed: usize,
}

impl Results {
    /// The sums of the lines `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    pub(crate) fn of(log: &str) -> Self {
        let mut sums = Self::default();
        for line in log.lines() {
            let counts = line
                .strip_prefix("test result: ")
                .and_then(|line| line.split_once(". "));
            if let Some((_, counts)) = counts {
                sums.passed += number_of(" passed", counts);
                sums.ignored += number_of(" ignored", counts);
                sums.failed += number_of(" failed", counts);
            }
        }
        sums
    }
}

fn number_of(what: &str, counts: &str) -> usize {
    counts
        .split("; ")
        .find_map(|count| count.strip_suffix(what)?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_the_programs_of_a_log() {
        let log = "\
running 4 tests
test a ... ok
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s

a program that says: test result: ok. 9 passed; 9 ignored
test result: FAILED. 20 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.00s
";
        let expected = Results {
            passed: 23,
            ignored: 3,
            failed: 1,
        };
        assert_eq!(Results::of(log), expected);
        assert_eq!(Results::of("nothing ran"), Results::default());
    }
}
