//! Trees of joins and scopes, which virtual threads run, and steal from one another.
//!
//! A leaf lets the driver run on its stack for a while, as any poll that computes or blocks does.
//! So others come by meanwhile, ask, and take what the next join promotes. A branch that was stolen
//! runs above its owner, and has ended when that goes on: see *Not here* in `sim.rs`.
//!
//! It was seen to fail when the panic of a branch is lost, that of a stolen one (`run_shared` in
//! `fork_join/steps.rs`) or of a scope's, and when a search takes a branch although it has lent its
//! permit (S3). It crashes or hangs when a branch is popped that was promoted, or reclaimed that
//! was stolen.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use super::{
    block, compute, driver,
    program::{OnPurpose, Script, World},
};
use crate::{block_in_place, join, rng::Rng, scope, spawn};

/// A closure, and those that it forks.
#[derive(Debug)]
pub(super) struct Tree {
    kind: Kind,
    panics: bool,
    begun: AtomicUsize,
    ended: AtomicUsize,
}

#[derive(Debug)]
enum Kind {
    Compute(Duration),
    Block(Duration),
    BlockInPlace(Duration),
    /// Opens that gate.
    Open(usize),
    /// Spawns a task that yields.
    Spawn,
    Join(Box<[Tree; 2]>),
    Scope(Vec<Tree>),
}

impl Tree {
    /// A tree of `size` closures at most.
    pub(super) fn random(rng: &Rng, gates: usize, size: usize) -> Self {
        let nanos = |doublings| Duration::from_nanos(1 << rng.below(doublings));
        let kind = match rng.below(8) {
            _ if size < 3 => match rng.below(8) {
                0 => Kind::Block(nanos(22)),
                1 => Kind::BlockInPlace(nanos(22)),
                2 => Kind::Open(rng.below(gates)),
                3 => Kind::Spawn,
                _ => Kind::Compute(nanos(20)),
            },
            0 => Kind::Scope(
                (0..1 + rng.below(4))
                    .map(|_| Self::random(rng, gates, (size - 1) / 4))
                    .collect(),
            ),
            _ => {
                let first = 1 + rng.below(size - 2);
                Kind::Join(Box::new(
                    [first, size - 1 - first].map(|size| Self::random(rng, gates, size)),
                ))
            }
        };
        Self {
            kind,
            panics: rng.below(40) == 0,
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        }
    }

    fn children(&self) -> &[Self] {
        match &self.kind {
            Kind::Join(branches) => &branches[..],
            Kind::Scope(branches) => branches,
            _ => &[],
        }
    }

    /// Whether a panic comes out of it.
    fn throws(&self) -> bool {
        self.panics || self.children().iter().any(Self::throws)
    }

    /// Runs it here and now, and looks what came of it.
    pub(super) fn run(&self, world: &Arc<World>) {
        match catch_unwind(AssertUnwindSafe(|| self.visit(world))) {
            Ok(()) => self.ended(false),
            Err(payload) if payload.is::<OnPurpose>() => self.ended(true),
            Err(_) => driver().fail(|| "J6: what is no computation was cancelled".to_owned()),
        }
    }

    /// The same for a computation, which may be cancelled. Whether it has panicked.
    pub(super) fn run_cancellable(&self, world: &Arc<World>) -> bool {
        let result = catch_unwind(AssertUnwindSafe(|| self.visit(world)));
        // Also if it panicked: in another branch it may have been cancelled.
        self.look(false);
        match result {
            Ok(()) => false,
            Err(payload) if payload.is::<OnPurpose>() => true,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// It was not cancelled.
    pub(super) fn ended(&self, panicked: bool) {
        if panicked != self.throws() {
            driver().fail(|| format!("S6: whether a tree panicked: {panicked}, which is wrong"));
        }
        self.look(true);
    }

    /// `surely` unless it was cancelled, or the first of a join has panicked.
    fn look(&self, surely: bool) {
        let (begun, ended) = (self.begun.load(SeqCst), self.ended.load(SeqCst));
        if begun != ended || begun > 1 || (surely && begun == 0) {
            driver().fail(|| {
                format!("J5: a closure was called {begun} times, and has ended {ended} times")
            });
        }
        match &self.kind {
            Kind::Join(branches) => {
                let [first, second] = &**branches;
                first.look(surely);
                second.look(surely && !first.throws());
            }
            _ => self.children().iter().for_each(|it| it.look(surely)),
        }
    }

    fn visit(&self, world: &Arc<World>) {
        struct End<'a>(&'a AtomicUsize);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        self.begun.fetch_add(1, SeqCst);
        let _end = End(&self.ended);
        match &self.kind {
            Kind::Compute(time) => compute(*time),
            Kind::Block(time) => block(*time),
            Kind::BlockInPlace(time) => block_in_place(|| block(*time)),
            Kind::Open(gate) => world.open(*gate),
            Kind::Spawn => drop(spawn(world.task(Script::short(), false))),
            Kind::Join(branches) => {
                let [first, second] = &**branches;
                join(|| first.visit(world), || second.visit(world));
            }
            Kind::Scope(branches) => scope(|scope| {
                for branch in branches {
                    scope.spawn(move |_| branch.visit(world));
                }
            }),
        }
        if self.panics {
            resume_unwind(Box::new(OnPurpose));
        }
    }
}
