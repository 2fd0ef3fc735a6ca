//! The one table of all numbers: their names, what they are, and where they are.
//!
//! The text of Prometheus, the JSON of the live page, and exporters such as `ws::metrics` are made
//! of it. So a number has one name everywhere.

use super::{Durations, Metrics, ProcessorMetrics};

/// A number of `T`: its name, what it is, and whether it only grows.
pub(super) struct Number<T: 'static> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) grows: bool,
    pub(super) value: fn(&T) -> u64,
}

const fn counter<T>(name: &'static str, help: &'static str, value: fn(&T) -> u64) -> Number<T> {
    Number {
        name,
        help,
        grows: true,
        value,
    }
}

const fn gauge<T>(name: &'static str, help: &'static str, value: fn(&T) -> u64) -> Number<T> {
    Number {
        name,
        help,
        grows: false,
        value,
    }
}

pub(super) const OF_PROCESSORS: &[Number<ProcessorMetrics>] = &[
    counter("polls", "Polls of tasks.", |p| p.polls),
    counter("spawned", "Tasks spawned here.", |p| p.spawned),
    counter("completed", "Tasks that ended here.", |p| p.completed),
    counter("searches", "Looks at the queues of others.", |p| p.searches),
    counter("steals", "Steals that brought something.", |p| p.steals),
    counter("stolen", "Tasks that came by a steal.", |p| p.stolen),
    counter(
        "overflows",
        "Times that half of the local queue went to the global one.",
        |p| p.overflows,
    ),
    counter("global", "Tasks taken from the global queue.", |p| p.global),
    counter(
        "ordered",
        "Tasks with a priority taken from a queue.",
        |p| p.ordered,
    ),
    counter("parks", "Times that its thread went to sleep.", |p| p.parks),
    counter("wakeups", "Times that it woke another thread.", |p| {
        p.wakeups
    }),
    counter("netpolls", "Looks at the netpoll.", |p| p.netpolls),
    counter("timers", "Timers fired.", |p| p.timers),
    gauge("local_queue", "Tasks in the local queue.", |p| {
        p.local_queue as u64
    }),
    gauge("own_ordered_queue", "Tasks in its ordered queue.", |p| {
        p.ordered_queue as u64
    }),
];

pub(super) const OF_RUNTIME: &[Number<Metrics>] = &[
    gauge(
        "workers",
        "Threads that may run tasks at the same time.",
        |m| m.workers as u64,
    ),
    gauge(
        "free_permits",
        "Permits that no thread holds; 0 if all workers are busy.",
        |m| m.free_permits as u64,
    ),
    gauge(
        "threads",
        "Threads of the runtime, running or parked.",
        |m| m.threads as u64,
    ),
    gauge("spinning", "Threads that search for work.", |m| {
        m.spinning as u64
    }),
    gauge("live_tasks", "Tasks that are alive.", |m| {
        m.live_tasks as u64
    }),
    gauge("global_queue", "Tasks in the global queue.", |m| {
        m.global_queue as u64
    }),
    gauge(
        "ordered_queue",
        "Tasks with a priority in the queue that all share.",
        |m| m.ordered_queue as u64,
    ),
    counter(
        "threads_refused",
        "Times that a thread was wanted and could not be had.",
        |m| m.threads_refused,
    ),
    counter("monitor_looks", "Looks of the monitor.", |m| {
        m.monitor_looks
    }),
    counter(
        "accepts_delayed",
        "Times that an accept waited, for the system had no room.",
        |m| m.accepts_delayed,
    ),
    gauge(
        "facilities_refused",
        "Facilities that the system refuses, and the runtime does without.",
        |m| m.facilities_refused as u64,
    ),
];

/// The histograms: a name, what it is, and where.
pub(super) type Histogram = (&'static str, &'static str, fn(&Metrics) -> &Durations);

pub(super) const HISTOGRAMS: &[Histogram] = &[
    ("poll", "How long polls took, of a sample.", |m| {
        &m.poll_time
    }),
    (
        "wake_to_poll",
        "How long tasks waited from a wake to the poll, of a sample.",
        |m| &m.wake_to_poll,
    ),
    (
        "steal_to_poll",
        "How long it took from a steal to the poll of what was stolen.",
        |m| &m.steal_to_poll,
    ),
];

impl<T> Number<T> {
    /// The name of its family, as in Prometheus.
    pub(super) fn family(&self) -> String {
        match self.grows {
            true => format!("ws_{}_total", self.name),
            false => format!("ws_{}", self.name),
        }
    }

    fn value(&self, of: &T) -> Value<'static> {
        let value = (self.value)(of);
        match self.grows {
            true => Value::Counter(value),
            false => Value::Gauge(value),
        }
    }
}

/// The name of the family of a histogram, as in Prometheus.
pub(super) fn histogram_family(name: &str) -> String {
    format!("ws_{name}_seconds")
}

/// All samples of one name, for an exporter.
#[derive(Clone, Debug)]
pub struct Family<'a> {
    /// As in Prometheus.
    pub name: String,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// All are of one kind. There may be none.
    pub samples: Vec<Sample<'a>>,
}

/// A value, of a P or of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The number of the P.
    pub processor: Option<usize>,
    /// The value.
    pub value: Value<'a>,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// It only grows, while the runtime lives.
    Counter(u64),
    /// It may shrink.
    Gauge(u64),
    /// All that was measured so far.
    Histogram(&'a Durations),
}

impl Metrics {
    /// All counters of the runtime, by their names.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OF_RUNTIME
            .iter()
            .map(|number| (number.name, (number.value)(self)))
    }

    /// All families, for an exporter.
    #[doc(hidden)]
    pub fn families(&self) -> impl Iterator<Item = Family<'_>> {
        let of_runtime = |value| {
            let processor = None;
            vec![Sample { processor, value }]
        };
        let numbers = OF_RUNTIME.iter().map(move |number| Family {
            name: number.family(),
            help: number.help,
            samples: of_runtime(number.value(self)),
        });
        let histograms = HISTOGRAMS
            .iter()
            .map(move |(name, help, durations)| Family {
                name: histogram_family(name),
                help,
                samples: of_runtime(Value::Histogram(durations(self))),
            });
        let of_processors = OF_PROCESSORS.iter().map(|number| Family {
            name: number.family(),
            help: number.help,
            samples: (self.processors.iter().enumerate())
                .map(|(index, processor)| Sample {
                    processor: Some(index),
                    value: number.value(processor),
                })
                .collect(),
        });
        numbers.chain(histograms).chain(of_processors)
    }
}

impl ProcessorMetrics {
    /// All counters of the P, by their names.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OF_PROCESSORS
            .iter()
            .map(|number| (number.name, (number.value)(self)))
    }
}
