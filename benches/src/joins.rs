//! What a fork-join program may ask of a library, and the libraries that answer.
//!
//! A program is generic over [`ForkJoin`], so that the same source runs on all of them, and only
//! its `join` is another one. Each adapter is what a user of that library would write. chili's join
//! takes its scope along, so every join here has a context, which is nothing for the others.

use std::num::NonZero;

use ws::runtime::{Builder, Runtime};

/// A `join`, and where it runs.
pub(crate) trait ForkJoin: 'static {
    /// As in `--runtimes` and in the tables.
    const NAME: &'static str;

    /// Threads that run branches.
    type Pool: Sync;
    /// What a join has to be given.
    type Context<'a>;

    /// A pool of so many threads, the one that calls [`enter`](ForkJoin::enter) among them where
    /// the library has it so.
    fn pool(workers: usize) -> Self::Pool;

    /// Runs a program there.
    fn enter<R, F>(pool: &Self::Pool, f: F) -> R
    where
        F: FnOnce(&mut Self::Context<'_>) -> R + Send,
        R: Send;

    /// Calls both, maybe at the same time.
    fn join<A, B, RA, RB>(context: &mut Self::Context<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut Self::Context<'_>) -> RA + Send,
        B: FnOnce(&mut Self::Context<'_>) -> RB + Send,
        RA: Send,
        RB: Send;
}

/// `ws`, in a `block_on`, whose thread is one of the workers.
#[derive(Debug)]
pub(crate) struct Ws;

impl ForkJoin for Ws {
    const NAME: &'static str = "ws";
    type Pool = Runtime;
    type Context<'a> = ();

    fn pool(workers: usize) -> Runtime {
        let builder = Builder::new().workers(workers);
        builder.build().expect("ws starts")
    }

    fn enter<R, F>(pool: &Runtime, f: F) -> R
    where
        F: FnOnce(&mut ()) -> R + Send,
        R: Send,
    {
        pool.block_on(async { f(&mut ()) })
    }

    #[inline(always)]
    fn join<A, B, RA, RB>((): &mut (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut ()) -> RA + Send,
        B: FnOnce(&mut ()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        ws::join(|| a(&mut ()), || b(&mut ()))
    }
}

/// rayon, in a pool of its own.
#[derive(Debug)]
pub(crate) struct Rayon;

impl ForkJoin for Rayon {
    const NAME: &'static str = "rayon";
    type Pool = rayon::ThreadPool;
    type Context<'a> = ();

    fn pool(workers: usize) -> rayon::ThreadPool {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(workers);
        builder.build().expect("rayon starts")
    }

    fn enter<R, F>(pool: &rayon::ThreadPool, f: F) -> R
    where
        F: FnOnce(&mut ()) -> R + Send,
        R: Send,
    {
        pool.install(|| f(&mut ()))
    }

    #[inline(always)]
    fn join<A, B, RA, RB>((): &mut (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut ()) -> RA + Send,
        B: FnOnce(&mut ()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        rayon::join(|| a(&mut ()), || b(&mut ()))
    }
}

/// chili, which counts the thread that owns the scope.
#[derive(Debug)]
pub(crate) struct Chili;

impl ForkJoin for Chili {
    const NAME: &'static str = "chili";
    type Pool = chili::ThreadPool;
    type Context<'a> = chili::Scope<'a>;

    fn pool(workers: usize) -> chili::ThreadPool {
        chili::ThreadPool::with_config(chili::Config {
            thread_count: NonZero::new(workers),
            ..chili::Config::default()
        })
    }

    fn enter<R, F>(pool: &chili::ThreadPool, f: F) -> R
    where
        F: FnOnce(&mut chili::Scope<'_>) -> R + Send,
        R: Send,
    {
        f(&mut pool.scope())
    }

    #[inline(always)]
    fn join<A, B, RA, RB>(scope: &mut chili::Scope<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut chili::Scope<'_>) -> RA + Send,
        B: FnOnce(&mut chili::Scope<'_>) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        scope.join(a, b)
    }
}

/// Plain calls on this thread.
#[derive(Debug)]
pub(crate) struct Plain;

impl ForkJoin for Plain {
    const NAME: &'static str = "plain calls";
    type Pool = ();
    type Context<'a> = ();

    fn pool(_: usize) {}

    fn enter<R, F>((): &(), f: F) -> R
    where
        F: FnOnce(&mut ()) -> R + Send,
        R: Send,
    {
        f(&mut ())
    }

    #[inline(always)]
    fn join<A, B, RA, RB>(context: &mut (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut ()) -> RA + Send,
        B: FnOnce(&mut ()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        (a(context), b(context))
    }
}

/// Plain calls that are counted.
#[derive(Debug)]
pub(crate) struct Counted;

impl ForkJoin for Counted {
    const NAME: &'static str = "counted calls";
    type Pool = ();
    type Context<'a> = usize;

    fn pool(_: usize) {}

    fn enter<R, F>((): &(), f: F) -> R
    where
        F: FnOnce(&mut usize) -> R + Send,
        R: Send,
    {
        f(&mut 0)
    }

    fn join<A, B, RA, RB>(count: &mut usize, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut usize) -> RA + Send,
        B: FnOnce(&mut usize) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        *count += 1;
        (a(count), b(count))
    }
}
