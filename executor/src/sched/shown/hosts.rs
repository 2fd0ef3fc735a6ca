//! A recording of a simulation for both viewers: for Perfetto, and for the page of `ws-inspect`.
//!
//! On the page each P of each host has a lane, which has the name of its host. What a host sends
//! and gets is on the lane of its first P. See the head of `shown.rs` for the packets, and
//! `recorder/perfetto/hosts.rs` for the trace.

use std::{
    collections::BTreeSet,
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{EVENTS_FIELD, Json, PACKET_FIELD, fields, file::LIST};
use crate::recorder::{Event, EventKind, Host, Hosts, Moment, Recording};

/// Writes a recording of many hosts: a snapshot for [Perfetto](https://ui.perfetto.dev) and for
/// `ws-inspect`.
#[derive(Debug)]
pub struct Trace<'a, W> {
    hosts: Hosts<W>,
    began: SystemTime,
    machines: Vec<OfMachine<'a>>,
    moments: Vec<(Host<'a>, Moment<'a>)>,
    end: Duration,
}

#[derive(Debug)]
struct OfMachine<'a> {
    host: Host<'a>,
    begin: Duration,
    end: Duration,
    recording: &'a Recording,
}

/// A lane of the page: a host, and the number of a P.
type Lane = (u16, usize);

/// An event of the page.
enum Row<'a> {
    Event(Host<'a>, &'a Event),
    /// The machine of a host is stopped: what its P did is over.
    Stops(Host<'a>, usize),
    Moment(Host<'a>, &'a str),
}

impl Row<'_> {
    fn write(
        &self,
        time: Duration,
        lane: impl Fn(Host<'_>, usize) -> Option<usize>,
        list: &mut Json,
    ) {
        let row = |kind, host, p, text: Option<&str>, list: &mut Json| {
            list.list(|list| {
                list.number(time.as_nanos() as u64);
                list.number(lane(host, p).map_or(0, |lane| lane as u64 + 1));
                list.text(kind);
                if let Some(text) = text {
                    list.number(0);
                    list.text(text);
                }
            });
        };
        match *self {
            Self::Event(host, event) => {
                let processor = event.processor.and_then(|p| lane(host, p));
                let event = Event {
                    time,
                    processor,
                    ..event.clone()
                };
                fields::event_json(&event, list);
            }
            Self::Stops(host, p) => row("Leave", host, p, None, list),
            Self::Moment(host, text) => row("Message", host, 0, Some(text), list),
        }
    }
}

impl<'a, W: io::Write> Trace<'a, W> {
    /// Begins it. `began` is what the calendar shows at the begin of the simulation.
    pub fn new(out: W, began: SystemTime) -> Self {
        Self {
            hosts: Hosts::new(out, began),
            began,
            machines: Vec::new(),
            moments: Vec::new(),
            end: Duration::ZERO,
        }
    }

    /// Writes what a machine of a host has recorded. It was made at `begin`, and it was
    /// stopped, or the recording was taken, at `end`. Both are counted from the begin of the
    /// simulation.
    ///
    /// # Errors
    ///
    /// Those of the writer below.
    pub fn machine(
        &mut self,
        host: Host<'a>,
        (begin, end): (Duration, Duration),
        recording: &'a Recording,
    ) -> io::Result<()> {
        self.machines.push(OfMachine {
            host,
            begin,
            end,
            recording,
        });
        self.end = self.end.max(end);
        self.hosts.machine(host, (begin, end), recording)
    }

    /// Writes what a host has sent and got, and what has happened to it, in the order of time.
    ///
    /// # Errors
    ///
    /// Those of the writer below.
    pub fn moments(
        &mut self,
        host: Host<'a>,
        moments: impl IntoIterator<Item = Moment<'a>>,
    ) -> io::Result<()> {
        let before = self.moments.len();
        let moments = moments.into_iter().map(|moment| (host, moment));
        self.moments.extend(moments);
        let of_host = self.moments[before..].iter();
        self.hosts.moments(host, of_host.map(|(_, moment)| *moment))
    }

    /// Writes what the page needs, which is the end.
    ///
    /// # Errors
    ///
    /// Those of the writer below.
    pub fn end(mut self) -> io::Result<()> {
        let lanes = self.lanes();
        let mut list = Json::default();
        for (time, row) in self.rows(&lanes) {
            let lane = |host: Host<'_>, p| lanes.binary_search(&(host.number, p)).ok();
            row.write(time, lane, &mut list);
            if list.as_str().len() >= LIST {
                self.hosts.beside(EVENTS_FIELD, list.as_str().as_bytes())?;
                list.clear();
            }
        }
        if !list.as_str().is_empty() {
            self.hosts.beside(EVENTS_FIELD, list.as_str().as_bytes())?;
        }
        let json = self.json(&lanes);
        self.hosts.beside(PACKET_FIELD, json.as_bytes())
    }

    /// What the page shows, in the order of time.
    fn rows(&self, lanes: &[Lane]) -> Vec<(Duration, Row<'a>)> {
        let mut rows = Vec::new();
        for OfMachine {
            host,
            begin,
            end,
            recording,
        } in &self.machines
        {
            // The names of the table have their hosts.
            let events = recording.events.iter();
            let events = events.filter(|event| event.kind != EventKind::Named);
            rows.extend(events.map(|event| (*begin + event.time, Row::Event(*host, event))));
            let ps = lanes.iter().filter(|lane| lane.0 == host.number);
            rows.extend(ps.map(|&(_, p)| (*end, Row::Stops(*host, p))));
        }
        let moments = self.moments.iter();
        rows.extend(moments.map(|&(host, moment)| (moment.time, Row::Moment(host, moment.text))));
        rows.sort_by_key(|(time, _)| *time);
        rows
    }

    /// In the order of the page.
    fn lanes(&self) -> Vec<Lane> {
        let of_machines = self.machines.iter().flat_map(|machine| {
            let events = machine.recording.events.iter();
            let ps = events.filter_map(|event| event.processor);
            ps.map(|p| (machine.host.number, p))
        });
        let of_moments = self.moments.iter().map(|(host, _)| (host.number, 0));
        let lanes: BTreeSet<_> = of_machines.chain(of_moments).collect();
        lanes.into_iter().collect()
    }

    fn name(&self, number: u16) -> &'a str {
        let hosts = self.machines.iter().map(|machine| machine.host);
        let mut hosts = hosts.chain(self.moments.iter().map(|(host, _)| *host));
        let host = hosts.find(|host| host.number == number);
        host.map_or("", |host| host.name)
    }

    /// What the page shows beside the events.
    fn json(&self, lanes: &[Lane]) -> String {
        let began = self.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let torn = self
            .machines
            .iter()
            .filter(|it| it.recording.overwritten > 0);
        let whole_since = torn.map(|it| it.begin + it.recording.whole_since).max();
        let whole_since = whole_since.unwrap_or_default();
        Json::object(|json| {
            json.key("format").text("ws-snapshot 2");
            json.key("program").text("simulated hosts");
            json.key("began_ms").number(began.as_millis() as u64);
            json.key("now").number(self.end.as_nanos() as u64);
            json.key("level").text("full");
            json.key("whole_since")
                .number(whole_since.as_nanos() as u64);
            json.key("lanes").list(|list| {
                for &(host, p) in lanes {
                    match p {
                        0 => list.text(self.name(host)),
                        p => list.text(&format!("{} P {p}", self.name(host))),
                    }
                }
            });
            json.key("metrics").map(|map| {
                map.key("workers").number(lanes.len() as u64);
                // Nothing goes on any more.
                map.key("free_permits").number(lanes.len() as u64);
                for nought in ["global_queue", "ordered_queue"] {
                    map.key(nought).number(0);
                }
                let alive = self.machines.iter().map(|it| it.recording.tasks.len());
                map.key("live_tasks").number(alive.sum::<usize>() as u64);
                map.key("processors")
                    .list(|list| lanes.iter().for_each(|_| list.map(|_| ())));
            });
            json.key("tasks").list(|list| self.tasks(list));
            json.key("stalls").list(|_| ());
        })
    }

    /// The tasks that are known by name or place.
    fn tasks(&self, list: &mut Json) {
        for machine in &self.machines {
            let mut tasks: Vec<_> = machine.recording.tasks.iter().collect();
            tasks.sort_unstable_by_key(|(id, _)| id.as_u64());
            for (id, task) in tasks {
                list.map(|row| {
                    row.key("id").number(id.as_u64());
                    let host = machine.host.name;
                    match &task.name {
                        Some(name) => row.key("name").text(&format!("{host}: {name}")),
                        None => row.key("name").text(host),
                    }
                    row.key("where").text(&task.location.to_string());
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recorder::{Arrow, Level, Timeline},
        runtime::Builder,
        sim::Machine,
        task, trace,
    };

    /// A machine that was made at this time, after a task of it has ended.
    fn machine(timeline: &Timeline, begin: u64) -> Machine {
        let builder = Builder::new().workers(1).record(Level::Full);
        let machine = Machine::new(builder).unwrap();
        machine.record_on(timeline, begin);
        let serves = task::Builder::new().name("serves");
        drop(serves.spawn_on(async { trace::mark("here") }, machine.handle()));
        while machine.step(|_| 0) {}
        machine
    }

    // Fails if two hosts share a lane, if a machine goes on after its end, or if what the page gets
    // is not in the order of time.
    #[test]
    fn the_page_has_a_lane_for_each_host() {
        let timeline = Timeline::default();
        let machines = [(1, 1_000), (2, 5_000), (1, 9_000)]
            .map(|(number, begin)| (number, begin, machine(&timeline, begin), timeline.last()));
        let recordings: Vec<_> = machines
            .iter()
            .map(|(number, begin, machine, end)| {
                let times = [*begin, *end].map(Duration::from_nanos);
                (*number, times, machine.handle().recording())
            })
            .collect();
        let host = |number| Host {
            number,
            name: ["network", "a", "b"][usize::from(number)],
        };
        let mut bytes = Vec::new();
        let mut trace = Trace::new(&mut bytes, UNIX_EPOCH + Duration::from_secs(7));
        let fault = Moment {
            time: Duration::from_nanos(4_000),
            text: "a crashed",
            arrow: None,
        };
        let sent = Moment {
            text: "sent \"it\"",
            arrow: Some(Arrow::Begins(1)),
            ..fault
        };
        trace.moments(host(0), [fault]).unwrap();
        for (number, [begin, end], recording) in &recordings {
            let host = host(*number);
            trace.machine(host, (*begin, *end), recording).unwrap();
        }
        trace.moments(host(2), [sent]).unwrap();
        trace.end().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        at(r#""began_ms":7000,"#);
        at(r#""lanes":["network","a","b"]"#);
        at(r#""name":"b: serves","where":""#);
        let fault = at(r#"[4000,1,"Message",0,"a crashed"],[4000,3,"Message",0,"sent \"it\""]"#);
        let marks: Vec<_> = text.match_indices(r#","here"]"#).collect();
        assert_eq!(marks.len(), 3);
        assert!(marks[0].0 < fault && fault < marks[1].0);
        let ends = recordings.iter().map(|(number, [_, end], _)| {
            at(&format!(r#"[{},{},"Leave"]"#, end.as_nanos(), number + 1))
        });
        assert!(ends.is_sorted());
        machines
            .into_iter()
            .for_each(|machine| drop(machine.2.end()));
    }
}
