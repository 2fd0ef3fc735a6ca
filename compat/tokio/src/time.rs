//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/time/).

mod clock;
pub mod error;
mod interval;
mod sleep;
mod timeout;

#[doc(no_inline)]
pub use std::time::Duration;

pub use ws_executor::time::{Instant, MissedTickBehavior};

pub(crate) use self::clock::NOT_HERE;
pub use self::{
    clock::{advance, pause, resume},
    interval::{Interval, interval, interval_at},
    sleep::{Sleep, sleep, sleep_until},
    timeout::{Timeout, timeout, timeout_at},
};

/// The longest wait: thirty years, as in tokio.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// The moment that is `duration` away, or else [`FAR`].
fn after(duration: Duration) -> Instant {
    Instant::now() + duration.min(FAR)
}
