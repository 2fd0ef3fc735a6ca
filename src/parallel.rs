//! Parallel iterators on the runtime's own workers, by [orx-parallel] (feature `parallel`).
//!
//! Iterators that split their work are a library of their own, and not written here. orx-parallel
//! takes any pool of threads that has its trait [`ThreadPool`]; [`Workers`] is that of a runtime's
//! own. So a service that sorts or hashes in between needs no second set of threads beside those
//! that serve, and the tasks of the runtime go on meanwhile.
//!
//! | to | do |
//! | --- | --- |
//! | compute in async code | call the iterators inside [`compute`](crate::compute), and await that |
//! | compute anywhere else in a task | call them: they run on this worker and on those that are idle |
//! | compute on a plain thread | make the pool by [`Workers::of`] |
//!
//! Dropping the [`compute`](crate::compute) around an iterator does not cut the iterator short. Its
//! parts are the branches of one scope, and between two items of a part there is no fork. So all
//! items are still seen, and the computation ends at its next fork: that may be the next iterator,
//! or the next pass of a sort. Where that is too late, an item may look at a flag of yours, or fork
//! itself.
//!
//! [`Workers`] is a handle: making one starts no thread. The feature `std` of orx-parallel is off,
//! so that an iterator without a runner of its own starts none either: it runs on its caller's
//! thread alone.
//!
//! ```
//! use orx_parallel::*;
//!
//! # #[ws::main(workers = 2)]
//! # async fn main() {
//! let squares = ws::compute(|| {
//!     let numbers: Vec<u64> = (0..1000).collect();
//!     let runner = Runner::fixed_with_pool(ws::parallel::Workers::current());
//!     numbers.par().runner(runner).map(|x| x * x).sum()
//! });
//! assert_eq!(squares.await.unwrap(), 332_833_500_u64);
//! # }
//! ```
//!
//! [orx-parallel]: https://docs.rs/orx-parallel

use std::num::NonZero;

use orx_parallel::ThreadPool;

use crate::runtime::{Handle, TryCurrentError};

/// The workers of a runtime, as a pool for parallel iterators.
///
/// It may be used in a task of that runtime, or on any thread that is no runtime's. Dropping it
/// does nothing to the runtime; and it does not keep the runtime alive.
#[derive(Clone, Debug)]
pub struct Workers {
    handle: Handle,
    workers: NonZero<usize>,
}

impl Workers {
    /// The workers of the current runtime.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn current() -> Self {
        Self::of(&Handle::current())
    }

    /// The workers of the current runtime, or an error outside of one.
    ///
    /// # Errors
    ///
    /// If this thread is in no runtime.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        Handle::try_current().map(|handle| Self::of(&handle))
    }

    /// The workers of that runtime.
    ///
    /// ```
    /// use orx_parallel::*;
    ///
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let workers = ws::parallel::Workers::of(runtime.handle());
    /// let runner = Runner::fixed_with_pool(&workers);
    /// assert_eq!((0..1000).par().runner(runner).map(|number| number % 7).max(), Some(6));
    /// ```
    pub fn of(handle: &Handle) -> Self {
        Self {
            handle: handle.clone(),
            // There is one at least.
            workers: NonZero::new(handle.metrics().workers).unwrap_or(NonZero::<usize>::MIN),
        }
    }
}

/// Where the parts of a parallel iterator are started: a [`Scope`](crate::Scope) in other words.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'s, 'scope>(&'s crate::Scope<'scope>);

impl<'s, 'env, 'scope> orx_parallel::Scope<'s, 'env, 'scope> for Scope<'s, 'scope> {
    fn run<W>(self, work: W)
    where
        'scope: 's,
        'env: 'scope + 's,
        W: FnOnce() + Send + 'scope + 'env,
    {
        self.0.spawn(move |_| work());
    }
}

/// The pool is a handle, so a reference to it is one as well: orx-parallel takes either.
macro_rules! thread_pool {
    ($($pool:ty),*) => {$(
        impl ThreadPool for $pool {
            type ScopeRef<'s, 'env, 'scope>
                = Scope<'s, 'scope>
            where
                'scope: 's,
                'env: 'scope + 's;

            fn scope<'env, 'scope, F>(&'env self, f: F)
            where
                'env: 'scope,
                for<'s> F: FnOnce(Scope<'s, 'scope>) + Send,
            {
                let _entered = self.handle.enter();
                crate::scope(|scope| f(Scope(scope)));
            }

            fn max_num_threads(&self) -> NonZero<usize> {
                self.workers
            }
        }
    )*};
}

thread_pool!(Workers, &Workers);
