//! The places that the recorder (`recorder.rs`) is told of.

/// Notes something that a worker does, or a runtime:
/// `event!(worker, Kind, header of a task or (), number)`.
macro_rules! event {
    ($at:expr, $kind:ident, $task:expr, $number:expr) => {
        if $at
            .recorder()
            .takes($crate::recorder::EventKind::$kind.level())
        {
            $at.note($crate::recorder::EventKind::$kind, $task, $number as u64);
        }
    };
}

/// The same for a task's way into a queue: nothing without the feature `queue-records`.
macro_rules! way {
    ($at:expr, $kind:ident, $task:expr) => {
        #[cfg(any(test, feature = "queue-records"))]
        $crate::note::event!($at, $kind, $task, 0);
    };
}

pub(crate) use {event, way};
