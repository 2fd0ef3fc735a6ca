//! `#[ws::main]` and `#[ws::test]` under std's harness: what a function returns, and that it may
//! panic or be pinned.
//!
//! The programs that the compiler builds or refuses are in `tests/ui/`, a package of its own.

use std::cell::Cell;
use std::error::Error;
use std::process::ExitCode;
use std::rc::Rc;

#[ws::test]
async fn returns_nothing() {
    assert_eq!(std::future::ready(7).await, 7);
}

#[ws::test(workers = 2)]
async fn returns_a_result() -> Result<(), Box<dyn Error>> {
    let port: u16 = "8080".parse()?;
    assert_eq!(std::future::ready(port).await, 8080);
    Ok(())
}

#[ws::test]
async fn returns_an_exit_code() -> ExitCode {
    ExitCode::SUCCESS
}

#[ws::test]
async fn may_be_pinned() {
    let kept = Rc::new(Cell::new(1));
    std::future::ready(()).await;
    kept.set(kept.get() + 1);
    assert_eq!(kept.get(), 2);
}

mod beside_any_trait {
    use std::rc::Rc;

    /// Every type has it, and what the macro calls is not it.
    trait Everything: Sized {
        fn pick(self) -> Self {
            self
        }
        fn run(self) -> Self {
            self
        }
    }

    impl<T> Everything for T {}

    #[ws::test]
    async fn a_root_finds_its_way() {
        let kept = Rc::new(1);
        std::future::ready(()).await;
        assert_eq!(*kept.pick().run(), 1);
    }
}

#[ws::test]
#[should_panic(expected = "the body's own words")]
async fn panics_as_a_task() {
    std::future::ready(()).await;
    panic!("the body's own words");
}

#[ws::test(workers = 2)]
#[should_panic(expected = "the body's own words")]
async fn panics_while_pinned() {
    let kept = Rc::new("the body's own words");
    std::future::ready(()).await;
    panic!("{kept}");
}

// Without the look for lost tasks they would hang.
#[ws::test]
#[should_panic(expected = "it waits, and nothing has a waker of it")]
async fn a_root_that_can_never_wake_fails() {
    std::future::pending::<()>().await;
}

#[ws::test(paused)]
#[should_panic(expected = "which can never wake")]
async fn a_root_that_waits_for_a_lost_task_fails() {
    ws::spawn(std::future::pending::<()>()).await.unwrap();
}

/// What std's harness calls is a plain function, so the outcome of a test that fails can be seen.
#[test]
fn an_error_is_a_failure() {
    #[ws::main(workers = 1)]
    async fn main() -> Result<(), Box<dyn Error>> {
        let port: u16 = "eighty".parse()?;
        assert_eq!(std::future::ready(port).await, 80);
        Ok(())
    }

    assert_eq!(main(), ExitCode::FAILURE);
}
