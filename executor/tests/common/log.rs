//! Ears for what is logged; the unit tests of `src/` have this file too.

use std::{fmt::Debug, sync::Once};

/// Calls a function at each event that is logged in this process. A process has one such function,
/// the first.
pub(crate) fn subscribe(on_event: fn(&tracing::Event<'_>)) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Listener(on_event)).expect("nobody else listens");
    });
}

/// An event as a line: its level, and each field with its value.
pub(crate) fn line(event: &tracing::Event<'_>) -> String {
    struct Line(String);
    impl tracing::field::Visit for Line {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
            self.0 += &format!(" {}={value:?}", field.name());
        }
    }
    let mut line = Line(event.metadata().level().to_string());
    event.record(&mut line);
    line.0
}

/// With something in it: what is empty has an address behind its allocation, and LeakSanitizer
/// would not see what keeps it.
struct Listener(fn(&tracing::Event<'_>));

impl tracing::Subscriber for Listener {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        (self.0)(event);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
