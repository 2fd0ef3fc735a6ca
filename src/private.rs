//! What the code of `#[ws::main]`, `#[ws::test]`, `select!` and `join!` calls. Not for use by hand.
//!
//! # Stealable or pinned
//!
//! The root of a program is an ordinary task wherever it can be: it starts on the main thread, and
//! any worker may steal it. That takes a future that is `Send`; every other one is pinned to the
//! main thread. The user says neither, so the compiler has to answer, and it does by method
//! resolution:
//!
//! | call | finds | if |
//! | --- | --- | --- |
//! | `Probe(root).__ws_pick()` | the inherent [`Probe::__ws_pick`], which gives a [`Stealable`] | root and output are `Send` |
//! | | the trait's [`PickPinned::__ws_pick`], which gives a [`Pinned`] | otherwise |
//!
//! An inherent method comes before a trait's, but only if its `impl` applies; a bound that does not
//! hold takes it out of the search, without an error. Two conditions make that sound, and the
//! macros keep both:
//!
//! 1. The type is concrete where `__ws_pick` is called. In a generic function the answer would be
//!    that of the declared bounds.
//! 2. The future comes from another item than the one that asks. The compiler does not yet know
//!    what a future of the function in hand holds, and would take the inherent method in any case.
//!
//! A future that the compiler cannot prove to be `Send` for every lifetime in it is pinned like one
//! that is not. One gap stays: resolution does not look into bounds such as `T: 'static`, so a type
//! that is `Send` on that condition is refused later, with "higher-ranked lifetime error", as
//! `spawn` would refuse it. A `Pin<Box<dyn Future<Output = T>>>` around that part of the program
//! pins the root.
//!
//! # The output
//!
//! The macros turn the output into an [`ExitCode`] within the task, as std does for `main`. So an
//! output that is not `Send`, above all `Result<(), Box<dyn Error>>`, does not pin the root: it
//! never leaves the task.
//!
//! # Without a runtime
//!
//! `run_process` tells the user what is wrong and fails the process; `run` and `run_report` panic,
//! and a test harness does the rest. All show the error with its sources, outermost first.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::panic;
use std::process::ExitCode;

use futures::future::FusedFuture;
use ws_executor::runtime::{Builder, Runtime};

pub use crate::combinators::Shares;
pub use futures;
pub use ws_executor::runtime::Clock;
#[cfg(not(feature = "sim"))]
pub use ws_macros::select;
#[cfg(feature = "sim")]
pub use ws_macros::select_drawn as select;

/// The branch of a `select!` with so many that is polled first. In a simulation it follows from the
/// seed, as the keys of hash maps do.
#[cfg(feature = "sim")]
pub fn drawn(branches: usize) -> usize {
    use std::hash::{BuildHasher, RandomState};

    let word = RandomState::new().hash_one(0_u8);
    (word % branches as u64) as usize
}

/// A future for `select!`.
#[diagnostic::on_unimplemented(
    message = "`select!` wants a future that is fused, and `{Self}` is not",
    label = "write `.fuse()` behind the future",
    note = "`fuse` is a method of `futures::FutureExt`. A future that is used again in a loop is fused once, before the loop"
)]
pub trait Fused {}

#[diagnostic::do_not_recommend]
impl<F: FusedFuture + ?Sized> Fused for F {}

/// Checks a future that is made in a branch.
pub fn fused<F: Fused>(future: F) -> F {
    future
}

/// Checks a future that a branch borrows by name.
pub fn check_fused<F: Fused + ?Sized>(_: &F) {}

/// Asks whether a future can be a stealable task.
#[derive(Debug)]
pub struct Probe<F>(pub F);

/// A root that any worker may run.
#[derive(Debug)]
pub struct Stealable<F>(F);

/// A root that stays on the thread which started the runtime.
#[derive(Debug)]
pub struct Pinned<F>(F);

impl<F> Probe<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Picks the ordinary task.
    pub fn __ws_pick(self) -> Stealable<F> {
        Stealable(self.0)
    }
}

/// What `Probe::__ws_pick` means where the inherent method does not apply.
pub trait PickPinned {
    /// The future that is probed.
    type Root;

    /// Picks the task that stays on this thread.
    fn __ws_pick(self) -> Pinned<Self::Root>;
}

impl<F: Future> PickPinned for Probe<F> {
    type Root = F;

    fn __ws_pick(self) -> Pinned<F> {
        Pinned(self.0)
    }
}

impl<F> Stealable<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Runs the root as an ordinary task, with the calling thread as a worker until it is done.
    ///
    /// # Panics
    ///
    /// Panics if the runtime cannot be built, and resumes a panic of the root.
    #[track_caller]
    pub fn run(self, builder: Builder) -> F::Output {
        let runtime = build_or_panic(builder);
        let _seed = Replay::of(&runtime);
        runtime.run(self.0)
    }
}

impl<F> Stealable<F>
where
    F: Future<Output = ExitCode> + Send + 'static,
{
    /// Runs the root of a process; it fails, with a message, if the runtime cannot be built.
    pub fn run_process(self, builder: Builder) -> ExitCode {
        build_or_report(builder).map_or_else(|code| code, |runtime| runtime.run(self.0))
    }

    /// Runs the root of a test that says how it went.
    #[track_caller]
    pub fn run_report(self, builder: Builder) -> ExitCode {
        let runtime = build_or_panic(builder);
        Replay::of(&runtime).checked(|| runtime.run(self.0))
    }
}

impl<F: Future> Pinned<F> {
    /// Runs the root on the calling thread, which is a worker until the root is done.
    ///
    /// # Panics
    ///
    /// Panics if the runtime cannot be built, and resumes a panic of the root.
    #[track_caller]
    pub fn run(self, builder: Builder) -> F::Output {
        let runtime = build_or_panic(builder);
        let _seed = Replay::of(&runtime);
        runtime.run_local(self.0)
    }
}

impl<F: Future<Output = ExitCode>> Pinned<F> {
    /// Runs the root of a process; it fails, with a message, if the runtime cannot be built.
    pub fn run_process(self, builder: Builder) -> ExitCode {
        build_or_report(builder).map_or_else(|code| code, |runtime| runtime.run_local(self.0))
    }

    /// Runs the root of a test that says how it went.
    #[track_caller]
    pub fn run_report(self, builder: Builder) -> ExitCode {
        let runtime = build_or_panic(builder);
        Replay::of(&runtime).checked(|| runtime.run_local(self.0))
    }
}

/// Says on stderr how a test in virtual time can be repeated, if it fails.
struct Replay(Option<u64>);

impl Replay {
    fn of(runtime: &Runtime) -> Self {
        let handle = runtime.handle();
        Self(handle.is_paused().then(|| handle.seed()))
    }

    fn checked(self, run: impl FnOnce() -> ExitCode) -> ExitCode {
        let code = run();
        if code != ExitCode::SUCCESS {
            self.print();
        }
        code
    }

    fn print(&self) {
        let Some(seed) = self.0 else {
            return;
        };
        // `eprintln!` panics if stderr takes nothing. In a drop in the middle of a panic that would
        // abort the process, and all other tests with it. What is written to `Stderr` cannot
        // panic, but the harness does not show it with the rest of what this test says.
        let _ = panic::catch_unwind(|| {
            eprintln!(
                "the order of tasks was that of seed {seed}: WS_TEST_SEED={seed}, or \
                 #[ws::test(paused, seed = {seed})], repeats it"
            );
        });
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print();
        }
    }
}

/// Returns the builder on which the macros set their knobs.
///
/// A function, so that everything the macros name is in this one module: where `crate = path` is
/// wrong, the compiler then says so once.
pub fn builder() -> Builder {
    Builder::new()
}

/// Returns the same for a test, which fails if its root can never wake.
pub fn test_builder() -> Builder {
    builder().fails_if_lost()
}

/// Builds the runtime, or says on stderr why there is none and returns the code to exit with.
fn build_or_report(builder: Builder) -> Result<Runtime, ExitCode> {
    builder.build().map_err(|error| {
        // If stderr takes nothing, the exit code tells alone. `eprintln!` would panic.
        let _ = writeln!(io::stderr(), "error: {}", Chain(&error));
        ExitCode::FAILURE
    })
}

/// Builds the runtime, or panics where the attribute stands.
#[track_caller]
fn build_or_panic(builder: Builder) -> Runtime {
    match builder.build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("cannot build the runtime: {}", Chain(&error)),
    }
}

/// An error and its sources in one line.
struct Chain<'a>(&'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::process::Termination;
    use std::rc::Rc;

    async fn sends() -> u32 {
        7
    }

    async fn holds_an_rc() {
        let kept = Rc::new(Cell::new(1));
        std::future::ready(()).await;
        kept.set(2);
    }

    async fn returns_an_rc() -> Rc<u32> {
        Rc::new(7)
    }

    async fn fails_with_a_local_error() -> Result<(), Box<dyn Error>> {
        std::future::ready(()).await;
        Err(Box::from("an error that is not Send"))
    }

    #[expect(clippy::unused_async, reason = "what counts is the future's type")]
    async fn drops_an_rc_before_it_waits() {
        drop(Rc::new(1));
    }

    // The types of the arguments are the tests: a wrong pick does not compile.
    fn is_stealable<F>(_: &Stealable<F>) {}
    fn is_pinned<F>(_: &Pinned<F>) {}

    #[test]
    fn send_is_stealable() {
        is_stealable(&Probe(sends()).__ws_pick());
        is_stealable(&Probe(drops_an_rc_before_it_waits()).__ws_pick());
        is_stealable(&Probe(std::future::ready(1)).__ws_pick());
    }

    #[test]
    fn not_send_is_pinned() {
        is_pinned(&Probe(holds_an_rc()).__ws_pick());
        is_pinned(&Probe(returns_an_rc()).__ws_pick());
        is_pinned(&Probe(fails_with_a_local_error()).__ws_pick());
        let boxed: std::pin::Pin<Box<dyn Future<Output = u32>>> = Box::pin(sends());
        is_pinned(&Probe(boxed).__ws_pick());
    }

    #[test]
    fn a_reported_output_does_not_pin() {
        async fn reported() -> ExitCode {
            Termination::report(fails_with_a_local_error().await)
        }
        is_stealable(&Probe(reported()).__ws_pick());
    }

    /// In a child, whose stderr is a file that takes nothing. What it returns says how it went.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_without_a_runtime_fails_also_if_stderr_takes_nothing() {
        use std::{env, fs::File, process};

        const CHILD: &str = "WS_TEST_CHILD_OF_PRIVATE";
        if env::var_os(CHILD).is_some() {
            let root = Probe(async { ExitCode::SUCCESS }).__ws_pick();
            let code = root.run_process(builder().workers(0));
            process::exit(if code == ExitCode::FAILURE { 7 } else { 8 });
        }
        let mut command = process::Command::new(env::current_exe().unwrap());
        let test = "a_process_without_a_runtime_fails_also_if_stderr_takes_nothing";
        command.args([
            &format!("__private::tests::{test}"),
            "--exact",
            "--nocapture",
        ]);
        let full = File::options().write(true).open("/dev/full").unwrap();
        command.env(CHILD, "1").stderr(full);
        command.stdout(process::Stdio::null());
        assert_eq!(command.status().unwrap().code(), Some(7));
    }

    #[test]
    fn errors_show_their_sources() {
        #[derive(Debug)]
        struct Outer(io::Error);

        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("cannot start a worker")
            }
        }

        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }

        let error = Outer(io::Error::other("no thread to be had"));
        assert_eq!(
            Chain(&error).to_string(),
            "cannot start a worker: no thread to be had"
        );
    }
}
