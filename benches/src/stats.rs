//! Medians, spreads, and the ratios that the comparison rests on.

/// The middle of some figures and where their middle half lies.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    /// First and third quartile.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// How many there are.
    #[serde(skip)]
    pub(crate) count: usize,
    /// How many of them are above 1, and below.
    #[serde(skip)]
    pub(crate) above: usize,
    #[serde(skip)]
    pub(crate) below: usize,
}

impl Spread {
    /// The spread of these figures, or nothing of none.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        if sorted.is_empty() {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        Some(Spread {
            median: quantile(&sorted, 0.5),
            low: quantile(&sorted, 0.25),
            high: quantile(&sorted, 0.75),
            count: sorted.len(),
            above: sorted.iter().filter(|figure| **figure > 1.0).count(),
            below: sorted.iter().filter(|figure| **figure < 1.0).count(),
        })
    }

    /// Where a ratio stands. More than 1 is good.
    pub(crate) fn verdict(self) -> Verdict {
        if 4 * self.above >= 3 * self.count {
            Verdict::Ahead
        } else if 4 * self.below >= 3 * self.count {
            Verdict::Behind
        } else {
            Verdict::Level
        }
    }
}

/// Whether one runtime is faster than another, as far as the rounds can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// In at least three quarters of the rounds.
    Ahead,
    /// The spread lies on both sides.
    Level,
    /// Slower in at least three quarters of the rounds.
    Behind,
}

/// The ratios of two runtimes, round by round: how many times longer `other` took than `this`.
/// Rounds that either of them missed are left out.
pub(crate) fn ratios(other: &[Option<f64>], this: &[Option<f64>]) -> Option<Spread> {
    Spread::of(other.iter().zip(this).filter_map(|pair| match pair {
        (Some(other), Some(this)) if *this > 0.0 => Some(other / this),
        _ => None,
    }))
}

/// The median, or no number of none.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(figures).map_or(f64::NAN, |spread| spread.median)
}

/// The geometric mean, or nothing of none.
pub(crate) fn geometric_mean(figures: &[f64]) -> Option<f64> {
    if figures.is_empty() {
        return None;
    }
    let sum: f64 = figures.iter().map(|figure| figure.ln()).sum();
    Some((sum / figures.len() as f64).exp())
}

/// A quantile of sorted figures, with a straight line between neighbours.
fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * at;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::{Spread, Verdict, geometric_mean, ratios};

    #[test]
    fn spread_is_median_and_quartiles() {
        let spread = Spread::of([5.0, 1.0, 3.0, 2.0, 4.0]).expect("there are figures");
        assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 4.0));
        assert_eq!(
            Spread::of([1.0, 2.0]).expect("there are figures").median,
            1.5
        );
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let other = [Some(10.0), Some(40.0), None, Some(9.0)];
        let this = [Some(5.0), Some(20.0), Some(1.0), Some(4.5)];
        let spread = ratios(&other, &this).expect("three rounds have both");
        assert_eq!((spread.low, spread.median, spread.high), (2.0, 2.0, 2.0));
        assert_eq!((spread.count, spread.above, spread.below), (3, 3, 0));
        assert_eq!(ratios(&[None], &[Some(1.0)]), None);
    }

    #[test]
    fn three_quarters_of_the_rounds_decide() {
        let verdict = |figures: &[f64]| {
            let spread = Spread::of(figures.iter().copied());
            spread.expect("there are figures").verdict()
        };
        // Two of three are fewer, though the quartile between them lies above.
        assert_eq!(verdict(&[0.9, 1.5, 1.5]), Verdict::Level);
        assert_eq!(verdict(&[0.9, 1.5, 1.5, 1.5]), Verdict::Ahead);
        assert_eq!(verdict(&[1.5, 0.9, 0.9]), Verdict::Level);
        assert_eq!(verdict(&[1.5, 0.9, 0.9, 0.9]), Verdict::Behind);
        assert_eq!(verdict(&[1.0, 1.0]), Verdict::Level);
    }

    #[test]
    fn geometric_mean_is_of_ratios() {
        let mean = geometric_mean(&[0.5, 2.0, 8.0]).expect("there are figures");
        assert!((mean - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }
}
