//! The recording of a run: what each host did, what it sent and got, and what was done to it.
//!
//! # How it works
//!
//! The machine of each host has a flight recorder at level full, and the network keeps a log
//! (`network/log.rs`). Both take their times from one [`Timeline`], which moves on by 0.1 us with
//! each record. So all that hosts do is in one order, also what they do at the same simulated time.
//! A machine's records are copied when it is stopped.
//!
//! A run keeps nothing if nothing of it is to be seen. [`check()`](crate::check()) runs a seed that
//! fails once more, and asks for the recording on that thread: see [`asked`].
//!
//! *Invariant*: a recorded run is the same as one that is not. Neither the recorder nor the log
//! chooses anything.
//!
//! Rejected: a small ring of events for each host in every run. It costs each good run something,
//! and a second run has all there is.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    env,
    fmt::{self, Write as _},
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
    rc::Rc,
    thread,
    time::Duration,
};

use ws_executor::{
    runtime::Builder,
    sim::{Arrow, Host, Machine, Moment, Timeline, Trace},
    task::Id,
    trace::{Event, EventKind, Level, RecordedTask, Recording as OfMachine},
};

use crate::{
    failure::{EVENTS, FAULTS, Recorded},
    kernel,
    network::{HostId, Network, Note, Way},
};

/// Bytes of the ring of each P: 262,144 records. Guessed: more than a page shows well.
const RING: usize = 4 << 20;

/// Events that are kept of the former machines of a host. Guessed: as many as a ring has.
const FORMER_MAX: usize = 1 << 18;

/// Events of each host that a failure tells.
const TOLD: usize = 10;

/// Hosts whose events a failure tells.
const HOSTS_TOLD: usize = 16;

/// Faults that a failure tells: the last ones.
const FAULTS_TOLD: usize = 30;

thread_local! {
    static ASKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether simulations of this thread are recorded, whatever their builder says.
pub(crate) fn asked() -> bool {
    ASKED.with_borrow(Option::is_some)
}

/// Records the simulations that are made on this thread from now on, for this test.
pub(crate) fn ask(test: &str) {
    ASKED.set(Some(test.to_owned()));
}

/// What a simulation records.
pub(crate) struct Record {
    timeline: Timeline,
    /// When the machine of a host began.
    begins: RefCell<BTreeMap<usize, u64>>,
    lives: RefCell<BTreeMap<usize, Vec<Rc<Life>>>>,
}

/// A machine, from a start of its host to the crash or the end.
#[derive(Debug)]
struct Life {
    begin: u64,
    end: u64,
    recording: OfMachine,
    /// The driver's own task, which starts the program.
    starter: Option<Id>,
}

impl Record {
    pub(crate) fn new(net: &mut Network) -> Self {
        let timeline = Timeline::default();
        let of_log = timeline.clone();
        net.keep_log(Box::new(move |now| {
            of_log.moves_to(now);
            of_log.next()
        }));
        Self {
            timeline,
            begins: RefCell::default(),
            lives: RefCell::default(),
        }
    }

    /// The simulation has come to this time, in nanoseconds.
    pub(crate) fn moves_to(&self, now: u64) {
        self.timeline.moves_to(now);
    }

    pub(crate) fn set_up(&self, builder: Builder) -> Builder {
        builder.recorder(RING).record(Level::Full)
    }

    /// A machine was made, at this time.
    pub(crate) fn begins(&self, host: usize, machine: &Machine, begin: u64) {
        self.begins.borrow_mut().insert(host, begin);
        machine.handle().record(Level::Full);
        machine.record_on(&self.timeline, begin);
    }

    /// A machine is stopped, or its recording is wanted so far.
    pub(crate) fn ends(&self, host: usize, machine: &Machine) {
        let life = self.life(host, machine);
        let mut lives = self.lives.borrow_mut();
        let lives = lives.entry(host).or_default();
        lives.push(Rc::new(life));
        let events = |lives: &[Rc<Life>]| -> usize {
            lives.iter().map(|life| life.recording.events.len()).sum()
        };
        while lives.len() > 1 && events(lives) > FORMER_MAX {
            lives.remove(0);
        }
    }

    fn life(&self, host: usize, machine: &Machine) -> Life {
        let mut recording = machine.handle().recording();
        recording.began = kernel::calendar();
        let first = recording
            .events
            .iter()
            .find(|it| it.kind == EventKind::Spawn);
        let is_whole = recording.overwritten == 0;
        let starter = first.filter(|_| is_whole).and_then(|event| event.task);
        Life {
            starter,
            begin: self.begins.borrow().get(&host).copied().unwrap_or(0),
            end: self.timeline.last(),
            recording,
        }
    }

    /// What there is, of these hosts. Machines that run tell what they have so far.
    pub(crate) fn recording(
        &self,
        seed: u64,
        net: &Network,
        hosts: &[HostId],
        running: impl Iterator<Item = (usize, Rc<Machine>)>,
    ) -> Recording {
        let mut lives = self.lives.borrow().clone();
        for (host, machine) in running {
            let life = self.life(host, &machine);
            lives.entry(host).or_default().push(Rc::new(life));
        }
        let notes = |host| {
            let log = net.log().into_iter();
            log.flat_map(|log| log.notes(host)).cloned().collect()
        };
        let hosts = hosts.iter().enumerate().map(|(index, &id)| OfHost {
            name: net.host_name(id).to_owned(),
            lives: lives.remove(&index).unwrap_or_default(),
            notes: notes(Some(id)),
        });
        Recording {
            seed,
            hosts: hosts.collect(),
            faults: notes(None),
        }
    }
}

/// What hosts did in a run, what they sent and got, and what was done to them. See
/// [`Sim::recording`](crate::Sim::recording).
///
/// Shown as text it has the faults, and the last events of each host.
#[derive(Clone)]
pub struct Recording {
    seed: u64,
    hosts: Vec<OfHost>,
    faults: Vec<Note>,
}

#[derive(Clone)]
struct OfHost {
    name: String,
    lives: Vec<Rc<Life>>,
    notes: Vec<Note>,
}

impl Recording {
    /// Writes it in the format of [Perfetto](https://ui.perfetto.dev): *Open trace file*.
    ///
    /// `ws-inspect` shows it as well. In Perfetto each host is a process, with a track for each
    /// worker, for each task with a name, and for what it sends and gets. A message is an arrow.
    /// The process `network` has the faults.
    ///
    /// A step takes no simulated time. So that it can be seen, each record is drawn 0.1 us after
    /// the one before it, or at its own time if that is later. The same seed gives the same bytes.
    ///
    /// # Errors
    ///
    /// Those of `out`. It writes many small pieces: a file should be in a `BufWriter`.
    ///
    /// ```
    /// let sim = ws_sim::Sim::builder().recording(true).build();
    /// sim.client("sleeper", async { ws::time::sleep(std::time::Duration::from_secs(1)).await });
    /// sim.try_run()?;
    /// let mut file = Vec::new();
    /// sim.recording().expect("it was asked for").write_perfetto(&mut file)?;
    /// assert!(!file.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_perfetto(&self, out: impl io::Write) -> io::Result<()> {
        let mut trace = Trace::new(out, kernel::calendar());
        let network = Host {
            number: 0,
            name: "network",
        };
        trace.moments(network, self.faults.iter().map(moment))?;
        for (number, host) in (1..).zip(&self.hosts) {
            let process = Host {
                number,
                name: &host.name,
            };
            for life in &host.lives {
                let time = [life.begin, life.end].map(Duration::from_nanos);
                trace.machine(process, time.into(), &life.recording)?;
            }
            trace.moments(process, host.notes.iter().map(moment))?;
        }
        trace.end()
    }

    /// Writes it into a folder, as `TEST-SEED.pftrace`.
    fn write_to(&self, folder: &Path, test: &str) -> io::Result<PathBuf> {
        let plain = |c: char| {
            if c.is_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        };
        let test: String = test.chars().map(plain).collect();
        let path = folder.join(format!("{test}-{}.pftrace", self.seed));
        fs::create_dir_all(folder)?;
        let mut out = BufWriter::new(File::create(&path)?);
        self.write_perfetto(&mut out)?;
        io::Write::flush(&mut out)?;
        Ok(path)
    }
}

fn moment(note: &Note) -> Moment<'_> {
    Moment {
        time: Duration::from_nanos(note.at),
        text: &note.text,
        arrow: note.packet.map(|way| match way {
            Way::Leaves(number) => Arrow::Begins(number),
            Way::Arrives(number) => Arrow::Ends(number),
        }),
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("seed", &self.seed)
            .field("hosts", &self.hosts.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.faults.is_empty() {
            writeln!(f, "{FAULTS}")?;
        }
        let left_out = self.faults.len().saturating_sub(FAULTS_TOLD);
        if left_out > 0 {
            writeln!(f, "  {left_out} earlier ones, and")?;
        }
        for note in &self.faults[left_out..] {
            writeln!(f, "{} {}", Seconds(note.at), note.text)?;
        }
        writeln!(f, "{EVENTS}")?;
        for host in self.hosts.iter().take(HOSTS_TOLD) {
            writeln!(f, "  host {:?}", host.name)?;
            for (at, text) in host.last(TOLD) {
                writeln!(f, "{} {text}", Seconds(at))?;
            }
        }
        match self.hosts.len().saturating_sub(HOSTS_TOLD) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more hosts"),
        }
    }
}

/// A simulated time, in microseconds: the rest is the order of records.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0 / 1_000;
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        write!(f, "  {seconds:>6}.{micros:06} s ")
    }
}

impl OfHost {
    /// The last events in words, the oldest first. A step that comes many times in a row is one.
    fn last(&self, count: usize) -> Vec<(u64, String)> {
        let enough = 8 * count;
        let of_machines = self.lives.iter().rev().flat_map(|life| {
            let events = life.recording.events.iter().rev();
            let events = events.filter(|it| it.task.is_none() || it.task != life.starter);
            events.filter_map(|event| {
                let text = in_words(event, &life.recording)?;
                Some((life.begin + event.time.as_nanos() as u64, text, true))
            })
        });
        let notes = self.notes.iter().rev();
        let notes = notes.map(|note| (note.at, note.text.clone(), false));
        let mut all: Vec<_> = of_machines.take(enough).chain(notes.take(enough)).collect();
        all.sort_by_key(|(at, ..)| *at);
        let mut told: Vec<(u64, String, u32)> = Vec::new();
        for (at, text, is_step) in all {
            match told.last_mut() {
                Some((last, same, times)) if is_step && *same == text => {
                    (*last, *times) = (at, *times + 1)
                }
                _ => told.push((at, text, 1)),
            }
        }
        let last = told.split_off(told.len().saturating_sub(count));
        let told = last.into_iter().map(|(at, mut text, times)| {
            if times > 1 {
                let _ = write!(text, ", {times} times");
            }
            (at, text)
        });
        told.collect()
    }
}

/// An event in words, if it tells a reader something.
fn in_words(event: &Event, recording: &OfMachine) -> Option<String> {
    let task = || {
        let id = event.task?;
        Some(task_in_words(id, recording.tasks.get(&id)))
    };
    let by = |text: String| match task() {
        Some(task) => format!("{text}, by {task}"),
        None => text,
    };
    Some(match event.kind {
        EventKind::Spawn | EventKind::Fork => format!("spawned {}", task()?),
        EventKind::Run => format!("polled {}", task()?),
        EventKind::Done => format!("{} has ended", task()?),
        EventKind::Timers => match event.number as u32 {
            1 => "a timer fired".to_owned(),
            many => format!("{many} timers fired"),
        },
        EventKind::Mark => by(format!("mark {:?}", event.name?)),
        EventKind::SpanBegin => by(format!("span {:?} begins", event.name?)),
        EventKind::SpanEnd => by(format!("span {:?} ends", event.name?)),
        EventKind::Log => by(format!("log {:?}", event.text.as_deref()?)),
        _ => return None,
    })
}

fn task_in_words(id: Id, task: Option<&RecordedTask>) -> String {
    match task {
        Some(RecordedTask {
            name: Some(name), ..
        }) => format!("task {name:?}"),
        Some(task) => format!("the task of {}", task.location),
        None => format!("task {id}"),
    }
}

/// What a failure says of the recording: what it tells, and the file that it was written to, if
/// `WS_SIM_TRACE` names a folder.
pub(crate) fn told(recording: &Recording) -> Recorded {
    let mut text = recording.to_string();
    let mut file = None;
    if let Some(folder) = env::var_os("WS_SIM_TRACE") {
        let test = ASKED.with_borrow(Clone::clone);
        let test = test.unwrap_or_else(|| thread::current().name().unwrap_or("sim").to_owned());
        let _ = match recording.write_to(Path::new(&folder), &test) {
            Ok(path) => {
                let line = writeln!(text, "recording: {}", path.display());
                file = Some(path);
                line
            }
            Err(error) => {
                let folder = folder.display();
                writeln!(text, "no recording: WS_SIM_TRACE is {folder}: {error}")
            }
        };
    }
    Recorded { text, file }
}
