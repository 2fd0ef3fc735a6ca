//! What the tests of tokio-console share: a program with console-subscriber that runs, what the
//! client of console-subscriber reads of it, and what tokio-console shows of it. The tests of
//! programs on `ws` without tokio (`tests/console`) have this file too.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::{
    collections::{BTreeMap, HashMap},
    io::Read,
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use console_api::{
    field::{Name, Value},
    instrument::{InstrumentRequest, Update, instrument_client::InstrumentClient},
    resources::Resource,
    tasks::{Stats, Task},
};
use tokio::time;

const LIMIT: Duration = Duration::from_secs(15);
/// Starts of the program. `console_subscriber::init` starts its thread, which has no subscriber,
/// before it sets that of the process. If that thread is the first to make a span of some kind,
/// tracing-core 0.1.36 may disable all spans of this kind for good: in about one of 500 starts. On
/// tokio this is rarer: none of 3,000 starts, and two of 1,500 with a delay between.
const TRIES: u32 = 3;

/// A program, on a port of its own.
struct Shown {
    child: Child,
    address: String,
}

impl Shown {
    fn start(program: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(program)
            .env("TOKIO_CONSOLE_BIND", &address)
            .env("TOKIO_CONSOLE_PUBLISH_INTERVAL", "100ms")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, address }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program has told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) tasks: HashMap<u64, Task>,
    stats: HashMap<u64, Stats>,
    resources: Vec<Resource>,
}

impl Told {
    fn add(&mut self, update: Update) {
        if let Some(tasks) = update.task_update {
            let new = tasks.new_tasks.into_iter();
            self.tasks
                .extend(new.map(|task| (task.id.unwrap().id, task)));
            self.stats.extend(tasks.stats_update);
        }
        if let Some(resources) = update.resource_update {
            self.resources.extend(resources.new_resources);
        }
    }

    /// The task of a name, and what was counted.
    pub(crate) fn named(&self, name: &str) -> Option<(&Task, &Stats)> {
        let mut tasks = self.tasks.iter();
        let (id, task) =
            tasks.find(|(_, task)| field(task, "task.name").as_deref() == Some(name))?;
        Some((task, self.stats.get(id)?))
    }

    pub(crate) fn has_kind(&self, kind: &str) -> bool {
        let mut tasks = self.tasks.values();
        tasks.any(|task| field(task, "kind").as_deref() == Some(kind))
    }

    pub(crate) fn has_resource(&self, concrete_type: &str) -> bool {
        let mut resources = self.resources.iter();
        resources.any(|resource| resource.concrete_type == concrete_type)
    }

    /// What is not there of these tasks, given with their kinds: itself, its kind, its place, a
    /// poll.
    pub(crate) fn missing(&self, tasks: &[(&str, &str)]) -> Missing {
        let mut missing = Missing::default();
        for &(name, kind) in tasks {
            let found = self.named(name);
            missing.need(name, found.is_some());
            let Some((task, stats)) = found else { continue };
            let has_kind = field(task, "kind").as_deref() == Some(kind);
            missing.need(&format!("{name}: kind"), has_kind);
            missing.need(&format!("{name}: place"), is_of_the_program(task));
            missing.need(&format!("{name}: polls"), polls(stats) > 0);
        }
        missing
    }

    /// Adds what is not there of tasks that are woken again and again.
    pub(crate) fn need_wakes(&self, names: &[&str], missing: &mut Missing) {
        for name in names {
            let stats = self.named(name).map(|(_, stats)| stats);
            let busy = |stats: &Stats| stats.wakes > 3 && polls(stats) > 3;
            missing.need(&format!("{name}: wakes"), stats.is_some_and(busy));
            let held = |stats: &Stats| stats.waker_clones > 0 && stats.waker_drops > 0;
            missing.need(&format!("{name}: wakers"), stats.is_some_and(held));
        }
    }

    /// Adds what is not there of tasks that end.
    pub(crate) fn need_ends(&self, names: &[&str], missing: &mut Missing) {
        for name in names {
            let stats = self.named(name).map(|(_, stats)| stats);
            let ended = |stats: &Stats| stats.dropped_at.is_some();
            missing.need(&format!("{name}: its end"), stats.is_some_and(ended));
        }
    }
}

/// What is not yet as it should be.
#[derive(Debug, Default)]
pub(crate) struct Missing(Vec<String>);

impl Missing {
    pub(crate) fn need(&mut self, what: &str, there: bool) {
        if !there {
            self.0.push(what.to_owned());
        }
    }
}

fn polls(stats: &Stats) -> u64 {
    stats.poll_stats.as_ref().map_or(0, |polls| polls.polls)
}

pub(crate) fn is_of_the_program(task: &Task) -> bool {
    let Some(place) = &task.location else {
        return false;
    };
    place.file() == "src/main.rs" && place.line() > 0 && place.column() > 0
}

fn field(task: &Task, name: &str) -> Option<String> {
    let mut fields = task.fields.iter();
    let value = fields.find_map(|field| match field.name.as_ref()? {
        Name::StrName(found) if found == name => field.value.as_ref(),
        _ => None,
    });
    Some(match value? {
        Value::DebugVal(text) | Value::StrVal(text) => text.clone(),
        Value::U64Val(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

/// Reads until nothing is missing. What is missing, if it does not come.
async fn read(shown: &Shown, missing: fn(&Told) -> Missing) -> Result<Told, Missing> {
    let url = format!("http://{}", shown.address);
    let connect = async {
        loop {
            match InstrumentClient::connect(url.clone()).await {
                Ok(client) => break client,
                Err(_) => time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let client = time::timeout(LIMIT, connect).await;
    let mut client = client.map_err(|_| Missing(vec!["the server".to_owned()]))?;
    let updates = client.watch_updates(InstrumentRequest {}).await;
    let mut updates = updates.unwrap().into_inner();
    let mut told = Told::default();
    let all = async {
        while !missing(&told).0.is_empty() {
            let update = updates.message().await.unwrap();
            told.add(update.expect("the program goes on"));
        }
    };
    if time::timeout(LIMIT, all).await.is_ok() {
        Ok(told)
    } else {
        Err(missing(&told))
    }
}

/// Starts a program, and reads what it tells until nothing is missing.
pub(crate) async fn told_by(program: &str, missing: fn(&Told) -> Missing) -> Told {
    let mut tries = 0;
    loop {
        tries += 1;
        match read(&Shown::start(program), missing).await {
            Ok(told) => break told,
            Err(missing) if tries == TRIES => panic!("not there: {missing:#?}"),
            Err(missing) => eprintln!("another try, without {missing:?}"),
        }
    }
}

/// Asserts that no two tasks have one id.
pub(crate) fn assert_ids_differ(told: &Told) {
    let ids = told.tasks.values().map(|task| field(task, "task.id"));
    let mut ids: Vec<_> = ids.collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), told.tasks.len(), "two tasks have one id");
}

/// Starts a program and tokio-console, with a terminal that `script` makes, and reads there until
/// it has shown a line for each of these tasks, given with their kinds.
pub(crate) fn tokio_console_shows(program: &str, tasks: &[(&str, &str)]) {
    let shown = Shown::start(program);
    let console = std::env::var("TOKIO_CONSOLE").expect("the path of tokio-console");
    let line = format!(
        "stty cols 200 rows 60; exec {console} http://{}",
        shown.address
    );
    let mut script = Command::new("script")
        .args(["--quiet", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = script.stdout.take().unwrap();
    let (sender, bytes) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut screen = Screen::default();
    // The console forgets a task a few seconds after its end.
    let mut missing = tasks.to_vec();
    let began = Instant::now();
    while !missing.is_empty() {
        let left = LIMIT.saturating_sub(began.elapsed());
        match bytes.recv_timeout(left) {
            Ok(bytes) => screen.add(bytes),
            Err(_) => panic!("no {missing:?} in\n{}", screen.text()),
        }
        missing.retain(|task| !screen.shows(*task));
    }
    let _ = script.kill();
    let _ = script.wait();
    println!("{}", screen.text());
}

/// What a terminal shows: it knows what moves the cursor to a place, and no other command.
#[derive(Default)]
struct Screen {
    cells: BTreeMap<(usize, usize), char>,
    cursor: (usize, usize),
    /// Bytes of a command, or of a character, whose rest has not come yet.
    rest: Vec<u8>,
}

impl Screen {
    fn add(&mut self, bytes: Vec<u8>) {
        self.rest.extend(bytes);
        while let Some(used) = self.step() {
            self.rest.drain(..used);
        }
    }

    /// Takes one command or character. The number of its bytes, if all are there.
    fn step(&mut self) -> Option<usize> {
        let rest = &self.rest;
        if let Some(command) = rest.strip_prefix(b"\x1b[") {
            let end = command.iter().position(u8::is_ascii_alphabetic)?;
            if command[end] == b'H' {
                let place = str::from_utf8(&command[..end]).ok()?;
                let (row, column) = place.split_once(';')?;
                self.cursor = (row.parse().ok()?, column.parse().ok()?);
            }
            return Some(end + 3);
        }
        let length = match rest.first()? {
            0x1b => return (rest.len() > 1).then_some(1),
            ..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        let shown = str::from_utf8(rest.get(..length)?).ok()?.chars().next()?;
        self.cells.insert(self.cursor, shown);
        self.cursor.1 += 1;
        Some(length)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut at = (0, 0);
        for (&(row, column), &shown) in &self.cells {
            if at.0 != row {
                text.push('\n');
                at = (row, 1);
            }
            text.extend((at.1..column).map(|_| ' '));
            text.push(shown);
            at.1 = column + 1;
        }
        text
    }

    /// Whether a line has the name, the kind and the place of a task.
    fn shows(&self, (name, kind): (&str, &str)) -> bool {
        let parts = [name, kind, "src/main.rs:"];
        let text = self.text();
        let mut lines = text.lines();
        lines.any(|line| parts.iter().all(|part| line.contains(part)))
    }
}
