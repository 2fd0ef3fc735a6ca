//! `#[ws::main]`, `#[ws::test]` and `#[ws::sim]`: from an `async fn` to a function that starts the
//! runtime, or a simulation.
//!
//! Users reach them through the crate `ws`, which re-exports them. This crate depends on none of
//! the runtime's: it writes paths such as `::ws::__private::Probe` into the user's code and never
//! names a type of its own. For that reason the examples here are not compiled; those that are
//! stand in the documentation of `ws`, and every rule below has a program under `tests/ui/`.
//!
//! | file | holds |
//! | --- | --- |
//! | `args` | the arguments in the parentheses, and what is wrong with them |
//! | `entry` | the function: what is refused, and what comes out |
//! | `simulation` | what comes out of `#[ws::sim]` |
//! | `select` | what `ws::select!` puts before that of `futures` |
//!
//! The other half of the work, the choice between a stealable and a pinned root, is a question of
//! types and so cannot be answered here. It is `ws::__private`, of the root package.

mod args;
mod entry;
mod select;
mod simulation;

use entry::Entry;
use proc_macro::TokenStream;
use select::Order;

/// Runs an `async fn` as the root of a runtime.
///
/// ```
/// #[ws::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let answer = ws::spawn(async { 6 * 7 }).await?;
///     println!("{answer}");
///     Ok(())
/// }
/// ```
///
/// The thread that calls the function is one of the workers until the root is done. A root that is
/// `Send` is an ordinary task: it starts on this thread, and any worker may steal it. Every other
/// root is pinned to this thread, and waits while that thread polls another task: one that blocks,
/// or computes in a long poll, delays a pinned root as it delays no other task. What makes a root
/// so is often a temporary that lives across an `.await`: `let` it end before. The output does not
/// count for that on a function called `main`, so `Result<(), Box<dyn Error>>` leaves the root
/// stealable. When the root is done, so is the runtime: tasks that still run are cancelled.
///
/// # Arguments
///
/// | argument | meaning | default |
/// | --- | --- | --- |
/// | `workers = N` | how many threads run tasks at a time, an integer literal of at least 1 | the runtime's: the cores that the process may use, or `WS_WORKERS` |
/// | `crate = path` | where the runtime's crate is found, as a path or a string | `::ws` |
///
/// ```
/// mod my {
///     pub use ws;
/// }
///
/// #[ws::main(workers = 4, crate = my::ws)]
/// async fn main() {}
/// ```
///
/// # What the function may return
///
/// On a function called `main`: what std's `main` may return, that is `()`, `ExitCode`, `!`,
/// `Result<T, E>` of these with `E: Debug`, or anything else that implements
/// [`Termination`](std::process::Termination). An `Err` is printed to stderr as std does, and the
/// process fails. If the runtime cannot be built, `error: ` and the reason are printed and the
/// process fails.
///
/// On a function with another name: anything. It becomes a plain function that starts a runtime
/// with each call and returns what the body does.
///
/// # Panics
///
/// The emitted function panics when the body does. One that is not called `main` panics also if the
/// runtime cannot be built.
///
/// # Attributes beside this one
///
/// Attributes, docs and visibility stay on the function that is emitted, which is not `async`. An
/// attribute macro that wants to see an `async fn` stands above this one.
///
/// # Errors
///
/// The compiler refuses, at the text that has to change: a function that is not `async`; one with
/// arguments, generics or a `where` clause; `const`, `unsafe` and `extern` functions; methods; a
/// second `main` attribute; `workers = 0`, unknown arguments and repeated ones. An associated
/// function may not say `Self`, for its body becomes that of a function of its own.
///
/// A type that is `Send` only where a lifetime is `'static` and that the root holds across an
/// `.await` is refused with "higher-ranked lifetime error"; a `Pin<Box<dyn Future<Output = ()>>>`
/// around that part of the body pins the root and is accepted.
#[proc_macro_attribute]
pub fn main(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(Entry::Main, args.into(), item.into()).into()
}

/// Runs an `async fn` as a test, in a runtime of its own.
///
/// ```
/// #[ws::test]
/// async fn adds() {
///     let sum = ws::spawn(async { 1 + 2 }).await.unwrap();
///     assert_eq!(sum, 3);
/// }
///
/// #[ws::test(workers = 4)]
/// #[should_panic(expected = "refused")]
/// async fn refuses() {
///     panic!("refused")
/// }
/// ```
///
/// `#[test]` is part of it. `#[should_panic]`, `#[ignore]` and `#[cfg]` work as they do there, and
/// the root is stealable or pinned as under [`main`](macro@main).
///
/// # Arguments
///
/// | argument | meaning | default |
/// | --- | --- | --- |
/// | `workers = N` | how many tasks run at a time, an integer literal of at least 1 | 1 |
/// | `paused` | time is virtual, see below | real time |
/// | `seed = N` | which order of tasks a paused test has, an integer literal below 2^64 | drawn anew, or `WS_TEST_SEED` |
/// | `crate = path` | where the runtime's crate is found, as a path or a string | `::ws` |
///
/// One worker, because tests are many and small, and the harness runs them side by side already. A
/// test that is about several threads says so with `workers = N`.
///
/// # Virtual time
///
/// Under `paused` the clock of `ws::time` stands still while anything can go on, and jumps to the
/// next timer when all tasks wait: a sleep of a thousand hours takes no time, and a timeout comes
/// exactly when it is due. And the order in which ready tasks run is shuffled by a seed, so that a
/// test does not pass by luck: all orders are equally likely, first in, first out or not.
///
/// ```
/// use std::time::Duration;
///
/// #[ws::test(paused)]
/// async fn gives_up_after_a_day() {
///     let start = ws::time::Instant::now();
///     let day = Duration::from_secs(24 * 3600);
///     assert!(ws::time::timeout(day, std::future::pending::<()>()).await.is_err());
///     assert_eq!(start.elapsed(), day);
/// }
/// ```
///
/// Without `seed` each run draws one, so that a suite meets more orders the more often it runs. A
/// test that fails prints it. `seed = N` here repeats that run, and so does `WS_TEST_SEED=N` in the
/// environment, for all tests without a seed of their own. `ws::runtime::Builder::clock` lists
/// what makes a run depend on the world, and so may keep it from being repeated; `paused` stands
/// for that method.
///
/// If nothing can go on any more, and nothing could wake any task, the test panics with a list of
/// those that wait.
///
/// # A test that hangs
///
/// If the root can never wake again, since nothing has a waker of it or since it waits for tasks
/// that can never wake again either, the test panics at once and names them, with the rings in
/// which they wait for each other: `ws::runtime::Handle::lost_tasks` says what is found and what is
/// not. A root that is pinned is not looked at. With `paused` it is looked at when nothing else can
/// go on.
///
/// ```
/// #[ws::test]
/// #[should_panic(expected = "nothing can wake this any more")]
/// async fn forgets_its_waker() {
///     std::future::poll_fn(|_cx| std::task::Poll::<()>::Pending).await
/// }
/// ```
///
/// # What the function may return
///
/// What std's `#[test]` may return. An `Err` is printed, and the test fails, with the words that
/// std uses. With `#[should_panic]` the function returns nothing, as under std.
///
/// # Panics
///
/// The test panics when its body does, with the same payload, or if the runtime cannot be built.
///
/// # Errors
///
/// The compiler refuses what it refuses for [`main`](macro@main); a second test attribute: with
/// `#[test]` beside it the test would be registered twice; `paused` with more than one worker; and
/// a seed without `paused`.
#[proc_macro_attribute]
pub fn test(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(Entry::Test, args.into(), item.into()).into()
}

/// Runs a function as a test of a whole simulated system, with many seeds.
///
/// It is there with the feature `sim` of `ws-runtime`, on Linux. The function is given a
/// simulation of each seed, a `ws::sim::Sim`. It adds hosts and faults, and runs it:
///
/// ```text
/// #[ws::sim(seeds = 1000)]
/// async fn a_leader_is_found_again(sim: ws::sim::Sim) {
///     for i in 0..3 {
///         sim.host(format!("n{i}"), move |disk| node(i, disk));
///     }
///     sim.client("c", check_linearizable());
///     sim.after(secs(5), |net| net.partition(["n0"], ["n1", "n2"]));
///     sim.run().await
/// }
/// ```
///
/// `#[test]` is part of it. `#[should_panic]`, `#[ignore]` and `#[cfg]` work as they do there. The
/// function may be a plain `fn`. If it does not run the simulation, that is done at its end. The
/// body runs outside of all hosts, where nothing may be awaited but `sim.run()`.
///
/// # Arguments
///
/// | argument | meaning | default |
/// | --- | --- | --- |
/// | `seeds = N` | the seeds 0 to N - 1; `seeds = 5..10` are those from 5 to 9 | 100 |
/// | `seed = N` | this seed alone, for a bug that was found | |
/// | `workers = N` | virtual workers of each host, a literal of at least 1 | 1 |
/// | `builder = E` | a `ws::sim::Builder`, for limits and whatever else it sets | `Sim::builder()` |
/// | `crate = path` | where the runtime's crate is found, as a path or a string | `::ws` |
///
/// In the environment, `WS_SEED=12` runs that seed alone, and `WS_SEEDS=100000` so many, from the
/// first of the test on.
///
/// # What the function may return
///
/// `()`, or a `Result<(), E>` whose `E` has `Display`. An `Err` is a failure of its seed.
///
/// # Panics
///
/// The test panics if a seed fails. The last line of the message is the command that replays it,
/// such as `WS_SEED=12 cargo test a_leader_is_found_again -- --exact`.
///
/// # Errors
///
/// The compiler refuses what it refuses for [`test`](macro@test), but takes a plain `fn` and asks
/// for one argument. It also refuses `seed` beside `seeds`, and an empty range of seeds.
#[proc_macro_attribute]
pub fn sim(args: TokenStream, item: TokenStream) -> TokenStream {
    entry::expand(Entry::Sim, args.into(), item.into()).into()
}

/// The inside of `ws::select!`. Not for use by hand.
#[doc(hidden)]
#[proc_macro]
pub fn select(input: TokenStream) -> TokenStream {
    select::expand(input.into(), Order::Random).into()
}

/// The same with a branch that `ws` draws: in a simulation, by the seed.
#[doc(hidden)]
#[proc_macro]
pub fn select_drawn(input: TokenStream) -> TokenStream {
    select::expand(input.into(), Order::Drawn).into()
}
