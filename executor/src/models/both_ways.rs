//! Models that are run both ways round, because loom sees less than it seems to.
//!
//! Loom runs one execution, looks in it for pairs of steps that could race, and tries those the
//! other way round. To find them it remembers only the last access to each object. So if thread A
//! loads a word, and then thread B loads and exchanges it, loom compares B's exchange with B's own
//! load, and never tries it before A's. It does find the pair when B comes first: A's load is
//! compared with the last write. (Eight mutants survived until that was seen.) Therefore
//! [`explore`] runs a model twice: once with the first party ahead of the others by default, once
//! behind them.
//!
//! A party has to be a thread of its own for that. The main thread could let others go ahead only
//! by a yield, and loom takes a yield as a promise that nothing old is read after it.

#[cfg(not(ws_shuttle))]
use crate::sync::thread::spawn;

/// Whether the first party of a model comes ahead of the others, if loom does not try another
/// order.
#[derive(Debug, Clone, Copy)]
pub(super) enum Turn {
    Ahead,
    Behind,
}

impl Turn {
    /// Runs the parties on threads of their own, and waits for all.
    pub(super) fn race<A: 'static, B: 'static, const N: usize>(
        self,
        first: impl FnOnce() -> A + 'static,
        others: [impl FnOnce() -> B + 'static; N],
    ) -> (A, [B; N]) {
        let (first, others) = match self {
            Self::Ahead => {
                let first = spawn(first);
                (first, others.map(|other| spawn(other)))
            }
            Self::Behind => {
                let others = others.map(|other| spawn(other));
                (spawn(first), others)
            }
        };
        let first = first.join().expect("a panic ends the model");
        (
            first,
            others.map(|other| other.join().expect("a panic ends the model")),
        )
    }
}

/// Explores a model both ways round.
pub(super) fn explore(preemptions: usize, model: impl Fn(Turn) + Copy + Send + Sync + 'static) {
    for turn in [Turn::Ahead, Turn::Behind] {
        super::explore(preemptions, move || model(turn));
    }
}

/// Shuttle asks for what can be sent to a thread, as std does; but all of its threads take turns on
/// one.
#[cfg(ws_shuttle)]
#[expect(unsafe_code, reason = "see above")]
fn spawn<T: 'static>(f: impl FnOnce() -> T + 'static) -> Joined<T> {
    struct Sent<T>(T);
    // SAFETY: it stays on the thread that it was made on.
    unsafe impl<T> Send for Sent<T> {}
    impl<T> Sent<T> {
        fn into_inner(self) -> T {
            self.0
        }
    }
    let f = Sent(f);
    let thread = crate::sync::thread::spawn(move || Sent(f.into_inner()()));
    Joined(Box::new(move || thread.join().map(Sent::into_inner)))
}

/// A thread's handle without what it was wrapped in.
#[cfg(ws_shuttle)]
struct Joined<T>(Box<dyn FnOnce() -> std::thread::Result<T>>);

#[cfg(ws_shuttle)]
impl<T> Joined<T> {
    fn join(self) -> std::thread::Result<T> {
        (self.0)()
    }
}
