//! `select!`, which is tokio's but for the branch that is polled first.
//!
//! tokio draws it from a generator of the thread. The seed of that is a count of the process, so no
//! run could be repeated. Here the generator is another one, and begins with what `RandomState` has
//! for this thread. It begins anew with each simulation, where that follows from the seed.
//!
//! Rejected: random numbers of the runtime. A thread without one may poll a `select!` as well.
//!
//! Checked by `simulated/tests/chance.rs`.

#[doc(hidden)]
pub use tokio_real as real;

/// What the macros call.
pub mod support {
    use std::{
        cell::Cell,
        hash::{BuildHasher, RandomState},
    };

    pub use tokio_real::macros::support::*;

    thread_local! {
        /// 0, from which there is no way on: it has not begun.
        static STATE: Cell<u64> = const { Cell::new(0) };
    }

    fn first() -> u64 {
        RandomState::new().hash_one(0_u64) | 1
    }

    /// A simulation begins on this thread.
    pub(crate) fn begins_anew() {
        STATE.set(0);
    }

    /// A random number below `n`.
    pub fn thread_rng_n(n: u32) -> u32 {
        // xorshift64*, by Vigna.
        let word = STATE.with(|state| {
            let mut x = match state.get() {
                0 => first(),
                x => x,
            };
            x ^= x >> 12;
            x ^= x << 25;
            x ^= x >> 27;
            state.set(x);
            x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
        });
        ((word * u64::from(n)) >> 32) as u32
    }
}

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/macro.select.html).
#[macro_export]
macro_rules! select {
    (biased; $($rest:tt)*) => {
        $crate::macros::real::select!(biased; $($rest)*)
    };
    (else => $($rest:tt)*) => {
        $crate::macros::real::select!(else => $($rest)*)
    };
    ($first:pat = $($rest:tt)*) => {
        // As the last rule of tokio's own, which names the constant.
        $crate::macros::real::select!(@{
            start={ $crate::macros::support::thread_rng_n(BRANCHES) }; ()
        } $first = $($rest)*)
    };
    ($($other:tt)*) => {
        $crate::macros::real::select!($($other)*)
    };
}
