//! The runtime of an adapter. What an adapter makes for another library joins the runtime that the
//! adapter was made for, on whichever thread that library calls it.

use ws_executor::runtime::Handle;

/// Polls a future with a runtime as the current one, wherever it is polled.
pub(crate) async fn entered<F: Future>(handle: Handle, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        let _here = handle.enter();
        future.as_mut().poll(cx)
    })
    .await
}
