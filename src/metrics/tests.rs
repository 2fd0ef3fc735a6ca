//! What a recorder gets, seen by one that keeps it all.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use ::metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, SharedString, with_local_recorder,
};

use super::*;
use crate::{
    runtime::{Builder, Clock, Sysmon},
    trace,
};

/// What came under one name and set of labels.
#[derive(Clone, Debug, PartialEq)]
enum Got {
    Counter(u64),
    Gauge(f64),
    /// Calls of `record_many`, since the last look.
    Histogram(Vec<(f64, usize)>),
}

#[derive(Clone)]
struct One(Arc<Mutex<Got>>);

impl CounterFn for One {
    fn increment(&self, _value: u64) {
        panic!("counters are absolute");
    }

    fn absolute(&self, value: u64) {
        *self.0.lock().unwrap() = Got::Counter(value);
    }
}

impl GaugeFn for One {
    fn increment(&self, _value: f64) {
        panic!("gauges are set");
    }

    fn decrement(&self, _value: f64) {
        panic!("gauges are set");
    }

    fn set(&self, value: f64) {
        *self.0.lock().unwrap() = Got::Gauge(value);
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        match &mut *self.0.lock().unwrap() {
            Got::Histogram(calls) => calls.push((value, count)),
            other => *other = Got::Histogram(vec![(value, count)]),
        }
    }
}

/// A recorder that keeps all.
#[derive(Default)]
struct Kept {
    /// By the key as text: the name, and the labels in braces.
    values: Mutex<BTreeMap<String, One>>,
    /// Unit and help, by the name.
    told: Mutex<BTreeMap<String, (Option<Unit>, String)>>,
    reports: AtomicUsize,
}

impl Kept {
    fn one(&self, key: &Key) -> Arc<One> {
        let labels = key
            .labels()
            .map(|it| format!("{}={}", it.key(), it.value()));
        let text = format!("{}{{{}}}", key.name(), labels.collect::<Vec<_>>().join(","));
        if text.starts_with("ws_workers{") {
            self.reports.fetch_add(1, Relaxed);
        }
        let mut values = self.values.lock().unwrap();
        let empty = || One(Arc::new(Mutex::new(Got::Histogram(Vec::new()))));
        Arc::new(values.entry(text).or_insert_with(empty).clone())
    }

    fn tell(&self, name: &KeyName, unit: Option<Unit>, help: &SharedString) {
        let told = (unit, help.to_string());
        self.told
            .lock()
            .unwrap()
            .insert(name.as_str().to_owned(), told);
    }

    /// Takes what came under this key.
    fn take(&self, key: &str) -> Option<Got> {
        let values = self.values.lock().unwrap();
        let mut got = values.get(key)?.0.lock().unwrap();
        Some(std::mem::replace(&mut *got, Got::Histogram(Vec::new())))
    }

    fn observed(&self, key: &str) -> usize {
        match self.take(key) {
            Some(Got::Histogram(calls)) => calls.iter().map(|(_, count)| count).sum(),
            other => panic!("{key} is no histogram: {other:?}"),
        }
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.tell(&name, unit, &help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.tell(&name, unit, &help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.tell(&name, unit, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

/// Tasks that are spawned and polled once each.
fn spawn_some(runtime: &crate::runtime::Runtime, count: usize) {
    runtime.block_on(async {
        for _ in 0..count {
            crate::spawn(async {}).await.unwrap();
        }
    });
}

// Fails if a family is left out, has another name than on the page of Prometheus, or is not told
// with its unit and its help.
#[test]
fn a_recorder_gets_all_that_prometheus_gets() {
    let runtime = Builder::new().workers(2).build().unwrap();
    // There is a P from then on.
    spawn_some(&runtime, 1);
    let kept = Kept::default();
    with_local_recorder(&kept, || Reporter::of(runtime.handle()).report());
    let page = runtime.metrics().prometheus().to_string();
    let helps = page.lines().filter_map(|line| line.strip_prefix("# HELP "));
    let helps: BTreeMap<_, _> = helps.filter_map(|help| help.split_once(' ')).collect();
    let told = kept.told.lock().unwrap();
    assert!(helps.keys().eq(told.keys()), "{helps:?} {told:?}");
    for (name, (unit, help)) in &*told {
        assert_eq!(helps[&**name], help);
        let expected = match name.ends_with("_seconds") {
            true => Unit::Seconds,
            false => Unit::Count,
        };
        assert_eq!(*unit, Some(expected), "{name}");
    }
}

/// What the counters of spawns say, of all Ps.
fn spawned(kept: &Kept) -> u64 {
    // A `block_on` has the P that is free, which need not be the one that it had before.
    let of = |p| kept.take(&format!("ws_spawned_total{{runtime=web,p={p}}}"));
    let values = (0..).map_while(of).map(|got| match got {
        Got::Counter(value) => value,
        other => panic!("it is no counter: {other:?}"),
    });
    values.sum()
}

// Fails if a counter is told by how much it grew, if a gauge is one of the last report, or if the
// numbers of two Ps are one.
#[test]
fn counters_are_absolute_and_have_their_labels() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let kept = Kept::default();
    let mut reporter = Reporter::of(runtime.handle()).label("runtime", "web");
    spawn_some(&runtime, 3);
    with_local_recorder(&kept, || reporter.report());
    assert_eq!(spawned(&kept), 3);
    let live = "ws_live_tasks{runtime=web}";
    // A task that was joined may still be about to leave the table.
    while kept.take(live) != Some(Got::Gauge(0.0)) {
        with_local_recorder(&kept, || reporter.report());
    }
    let waits = runtime.spawn(std::future::pending::<()>());
    spawn_some(&runtime, 2);
    with_local_recorder(&kept, || reporter.report());
    assert_eq!(spawned(&kept), 5);
    while kept.take(live) != Some(Got::Gauge(1.0)) {
        with_local_recorder(&kept, || reporter.report());
    }
    waits.abort();
}

// Fails if an observation is told twice, or not at all, or if a reporter has what another one has
// told.
#[test]
fn a_histogram_gets_what_is_new() {
    let builder = Builder::new().workers(1).sysmon(Sysmon::Off);
    let runtime = builder.record(trace::Level::Full).build().unwrap();
    let kept = Kept::default();
    let mut reporter = Reporter::of(runtime.handle());
    let mut told = 0;
    for count in [3, 0, 5] {
        spawn_some(&runtime, count);
        with_local_recorder(&kept, || reporter.report());
        told += kept.observed("ws_poll_seconds{}");
        assert_eq!(told as u64, reporter.reported[0].count());
    }
    // From here on nothing is polled.
    drop(runtime);
    with_local_recorder(&kept, || reporter.report());
    told += kept.observed("ws_poll_seconds{}");
    let polls = reporter.handle.metrics().poll_time.count();
    assert_eq!(told as u64, polls);
    assert!(told >= 8, "{told}");
    with_local_recorder(&kept, || Reporter::of(&reporter.handle).report());
    assert_eq!(kept.observed("ws_poll_seconds{}") as u64, polls);
}

// Fails if a time has not the bound of its bucket, or the unit is another one.
#[test]
fn a_time_is_the_bound_of_its_bucket() {
    let builder = Builder::new().workers(1).record(trace::Level::Full);
    let runtime = builder.build().unwrap();
    spawn_some(&runtime, 10);
    let now = runtime.metrics().poll_time;
    let new = new_ones(&now, &Durations::default());
    let bounds: Vec<f64> = now
        .buckets()
        .filter(|(_, count)| *count > 0)
        .map(|(bound, _)| bound.unwrap().as_secs_f64())
        .collect();
    assert_eq!(
        new.iter().map(|(bound, _)| *bound).collect::<Vec<_>>(),
        bounds
    );
    let sum: f64 = new.iter().map(|(bound, count)| bound * *count as f64).sum();
    assert!(sum >= now.sum().as_secs_f64(), "{sum} {now}");
    assert_eq!(new_ones(&now, &now), []);
}

// Fails if it does not report at once, or only once. Time is virtual: the recorder is this
// thread's, and so is each poll.
#[test]
fn it_reports_each_period() {
    let runtime = Builder::new()
        .workers(1)
        .clock(Clock::Paused)
        .build()
        .unwrap();
    let kept = Kept::default();
    with_local_recorder(&kept, || {
        runtime.block_on(async {
            let period = Duration::from_secs(10);
            let reports = Reporter::current().every(period);
            let three = time::timeout(2 * period + period / 2, reports);
            three.await.unwrap_err();
        });
    });
    assert_eq!(kept.reports.load(Relaxed), 3);
}

#[test]
fn a_label_is_there_once() {
    let runtime = Builder::new().workers(1).build().unwrap();
    // The last two are those of the exporter.
    for wrong in ["p", "runtime", "le", "quantile"] {
        let reporter = Reporter::of(runtime.handle()).label("runtime", "web");
        let label = std::panic::AssertUnwindSafe(|| reporter.label(wrong, ""));
        assert!(std::panic::catch_unwind(label).is_err(), "{wrong}");
    }
    assert!(Reporter::try_current().is_err());
}
