//! The places that the recorder is told of: nothing without the feature `recorder`.

/// Notes something that a worker does, or a runtime:
/// `event!(worker, Kind, header of a task or (), number)`.
macro_rules! event {
    ($at:expr, $kind:ident, $task:expr, $number:expr) => {
        #[cfg(any(test, feature = "recorder"))]
        if $at
            .recorder()
            .takes($crate::recorder::EventKind::$kind.level())
        {
            $at.note($crate::recorder::EventKind::$kind, $task, $number as u64);
        }
    };
}

pub(crate) use event;
