//! What hosts run, and what it ends with.
//!
//! # How it works
//!
//! A host's program is made anew at each of its starts, by a closure. The closure may ask for the
//! host's disk: `|disk: Disk| …`. So [`HostProgram`] is there for closures of no argument and for
//! closures of one. A parameter of the trait tells the two apart, since a type could be both for
//! all that the compiler knows. The caller never writes it.
//!
//! Rejected: two methods, `host` and `host_with_disk`. And one closure that is always given the
//! disk: an `async fn` without arguments, the most frequent program, would need a closure around.

use std::{fmt, future::Future, pin::Pin};

use crate::Disk;

/// What a program ends with: nothing, or a result whose error fails the run. A loop may have no
/// end.
#[diagnostic::on_unimplemented(
    message = "a program of a simulation cannot end with `{Self}`",
    label = "give `()`, or a `Result<(), E>` whose `E` has `Display`"
)]
pub trait Outcome: sealed::Outcome {}

impl Outcome for () {}
impl<E: fmt::Display> Outcome for Result<(), E> {}
/// Of a loop that does not end.
impl Outcome for sealed::Never {}

pub(crate) mod sealed {
    use std::fmt;

    pub trait Outcome {
        fn error(self) -> Option<String>;
    }

    impl Outcome for () {
        fn error(self) -> Option<String> {
            None
        }
    }

    impl<E: fmt::Display> Outcome for Result<(), E> {
        fn error(self) -> Option<String> {
            self.err().map(|error| error.to_string())
        }
    }

    /// The type that is written `!`. Stable Rust has no name for it but as what a function returns.
    pub(crate) type Never = <fn() -> ! as Returns>::Output;

    pub trait Returns {
        type Output;
    }

    impl<T> Returns for fn() -> T {
        type Output = T;
    }

    impl Outcome for Never {
        fn error(self) -> Option<String> {
            self
        }
    }

    #[derive(Debug)]
    pub struct TakesNothing;

    #[derive(Debug)]
    pub struct TakesDisk;
}

/// The program of a host, with the text of its error.
pub(crate) type Program = Pin<Box<dyn Future<Output = Option<String>>>>;

pub(crate) fn boxed<Fut: Future<Output: Outcome> + 'static>(main: Fut) -> Program {
    Box::pin(async move { sealed::Outcome::error(main.await) })
}

/// What [`Sim::host`](crate::Sim::host) takes: an `async fn` or a closure that returns a future.
///
/// It has no argument, or one, the host's [`Disk`]. If the body of a closure uses the disk at once,
/// the compiler wants its type: `|disk: Disk| …`.
///
/// ```
/// use ws_sim::{Disk, Sim};
///
/// async fn node(number: u32, disk: Disk) {
///     println!("{number}: {:?}", disk.path());
/// }
///
/// let sim = Sim::new(1);
/// for i in 0..3 {
///     sim.host(format!("n{i}"), move |disk| node(i, disk));
/// }
/// sim.client("client", async { ws::time::sleep(ws_sim::secs(1)).await });
/// sim.try_run()?;
/// # Ok::<(), ws_sim::Failure>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the program of a host",
    label = "give an `async fn`, or a closure that returns a future",
    note = "it has no argument, or one: `ws_sim::Disk`",
    note = "its future ends with `()`, or a `Result<(), E>` whose `E` has `Display`"
)]
pub trait HostProgram<Takes>: 'static {
    /// Its future.
    type Future: Future<Output: Outcome> + 'static;

    /// Makes the program, at a start of the host.
    fn start(&self, disk: Disk) -> Self::Future;
}

impl<F, Fut> HostProgram<sealed::TakesNothing> for F
where
    F: Fn() -> Fut + 'static,
    Fut: Future<Output: Outcome> + 'static,
{
    type Future = Fut;

    fn start(&self, _disk: Disk) -> Fut {
        self()
    }
}

impl<F, Fut> HostProgram<sealed::TakesDisk> for F
where
    F: Fn(Disk) -> Fut + 'static,
    Fut: Future<Output: Outcome> + 'static,
{
    type Future = Fut;

    fn start(&self, disk: Disk) -> Fut {
        self(disk)
    }
}
