//! What a knob of the builder may be set to, where that is one of a few.

/// What the panic of a task does to its runtime; see
/// [`Builder::unhandled_panic`](super::Builder::unhandled_panic).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// Nothing: the task that awaits its handle gets the panic, and all others go on.
    #[default]
    Ignore,
    /// The first panic of a task ends the whole runtime.
    ShutdownRuntime,
}

/// What a task of a low priority gets beside others; see
/// [`Builder::priorities`](super::Builder::priorities).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Priorities {
    /// A turn now and then: see [`Priority`](crate::task::Priority#fairness).
    #[default]
    Fair,
    /// Nothing while a task of a higher priority is ready.
    Strict,
}

/// Whether a monitor thread watches the workers; see [`Builder::sysmon`](super::Builder::sysmon).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sysmon {
    /// It does.
    #[default]
    On,
    /// It does not.
    Off,
}

/// What the time of a runtime is; see [`Builder::clock`](super::Builder::clock).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// That of the system.
    #[default]
    System,
    /// Virtual: it stands still while a task can go on, and jumps to the next timer when all wait.
    Paused,
}
