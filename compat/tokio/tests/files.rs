//! Files, where tokio's own tests do not look.

use std::task::{Context, Poll, Waker};

use tokio::{fs::File, io::AsyncWriteExt, runtime::Builder};

// Fails if `poll_write` takes bytes that nothing will write.
#[test]
fn a_write_after_the_end_of_the_runtime_is_refused() {
    let path = std::env::temp_dir().join(format!("ws-tokio-late-{}", std::process::id()));
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let mut file = runtime.block_on(File::create(&path)).unwrap();
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    drop(runtime);
    let mut cx = Context::from_waker(Waker::noop());
    let polled = std::pin::pin!(file.write(b"hello")).poll(&mut cx);
    let Poll::Ready(Err(error)) = polled else {
        panic!("{polled:?}");
    };
    assert_eq!(error.to_string(), "background task failed");
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    std::fs::remove_file(path).unwrap();
}
