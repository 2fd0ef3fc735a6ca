//! The random numbers of the scheduler: which P is stolen from, in which order (F1: everybody is
//! reached).
//!
//! Xorshift (Marsaglia, "Xorshift RNGs", 2003), 64 bits of state: three shifts a number, good
//! enough to spread thieves, and replayed from a seed.

use std::cell::Cell;

/// A generator that only its owner's thread uses.
#[derive(Debug)]
pub struct Rng(Cell<u64>);

impl Rng {
    /// A generator whose numbers follow from `seed` and `stream`.
    #[inline]
    pub fn new(seed: u64, stream: u64) -> Self {
        // splitmix64's finaliser (Steele, Lea, Flood, 2014) keeps neighbouring streams apart.
        let mut z = seed ^ stream.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self(Cell::new((z ^ (z >> 31)).max(1)))
    }

    /// The next number.
    #[inline]
    pub fn next(&self) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        x
    }

    /// A number below `bound`, which is at least 1.
    #[inline]
    pub fn below(&self, bound: usize) -> usize {
        // Lemire's reduction; its bias is far below what matters here.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// All of `0..len`, each once, from a random start by a random step.
///
/// Go's `randomOrder`: a step that has no common divisor with `len` reaches everybody, so no victim
/// is ever left out of a round (F1), without a list to shuffle.
#[inline]
pub fn random_order(rng: &Rng, len: usize) -> impl Iterator<Item = usize> + use<> {
    let start = rng.below(len.max(1));
    let mut step = 1 + rng.below(len.max(1));
    while gcd(step, len) != 1 {
        step = step % len.max(1) + 1;
    }
    (0..len).map(move |i| (start + i * step) % len)
}

#[inline]
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_order_reaches_everybody_once() {
        let rng = Rng::new(7, 0);
        for len in 0..=70 {
            for _ in 0..20 {
                let mut seen: Vec<usize> = random_order(&rng, len).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..len).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn every_victim_is_the_first_now_and_then() {
        let rng = Rng::new(7, 0);
        let mut first = [0; 5];
        for _ in 0..1000 {
            first[random_order(&rng, 5).next().expect("five victims")] += 1;
        }
        assert!(first.iter().all(|&count| count > 100), "{first:?}");
    }

    #[test]
    fn a_seed_replays_and_streams_differ() {
        let numbers = |seed, stream| {
            let rng = Rng::new(seed, stream);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(1, 3));
        assert_ne!(numbers(1, 2), numbers(2, 2));
    }
}
