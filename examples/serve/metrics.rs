//! The counters of runtime and server, in the text format of Prometheus.

use std::fmt::Write;

use hyper::header::HeaderValue;
use ws::{
    hyper::Counts,
    runtime::{Handle, Metrics},
};

use crate::{body::Content, routes::Answer};

pub(crate) fn answer(counts: &Counts) -> Answer {
    Answer {
        content_type: HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
        content: Content::from(text(&Handle::current().metrics(), counts)),
    }
}

fn text(runtime: &Metrics, counts: &Counts) -> String {
    let mut text = runtime.prometheus().to_string();
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
