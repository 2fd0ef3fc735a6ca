//! Lines of a log in the flight recorder: a layer for the crate `tracing` (feature
//! `tracing-layer`).
//!
//! How a line is kept, and what bounds its memory: `recorder/log.rs`.
//!
//! The text is made first, outside of everything: `Debug` and `Display` of a user's types run
//! there. They may log themselves, wait for a lock, or panic. Then the records are written as those
//! of a mark are. So nothing of the user's runs while a ring is written.
//!
//! *Lines of the crate `log`* come through `tracing-log`. All of them have the target `log`, and
//! their own one in a field. A target is kept for good, so only one of the source is: theirs is
//! written before the text.

use std::fmt::{self, Write};

use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::layer::Context;

use super::{running, with_recorder};
use crate::recorder::log::Line;

/// Records each event of `tracing` in the flight recorder of this thread's runtime.
///
/// So a [recording](crate::runtime::Handle::recording) has what the program logged beside what the
/// scheduler did: as an event of the kind [`Log`](super::EventKind::Log), and in the picture of
/// Perfetto on the track of the task and on that of its worker.
///
/// Of an event it keeps the level, the target, and a text: the message and the fields, as
/// `it is priced order=7`. The text is cut at 240 bytes. Spans of `tracing` are not recorded. A
/// line of the crate `log`, as `tracing-log` passes it on, has the target `log`, and its own one
/// before the text: `sqlx::query: it took 2 s`.
///
/// A line takes the room of one other record, and of one more for each 15 bytes of its text. So a
/// program that logs a lot should filter what the layer gets (`Layer::with_filter` of
/// `tracing_subscriber`), or have more [memory](crate::runtime::Builder::recorder) for its
/// recorder. Targets are kept as the names of [marks](super::mark) are: 65,535 in a process, and
/// lines with later ones have none.
///
/// A line needs no memory beside the recorder's. A worker takes a lock only for a target that its
/// thread has not used lately.
///
/// Outside of a runtime, and at [`Level::Off`](super::Level::Off), it does nothing.
///
/// A runtime reports stalls and panics on stderr if there is no subscriber. With this layer there
/// is one, and it shows nothing to anyone. So have a layer beside it that does.
///
/// # Examples
///
/// ```
/// use tracing_subscriber::prelude::*;
/// use ws::{runtime::Handle, trace::EventKind};
///
/// #[ws::main]
/// async fn main() {
///     tracing_subscriber::registry().with(ws::trace::Layer::new()).init();
///
///     tracing::info!(order = 7, "it is priced");
///
///     let events = Handle::current().recording().events;
///     let line = events.iter().find(|event| event.kind == EventKind::Log).expect("it is there");
///     assert_eq!(line.text.as_deref(), Some("it is priced order=7"));
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Layer {}

impl Layer {
    /// A layer, for all runtimes of the process.
    pub const fn new() -> Self {
        Self {}
    }
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Layer {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut is_recorded = false;
        with_recorder(|_, _| is_recorded = metadata.target() != WAKERS);
        if !is_recorded {
            return;
        }
        let mut line = Line::new(metadata.target(), level(metadata));
        let is_of_log = metadata.target() == LOG;
        if is_of_log {
            event.record(&mut LogTarget(&mut line));
        }
        let line = &mut line;
        event.record(&mut Text { line, is_of_log });
        with_recorder(|shared, worker| {
            let task = running(worker);
            match worker {
                Some(worker) => worker.write_line(task, line),
                None => shared.write_line_elsewhere(task, line),
            }
        });
    }
}

/// The target of what tokio-console is told of wakers (`cell/console.rs`): no lines of a log, and
/// so many that they would overwrite everything else.
const WAKERS: &str = "runtime::waker";

/// The target that `tracing-log` gives to the lines of the crate `log`.
const LOG: &str = "log";

/// The fields in which it has the target of such a line, and the place.
const LOG_TARGET: &str = "log.target";
const LOG_PLACE: [&str; 3] = ["log.module_path", "log.file", "log.line"];

/// Writes the target of a line of the crate `log`.
struct LogTarget<'a>(&'a mut Line);

impl Visit for LogTarget<'_> {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == LOG_TARGET {
            // An error: there is no more room.
            _ = write!(self.0, "{value}:");
        }
    }
}

/// The number of a level: see [`EventKind::Log`](super::EventKind::Log).
fn level(metadata: &Metadata<'_>) -> u64 {
    match *metadata.level() {
        tracing::Level::ERROR => 1,
        tracing::Level::WARN => 2,
        tracing::Level::INFO => 3,
        tracing::Level::DEBUG => 4,
        tracing::Level::TRACE => 5,
    }
}

/// Writes the message as it is, and each field with its name.
struct Text<'a> {
    line: &'a mut Line,
    /// What `tracing-log` adds is left out.
    is_of_log: bool,
}

impl Text<'_> {
    fn field(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let name = field.name();
        if self.is_of_log && (name == LOG_TARGET || LOG_PLACE.contains(&name)) {
            return;
        }
        let separator = if self.line.is_empty() { "" } else { " " };
        // An error: there is no more room.
        _ = match name {
            "message" => write!(self.line, "{separator}{value}"),
            name => write!(
                self.line,
                "{separator}{}={value}",
                name.trim_start_matches("r#")
            ),
        };
    }
}

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.field(field, format_args!("{value}")),
            _ => self.field(field, format_args!("{value:?}")),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.field(field, format_args!("{value}"));
    }
}
