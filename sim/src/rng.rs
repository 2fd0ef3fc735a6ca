//! The source of randomness: xoshiro256++ by David Blackman and Sebastiano Vigna (2019, public
//! domain, <https://prng.di.unimi.it/xoshiro256plusplus.c>), seeded by their SplitMix64.
//!
//! The generator is small, fast and the same on every machine. It is not for secrets. All draws are
//! of integers: floats could differ between machines in their last bit.

/// A generator of random numbers. The same seed gives the same numbers.
///
/// ```
/// use ws_sim::rng::Rng;
///
/// let (mut a, mut b) = (Rng::new(7), Rng::new(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One million: the unit of chances, which are parts per million.
pub(crate) const MILLION: u32 = 1_000_000;

impl Rng {
    /// Makes a generator from a seed. Every seed is good, 0 too.
    pub fn new(seed: u64) -> Self {
        let mut z = seed;
        let state = std::array::from_fn(|_| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        });
        Self { state }
    }

    /// Fills all of it. Only hosts ask for it.
    #[cfg(target_os = "linux")]
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Draws 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Draws a number from 0 to `end`, without `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Is true with a chance of `ppm` parts per million. It draws nothing if the answer is sure.
    pub fn chance(&mut self, ppm: u32) -> bool {
        match ppm {
            0 => false,
            MILLION.. => true,
            _ => self.below(u64::from(MILLION)) < u64::from(ppm),
        }
    }

    /// Draws from the exponential distribution with this mean, at most 44 times the mean.
    ///
    /// -log2 of a uniform number is its leading zeros, plus a fraction that the next bits give. The
    /// fraction is interpolated linearly, so the quantiles are off by at most 0.06 of the mean.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let bits = self.next_u64() | 1;
        let zeros = bits.leading_zeros();
        let mantissa = u128::from((bits << zeros) << 1) >> 32; // 32 bits below the leading one
        let log2 = (u128::from(zeros + 1) << 32) - mantissa;
        // ln 2 = 2977044472 / 2^32
        let scaled = (log2 * 2_977_044_472) >> 32;
        u64::try_from((scaled * u128::from(mean)) >> 32).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first output of the reference code for the state 1, 2, 3, 4.
    #[test]
    fn first_number_is_that_of_the_reference_code() {
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        assert_eq!(rng.next_u64(), 41_943_041);
        assert_eq!(rng.next_u64(), 58_720_359);
    }

    #[test]
    fn exponential_has_its_mean_and_a_tail() {
        let mut rng = Rng::new(1);
        let draws: Vec<u64> = (0..100_000).map(|_| rng.exponential(1_000)).collect();
        let mean = draws.iter().sum::<u64>() / 100_000;
        assert!((900..1_100).contains(&mean), "{mean}");
        let late = draws.iter().filter(|&&d| d > 3_000).count();
        assert!((4_000..6_000).contains(&late), "{late} of about 4979");
    }

    #[test]
    fn chance_keeps_to_its_rate() {
        let mut rng = Rng::new(2);
        let hits = (0..100_000).filter(|_| rng.chance(250_000)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!rng.chance(0) && rng.chance(MILLION));
    }
}
