//! Why there is no stack.

use std::{error::Error, fmt};

/// Why there is no stack of a thread. `Display` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoStack(pub(crate) Why);

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    dead_code,
    reason = "some are made where there are stacks, some elsewhere"
)]
pub(crate) enum Why {
    /// The feature `unwind` is off.
    NotBuilt,
    /// The system or the processor has no implementation.
    Unsupported,
    /// It has ended, or was never registered.
    Unknown,
    /// It is the calling thread.
    Own,
    /// Another capture did not come to an end within the limit, or a handler is in the middle of an
    /// earlier one.
    Busy,
    /// The thread has blocked the signal.
    SignalBlocked,
    /// All signals that may be used have handlers of others.
    NoSignal,
    /// The system did not take the signal.
    NotSent(String),
    /// The handler did not run within the limit.
    NotInTime,
    /// The memory of the process could not be read.
    Memory(String),
}

impl fmt::Display for NoStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Why::NotBuilt => "it was built without the feature `stacks`",
            Why::Unsupported => "not implemented on this system",
            Why::Unknown => "the thread has ended, or is not a thread of the runtime",
            Why::Own => "the thread is the one that asks",
            Why::Busy => "another capture has not ended",
            Why::SignalBlocked => "the thread computes, and has blocked the signal for this",
            Why::NoSignal => "no real-time signal is free, all of them have handlers",
            Why::NotSent(error) => return write!(f, "the signal could not be sent: {error}"),
            Why::NotInTime => "the thread did not answer in time, it may wait for a core",
            Why::Memory(error) => {
                return write!(f, "/proc/self/mem could not be read: {error}");
            }
        })
    }
}

impl Error for NoStack {}
