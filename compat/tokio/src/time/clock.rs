//! The clock of a current-thread runtime, stopped and moved by hand.

use ws_executor::netpoll::look_around;

use super::{Duration, Instant};
use crate::runtime::{Handle, RuntimeFlavor};

/// Where a clock cannot be stopped.
pub(crate) const NOT_HERE: &str = "`time::pause()` requires the `current_thread` Tokio runtime. \
     This is the default Runtime used by `#[tokio::test].";

/// Stops the clock. It jumps to the next timer when nothing else can go on.
///
/// # Panics
///
/// If it stands still, and outside of a current-thread runtime.
#[track_caller]
pub fn pause() {
    let handle = current();
    assert!(
        handle.runtime_flavor() == RuntimeFlavor::CurrentThread,
        "{NOT_HERE}"
    );
    assert!(handle.ws.set_frozen(true), "time is already frozen");
}

/// Lets the clock run.
///
/// # Panics
///
/// If it runs, and outside of a runtime.
#[track_caller]
pub fn resume() {
    assert!(current().ws.set_frozen(false), "time is not frozen");
}

/// Moves the clock, and fires what is due then.
///
/// # Panics
///
/// If it runs, outside of a runtime, and if no instant is so far.
pub async fn advance(duration: Duration) {
    move_by(duration);
    // tokio looks at its timers before a task that yields has its next turn.
    look_around();
    crate::task::yield_now().await;
}

fn move_by(duration: Duration) {
    let handle = current();
    assert!(handle.ws.is_frozen(), "time is not frozen");
    let _representable = Instant::now() + duration;
    handle.ws.advance(duration);
}

#[track_caller]
fn current() -> Handle {
    match Handle::try_current() {
        Ok(handle) => handle,
        Err(_) => panic!("time cannot be frozen from outside the Tokio runtime"),
    }
}
