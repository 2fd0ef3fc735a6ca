//! The counters as text: for people, and for Prometheus.

use std::fmt;

use super::{
    Durations, Metrics, ProcessorMetrics,
    table::{HISTOGRAMS, Number, OF_PROCESSORS, OF_RUNTIME, histogram_family},
};

/// The numbers of the runtime, its histograms, and a table with a row for each P.
///
/// ```
/// let runtime = ws::runtime::Builder::new().workers(1).build().unwrap();
/// let text = runtime.metrics().to_string();
/// assert!(text.starts_with("workers 1, free_permits 1, "));
/// ```
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        numbers(f, OF_RUNTIME, self)?;
        for (name, _, durations) in HISTOGRAMS {
            write!(f, "\n{name}: {}", durations(self))?;
        }
        write!(f, "\nP    ")?;
        for number in OF_PROCESSORS {
            write!(f, "  {:>10}", number.name)?;
        }
        for (index, processor) in self.processors.iter().enumerate() {
            write!(f, "\n{index:<5}")?;
            for number in OF_PROCESSORS {
                let width = number.name.len().max(10);
                write!(f, "  {:>width$}", (number.value)(processor))?;
            }
        }
        Ok(())
    }
}

/// The numbers of one P, by their names.
///
/// ```
/// let processor = ws::runtime::ProcessorMetrics::default();
/// assert!(processor.to_string().starts_with("polls 0, spawned 0, "));
/// ```
impl fmt::Display for ProcessorMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        numbers(f, OF_PROCESSORS, self)
    }
}

/// Names and values, with commas between them.
fn numbers<T>(f: &mut fmt::Formatter<'_>, numbers: &[Number<T>], of: &T) -> fmt::Result {
    let mut separator = "";
    for number in numbers {
        write!(f, "{separator}{} {}", number.name, (number.value)(of))?;
        separator = ", ";
    }
    Ok(())
}

/// [`Metrics`] in the text format of Prometheus; see [`Metrics::prometheus`].
#[derive(Clone, Debug)]
pub struct Prometheus<'a> {
    /// Each with what stands in the braces of its samples, with a comma at its end.
    runtimes: Vec<(&'a Metrics, String)>,
    /// The names of the labels so far.
    names: Vec<String>,
}

impl Metrics {
    /// The same numbers in the
    /// [text format](https://prometheus.io/docs/instrumenting/exposition_formats/) that Prometheus
    /// scrapes, in version 0.0.4: `ws_polls_total{p="0"} 17`.
    ///
    /// ```
    /// let runtime = ws::runtime::Runtime::new().unwrap();
    /// let text = runtime.metrics().prometheus().to_string();
    /// assert!(text.contains("# TYPE ws_polls_total counter\n"));
    /// assert!(text.contains("\nws_live_tasks 0\n"));
    /// ```
    pub fn prometheus(&self) -> Prometheus<'_> {
        Prometheus {
            runtimes: vec![(self, String::new())],
            names: vec!["p".to_owned(), "le".to_owned()],
        }
    }
}

impl<'a> Prometheus<'a> {
    /// Adds a label to each sample.
    ///
    /// # Panics
    ///
    /// If the name is none for a label: letters, digits and underscores, no digit first, and not
    /// two underscores first, which Prometheus keeps for itself. If there
    /// is a label of that name: `p` is one, the number of a P, and `le`, the bound of a bucket.
    pub fn label(mut self, name: &str, value: &str) -> Self {
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        assert!(
            name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit()),
            "a label's name has letters, digits and underscores, and no digit first: it is {name:?}"
        );
        assert!(
            !name.starts_with("__"),
            "names of labels with two underscores in front are Prometheus' own: {name:?}"
        );
        let is_there = self.names.iter().any(|it| it == name);
        assert!(!is_there, "there is a label of this name: {name:?}");
        self.names.push(name.to_owned());
        let value = value.replace('\\', r"\\");
        let value = value.replace('"', r#"\""#).replace('\n', r"\n");
        for (_, labels) in &mut self.runtimes {
            *labels += &format!("{name}=\"{value}\",");
        }
        self
    }

    /// The numbers of one more runtime, on one page: each family of samples may be there once. The
    /// runtimes need labels that differ.
    ///
    /// ```
    /// let [web, batch] = [(), ()].map(|()| ws::runtime::Runtime::new().unwrap().metrics());
    /// let web = web.prometheus().label("runtime", "web");
    /// let page = web.and(batch.prometheus().label("runtime", "batch")).to_string();
    /// let samples = "ws_live_tasks{runtime=\"web\"} 0\nws_live_tasks{runtime=\"batch\"} 0\n";
    /// assert!(page.contains(samples));
    /// ```
    pub fn and(mut self, other: Prometheus<'a>) -> Self {
        self.runtimes.extend(other.runtimes);
        self.names.extend(other.names);
        self
    }
}

/// The name of a family of samples, and the two lines before them.
fn family<T>(f: &mut fmt::Formatter<'_>, number: &Number<T>) -> Result<String, fmt::Error> {
    let (name, help) = (number.family(), number.help);
    let kind = if number.grows { "counter" } else { "gauge" };
    write!(f, "# HELP {name} {help}\n# TYPE {name} {kind}\n")?;
    Ok(name)
}

/// The samples of a histogram: each bucket counts what is in those below it as well.
fn histogram(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    labels: &str,
    durations: &Durations,
) -> fmt::Result {
    let mut so_far = 0;
    for (bound, count) in durations.buckets() {
        so_far += count;
        let bound = match bound {
            Some(bound) => bound.as_secs_f64().to_string(),
            None => "+Inf".to_owned(),
        };
        writeln!(f, "{name}_bucket{{{labels}le=\"{bound}\"}} {so_far}")?;
    }
    let labels = in_braces(labels);
    writeln!(f, "{name}_sum{labels} {}", durations.sum().as_secs_f64())?;
    writeln!(f, "{name}_count{labels} {so_far}")
}

/// Labels that have a comma at their end.
fn in_braces(labels: &str) -> String {
    match labels.strip_suffix(',') {
        Some(labels) => format!("{{{labels}}}"),
        None => String::new(),
    }
}

impl fmt::Display for Prometheus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for number in OF_RUNTIME {
            let name = family(f, number)?;
            for (metrics, labels) in &self.runtimes {
                let labels = in_braces(labels);
                writeln!(f, "{name}{labels} {}", (number.value)(metrics))?;
            }
        }
        for (name, help, durations) in HISTOGRAMS {
            let name = histogram_family(name);
            write!(f, "# HELP {name} {help}\n# TYPE {name} histogram\n")?;
            for (metrics, labels) in &self.runtimes {
                histogram(f, &name, labels, durations(metrics))?;
            }
        }
        for number in OF_PROCESSORS {
            let name = family(f, number)?;
            for (metrics, labels) in &self.runtimes {
                for (index, processor) in metrics.processors.iter().enumerate() {
                    let value = (number.value)(processor);
                    writeln!(f, "{name}{{{labels}p=\"{index}\"}} {value}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Value;

    fn metrics() -> Metrics {
        // All numbers differ.
        let processor = ProcessorMetrics {
            polls: 12_345_678_901,
            spawned: 101,
            completed: 102,
            searches: 103,
            steals: 104,
            stolen: 105,
            overflows: 106,
            global: 107,
            parks: 108,
            wakeups: 109,
            netpolls: 110,
            timers: 111,
            ordered: 112,
            local_queue: 3,
            ordered_queue: 113,
        };
        Metrics {
            workers: 2,
            threads: 23,
            threads_refused: 4,
            free_permits: 1,
            spinning: 24,
            live_tasks: 5,
            global_queue: 6,
            ordered_queue: 25,
            monitor_looks: 7,
            accepts_delayed: 26,
            facilities_refused: 27,
            poll_time: Durations::of([100, 1_000, 1_000, u64::MAX]),
            wake_to_poll: Durations::of([1_000, 2_000]),
            steal_to_poll: Durations::default(),
            processors: vec![processor, ProcessorMetrics::default()],
        }
    }

    #[test]
    fn each_number_has_its_name() {
        let text = metrics().prometheus().to_string();
        for (name, value) in [
            ("workers", 2),
            ("threads", 23),
            ("threads_refused_total", 4),
            ("free_permits", 1),
            ("spinning", 24),
            ("live_tasks", 5),
            ("global_queue", 6),
            ("ordered_queue", 25),
            ("monitor_looks_total", 7),
            ("accepts_delayed_total", 26),
            ("facilities_refused", 27),
            ("spawned_total{p=\"0\"}", 101),
            ("completed_total{p=\"0\"}", 102),
            ("searches_total{p=\"0\"}", 103),
            ("steals_total{p=\"0\"}", 104),
            ("stolen_total{p=\"0\"}", 105),
            ("overflows_total{p=\"0\"}", 106),
            ("global_total{p=\"0\"}", 107),
            ("parks_total{p=\"0\"}", 108),
            ("wakeups_total{p=\"0\"}", 109),
            ("netpolls_total{p=\"0\"}", 110),
            ("timers_total{p=\"0\"}", 111),
            ("ordered_total{p=\"0\"}", 112),
            ("local_queue{p=\"0\"}", 3),
            ("own_ordered_queue{p=\"0\"}", 113),
            ("wake_to_poll_seconds_count", 2),
            ("steal_to_poll_seconds_count", 0),
        ] {
            let sample = format!("\nws_{name} {value}\n");
            assert!(text.contains(&sample), "{sample}{text}");
        }
        assert!(
            text.contains("\nws_wake_to_poll_seconds_sum 0.000003\n"),
            "{text}"
        );
    }

    #[test]
    fn people_read_a_table() {
        let text = metrics().to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert!(lines[0].starts_with("workers 2, free_permits 1, threads 23, "));
        assert!(lines[1].starts_with("poll: 4 measured: half within "));
        assert!(lines[2].starts_with("wake_to_poll: 2 measured: "));
        // Each column stands below its title.
        let ends = |line: &str| -> Vec<usize> {
            let ends = line.char_indices().zip(line.chars().skip(1));
            let ends = ends.filter(|((_, c), next)| *c != ' ' && *next == ' ');
            ends.map(|((at, _), _)| at).skip(1).collect()
        };
        assert_eq!(ends(lines[4]), ends(lines[6]));
        let columns = |line: &str| line.split_whitespace().count();
        assert_eq!(columns(lines[4]), OF_PROCESSORS.len() + 1);
        assert!(
            lines
                .iter()
                .skip(5)
                .all(|row| columns(row) == columns(lines[4]))
        );
        assert!(lines[5].starts_with("0      12345678901  "));
    }

    // Fails if an exporter is given another name, help or value than the page of Prometheus has, or
    // if a family is left out.
    #[test]
    fn exporters_get_the_same_numbers() {
        let metrics = metrics();
        let text = metrics.prometheus().to_string();
        let mut lines = text.lines().filter(|line| !line.contains("_bucket{"));
        for family in metrics.families() {
            let name = family.name;
            let help = format!("# HELP {name} {}", family.help);
            assert_eq!(lines.next(), Some(&*help));
            let kind = match family.samples[0].value {
                Value::Counter(_) => "counter",
                Value::Gauge(_) => "gauge",
                Value::Histogram(_) => "histogram",
            };
            assert_eq!(lines.next(), Some(&*format!("# TYPE {name} {kind}")));
            for sample in family.samples {
                let labels = sample.processor.map(|index| format!("{{p=\"{index}\"}}"));
                let labels = labels.unwrap_or_default();
                match sample.value {
                    Value::Counter(value) | Value::Gauge(value) => {
                        assert_eq!(lines.next(), Some(&*format!("{name}{labels} {value}")));
                    }
                    Value::Histogram(durations) => {
                        let sum = durations.sum().as_secs_f64();
                        assert_eq!(lines.next(), Some(&*format!("{name}_sum {sum}")));
                        let count = format!("{name}_count {}", durations.count());
                        assert_eq!(lines.next(), Some(&*count));
                    }
                }
            }
        }
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn a_row_has_all_numbers() {
        let text = metrics().processors[0].to_string();
        assert!(
            text.starts_with("polls 12345678901, spawned 101, "),
            "{text}"
        );
        assert!(
            text.ends_with(", local_queue 3, own_ordered_queue 113"),
            "{text}"
        );
        assert_eq!(text.matches(", ").count(), OF_PROCESSORS.len() - 1);
    }

    #[test]
    fn prometheus_reads_samples() {
        let text = metrics().prometheus().to_string();
        let family = "# HELP ws_live_tasks Tasks that are alive.\n# TYPE ws_live_tasks gauge\n\
                      ws_live_tasks 5\n";
        assert!(text.contains(family), "{text}");
        let family = "# TYPE ws_polls_total counter\nws_polls_total{p=\"0\"} 12345678901\n\
                      ws_polls_total{p=\"1\"} 0\n";
        assert!(text.contains(family), "{text}");
        // Each family is there once, and ends with a line's end.
        let mut families: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        assert_eq!(
            families.len(),
            OF_RUNTIME.len() + OF_PROCESSORS.len() + HISTOGRAMS.len()
        );
        families.sort_unstable();
        families.dedup();
        assert_eq!(
            families.len(),
            OF_RUNTIME.len() + OF_PROCESSORS.len() + HISTOGRAMS.len()
        );
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn prometheus_reads_histograms() {
        let metrics = metrics();
        let text = metrics.prometheus().label("zone", "1").to_string();
        let samples = |name: &str| -> Vec<_> {
            let of_name = |line: &&str| line.starts_with(&format!("ws_poll_seconds_{name}"));
            text.lines().filter(of_name).collect()
        };
        let buckets = samples("bucket");
        assert_eq!(
            buckets[0],
            "ws_poll_seconds_bucket{zone=\"1\",le=\"0.000000128\"} 1"
        );
        let second = "ws_poll_seconds_bucket{zone=\"1\",le=\"0.000001024\"} 3";
        assert!(buckets.contains(&second), "{text}");
        let last = buckets.last().copied();
        assert_eq!(
            last,
            Some("ws_poll_seconds_bucket{zone=\"1\",le=\"+Inf\"} 4")
        );
        assert_eq!(samples("count"), ["ws_poll_seconds_count{zone=\"1\"} 4"]);
        assert!(text.contains("# TYPE ws_poll_seconds histogram\n"));
        let empty = "ws_steal_to_poll_seconds_sum 0\nws_steal_to_poll_seconds_count 0\n";
        assert!(metrics.prometheus().to_string().contains(empty));
    }

    #[test]
    fn a_label_is_in_each_sample() {
        let metrics = metrics();
        let labelled = metrics.prometheus().label("runtime", "a \"b\" \\ c\nd");
        let text = labelled.label("_zone2", "").to_string();
        let labels = r#"runtime="a \"b\" \\ c\nd",_zone2="""#;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.contains(labels), "{line}");
        }
        let sample = format!("\nws_polls_total{{{labels},p=\"1\"}} 0\n");
        assert!(text.contains(&sample), "{text}");
        for wrong in ["", "2nd", "a-b", "ä", "p", "le", "__a"] {
            let label = || metrics.prometheus().label(wrong, "").to_string();
            assert!(std::panic::catch_unwind(label).is_err(), "{wrong}");
        }
        let twice = || {
            metrics
                .prometheus()
                .label("a", "")
                .label("a", "1")
                .to_string()
        };
        assert!(std::panic::catch_unwind(twice).is_err());
        let not_twice = metrics.prometheus().label("ab", ",a=\"x").label("b", "");
        let in_a_value = metrics.prometheus().label("c", "d,e=").label("e", "1");
        assert!(in_a_value.to_string().contains("{c=\"d,e=\",e=\"1\"} "));
        assert!(not_twice.to_string().contains("{ab=\",a=\\\"x\",b=\"\"} "));
    }

    // Also of the second one.
    #[test]
    fn a_page_has_the_labels_of_all_its_runtimes() {
        let metrics = metrics();
        let page = || {
            let one = metrics.prometheus().label("a", "1");
            one.and(metrics.prometheus().label("b", "2"))
        };
        for there in ["a", "b", "p", "le"] {
            let twice = || page().label(there, "").to_string();
            assert!(std::panic::catch_unwind(twice).is_err(), "{there}");
        }
        let text = page().label("c", "3").to_string();
        let family = "\nws_workers{a=\"1\",c=\"3\"} 2\nws_workers{b=\"2\",c=\"3\"} 2\n";
        assert!(text.contains(family), "{text}");
    }

    #[test]
    fn each_family_is_on_the_page_once() {
        let metrics = metrics();
        let one = metrics.prometheus().label("runtime", "1");
        let page = one
            .and(metrics.prometheus().label("runtime", "2"))
            .to_string();
        assert_eq!(page.matches("# TYPE ws_polls_total ").count(), 1);
        let family = "# TYPE ws_workers gauge\nws_workers{runtime=\"1\"} 2\n\
                      ws_workers{runtime=\"2\"} 2\n# HELP";
        assert!(page.contains(family), "{page}");
        assert_eq!(page.matches("\nws_polls_total{runtime=").count(), 4);
    }
}
