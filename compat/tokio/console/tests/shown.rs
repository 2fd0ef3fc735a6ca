//! What tokio-console reads from a program with console-subscriber.

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
/// The kinds of the program's tasks, by their names.
const TASKS: [(&str, &str); 8] = [
    ("receives", "task"),
    ("ticks", "task"),
    ("ends", "task"),
    ("first of a set", "task"),
    ("second of a set", "task"),
    ("local", "local"),
    ("blocks", "blocking"),
    ("input", "blocking"),
];

/// The program, on a port of its own.
struct Shown {
    child: Child,
    address: String,
}

impl Shown {
    fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(env!("CARGO_BIN_EXE_shown"))
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
struct Told {
    tasks: HashMap<u64, Task>,
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
    fn named(&self, name: &str) -> Option<(&Task, &Stats)> {
        let mut tasks = self.tasks.iter();
        let (id, task) =
            tasks.find(|(_, task)| field(task, "task.name").as_deref() == Some(name))?;
        Some((task, self.stats.get(id)?))
    }

    fn has_kind(&self, kind: &str) -> bool {
        let mut tasks = self.tasks.values();
        tasks.any(|task| field(task, "kind").as_deref() == Some(kind))
    }

    fn has_resource(&self, concrete_type: &str) -> bool {
        let mut resources = self.resources.iter();
        resources.any(|resource| resource.concrete_type == concrete_type)
    }

    /// What is not yet as it should be.
    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut need = |what: &str, there: bool| {
            if !there {
                missing.push(what.to_owned());
            }
        };
        for (name, kind) in TASKS {
            let found = self.named(name);
            need(name, found.is_some());
            let Some((task, stats)) = found else { continue };
            need(
                &format!("{name}: kind"),
                field(task, "kind").as_deref() == Some(kind),
            );
            need(&format!("{name}: place"), is_of_the_program(task));
            need(&format!("{name}: polls"), polls(stats) > 0);
        }
        let counted = |name| self.named(name).map(|(_, stats)| stats);
        for name in ["receives", "ticks", "local", "first of a set"] {
            let busy = |stats: &Stats| stats.wakes > 3 && polls(stats) > 3;
            need(&format!("{name}: wakes"), counted(name).is_some_and(busy));
            let held = |stats: &Stats| stats.waker_clones > 0 && stats.waker_drops > 0;
            need(&format!("{name}: wakers"), counted(name).is_some_and(held));
        }
        for name in ["ends", "blocks"] {
            let ended = |stats: &Stats| stats.dropped_at.is_some();
            need(
                &format!("{name}: its end"),
                counted(name).is_some_and(ended),
            );
        }
        need("a block_on", self.has_kind("block_on"));
        for resource in ["Sleep", "Interval", "Mutex", "Semaphore"] {
            need(resource, self.has_resource(resource));
        }
        missing
    }
}

fn polls(stats: &Stats) -> u64 {
    stats.poll_stats.as_ref().map_or(0, |polls| polls.polls)
}

fn is_of_the_program(task: &Task) -> bool {
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

/// Reads until all is there. What is missing, if it does not come.
async fn read(shown: &Shown) -> Result<Told, Vec<String>> {
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
    let mut client = client.map_err(|_| vec!["the server".to_owned()])?;
    let updates = client.watch_updates(InstrumentRequest {}).await;
    let mut updates = updates.unwrap().into_inner();
    let mut told = Told::default();
    let all = async {
        while !told.missing().is_empty() {
            let update = updates.message().await.unwrap();
            told.add(update.expect("the program goes on"));
        }
    };
    let in_time = time::timeout(LIMIT, all).await.is_ok();
    if in_time {
        Ok(told)
    } else {
        Err(told.missing())
    }
}

#[tokio::test]
async fn tasks_are_shown() {
    let mut tries = 0;
    let told = loop {
        tries += 1;
        match read(&Shown::start()).await {
            Ok(told) => break told,
            Err(missing) if tries == TRIES => panic!("not there: {missing:#?}"),
            Err(missing) => eprintln!("another try, without {missing:?}"),
        }
    };
    // Of a task: the span of a thread that enters the budget is none.
    let strangers = told.tasks.values().filter(|task| !is_of_the_program(task));
    let strangers: Vec<_> = strangers.map(|task| &task.location).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    let mut ids: Vec<_> = told
        .tasks
        .values()
        .map(|task| field(task, "task.id"))
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), told.tasks.len(), "two tasks have one id");
}

/// The program itself, with a terminal that `script` makes.
#[test]
#[ignore = "needs the path of tokio-console in TOKIO_CONSOLE: cargo xtask tokio-console"]
fn tokio_console_shows_them() {
    let shown = Shown::start();
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
    let mut missing = TASKS.to_vec();
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
