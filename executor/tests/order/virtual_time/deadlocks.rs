//! A deadlock in virtual time is a panic that names what waits.

use super::*;

fn deadlock(root: impl Future<Output = ()> + Send + 'static) -> String {
    let runtime = Builder::new()
        .clock(Clock::Paused)
        .deadlock_after(Duration::from_millis(1))
        .build()
        .unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| runtime.run(root))).unwrap_err();
    *panic.downcast::<String>().unwrap()
}

#[test]
fn a_deadlock_is_a_panic_that_names_who_waits() {
    limited(|| {
        let text = deadlock(async {
            let (send, receive) = oneshot::channel::<()>();
            let waits = ws_executor::task::Builder::new()
                .name("waits for itself")
                .spawn(async {
                    receive.await.unwrap();
                    drop(send);
                });
            sleep(HOUR).await;
            waits.await.unwrap();
        });
        assert!(text.starts_with("deadlock: "), "{text}");
        assert!(text.contains("waits for itself"), "{text}");
        assert!(text.contains("deadlocks.rs"), "{text}");
    });
}

#[test]
fn a_deadlock_in_a_nested_block_on_is_one_too() {
    limited(|| {
        let text = deadlock(async {
            Handle::current().block_on(pending::<()>());
        });
        assert!(text.starts_with("deadlock: "), "{text}");
    });
}

#[test]
fn a_runtime_survives_its_deadlock() {
    limited(|| {
        let runtime = Builder::new()
            .clock(Clock::Paused)
            .deadlock_after(Duration::from_millis(1))
            .build()
            .unwrap();
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(pending::<()>()))).unwrap_err();
        runtime.block_on(async { sleep(HOUR).await });
    });
}
