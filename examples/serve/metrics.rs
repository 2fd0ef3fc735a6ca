//! The counters of runtime and server, in the text format of Prometheus.

use std::fmt::Write;

use hyper::header::HeaderValue;
use ws::{
    hyper::Counts,
    runtime::{Handle, Metrics, ProcessorMetrics},
};

use crate::{body::Content, routes::Answer};

pub(crate) fn answer(counts: &Counts) -> Answer {
    Answer {
        content_type: HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
        content: Content::from(text(&Handle::current().metrics(), counts)),
    }
}

/// How a family of samples is called, what it is, and where a processor's value is.
type PerProcessor = (&'static str, &'static str, fn(&ProcessorMetrics) -> u64);

const COUNTERS: [PerProcessor; 12] = [
    ("ws_polls_total", "Polls of tasks.", |p| p.polls),
    ("ws_spawned_total", "Tasks spawned here.", |p| p.spawned),
    ("ws_completed_total", "Tasks that ended here.", |p| {
        p.completed
    }),
    (
        "ws_searches_total",
        "Times that its thread looked for work elsewhere.",
        |p| p.searches,
    ),
    ("ws_steals_total", "Steals that brought something.", |p| {
        p.steals
    }),
    ("ws_stolen_total", "Tasks that came by a steal.", |p| {
        p.stolen
    }),
    (
        "ws_overflows_total",
        "Times that half of the local queue went to the global one.",
        |p| p.overflows,
    ),
    (
        "ws_global_total",
        "Tasks taken from the global queue.",
        |p| p.global,
    ),
    (
        "ws_parks_total",
        "Times that its thread went to sleep.",
        |p| p.parks,
    ),
    (
        "ws_wakeups_total",
        "Times that it woke another thread.",
        |p| p.wakeups,
    ),
    ("ws_netpolls_total", "Looks at the netpoll.", |p| p.netpolls),
    ("ws_timers_total", "Timers fired.", |p| p.timers),
];

fn text(runtime: &Metrics, counts: &Counts) -> String {
    let mut text = String::new();
    for (name, help, value) in COUNTERS {
        family(&mut text, name, "counter", help);
        processors(&mut text, name, runtime, value);
    }
    let name = "ws_local_queue_length";
    family(&mut text, name, "gauge", "Tasks in the local queue.");
    processors(&mut text, name, runtime, |p| p.local_queue as u64);

    for (name, help, value) in [
        (
            "ws_global_queue_length",
            "Tasks in the global queue.",
            runtime.global_queue,
        ),
        ("ws_tasks", "Tasks that are alive.", runtime.live_tasks),
        (
            "ws_workers",
            "How many threads may run tasks at a time.",
            runtime.workers,
        ),
        ("ws_threads", "Threads of the runtime.", runtime.threads),
        (
            "ws_permits_free",
            "Permits that nobody holds; 0 if all workers are busy.",
            runtime.free_permits,
        ),
        (
            "ws_spinning",
            "Threads that search for work.",
            runtime.spinning,
        ),
    ] {
        family(&mut text, name, "gauge", help);
        sample(&mut text, name, value as u64);
    }
    let name = "ws_accepts_delayed_total";
    let help = "Times that an accept waited: the system had no room.";
    family(&mut text, name, "counter", help);
    sample(&mut text, name, runtime.accepts_delayed);
    for (name, kind, help, value) in [
        (
            "serve_connections_total",
            "counter",
            "Connections accepted.",
            counts.connections_accepted(),
        ),
        (
            "serve_connections_open",
            "gauge",
            "Connections that are open.",
            counts.connections_open(),
        ),
        (
            "serve_requests_total",
            "counter",
            "Requests received.",
            counts.requests(),
        ),
        (
            "serve_requests_in_flight",
            "gauge",
            "Requests not yet answered in full.",
            counts.requests_in_flight(),
        ),
    ] {
        family(&mut text, name, kind, help);
        sample(&mut text, name, value);
    }
    text
}

const INFALLIBLE: &str = "a string takes any text";

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect(INFALLIBLE);
}

fn sample(text: &mut String, name: &str, value: u64) {
    writeln!(text, "{name} {value}").expect(INFALLIBLE);
}

fn processors(
    text: &mut String,
    name: &str,
    runtime: &Metrics,
    value: fn(&ProcessorMetrics) -> u64,
) {
    for (index, p) in runtime.processors.iter().enumerate() {
        writeln!(text, "{name}{{p=\"{index}\"}} {}", value(p)).expect(INFALLIBLE);
    }
}
