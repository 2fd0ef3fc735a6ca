//! A program that runs, as a [`Source`] of pages.
//!
//! # What a page costs
//!
//! The answer to a page has two parts with two prices. What is new in the rings costs as much as
//! happened; a dump costs as much as there are tasks. Each part may take one in [`PART`] of a core:
//!
//! - A dump is kept, with the lost tasks of that moment. It serves all pages and each change of
//!   order, search and place, until it is old enough: its own price times [`PART`].
//! - The page is told how long to wait until it asks again: the price of the rest of this answer,
//!   times [`PART`], times the number of pages.
//!
//! The price is wall-clock time, which is more than the time on a core.
//!
//! # Each poll
//!
//! While a page asks for each poll, all is recorded. It stops when the page says so, or is not
//! heard of for [`GONE`] more than it was told to wait.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::File,
    io::{self, BufWriter},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ws_executor::viewer::{STALL_FIELDS, event_json, metrics_json};

use super::{
    page,
    source::{Ask, AskTasks, Field, Json, Rows, Source, Summary, TASK_FIELDS, Viewer, tasks_json},
};
use crate::runtime::{Handle, TaskDump};

/// Each of the two parts of an answer may take one in so many of a core: 0.4 %.
const PART: u32 = 250;

/// The shortest time between two answers to a page. Guessed: what looks alive.
const WAIT_MIN: Duration = Duration::from_millis(500);

/// The longest one: with more tasks than that, a page costs more.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How much later than it should a page may ask before it is taken to be closed.
const GONE: Duration = Duration::from_secs(3);

/// The most events of each ring in an answer. Guessed: more than a timeline has pixels.
const EVENTS: usize = 4000;

/// From this many tasks on, an answer is made on a thread that may block: some milliseconds.
const MANY_TASKS: usize = 2000;

/// A program that runs.
pub(super) struct Live {
    runtime: Handle,
    began_ms: u64,
    dumped: Mutex<Option<Dumped>>,
    pages: Mutex<Pages>,
}

/// The pages that are open, and whether all is recorded for them.
#[derive(Default)]
struct Pages {
    open: BTreeMap<u64, Page>,
    each_poll: bool,
}

/// The tasks at one moment.
struct Dumped {
    at: Instant,
    /// How long that took.
    took: Duration,
    /// In the order of their ids.
    tasks: Vec<TaskDump>,
    summary: Summary,
    lost: Vec<TaskDump>,
}

/// A page that is open.
struct Page {
    each_poll: bool,
    /// If nothing is heard of it until then, it is closed.
    until: Instant,
}

impl Live {
    pub(super) fn new(runtime: Handle) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = since.unwrap_or_default().as_millis() as u64;
        Self {
            began_ms: now_ms.saturating_sub(runtime.viewer().now_ns() / 1_000_000),
            runtime,
            dumped: Mutex::new(None),
            pages: Mutex::default(),
        }
    }

    fn viewer(&self) -> Viewer<'_> {
        self.runtime.viewer()
    }

    /// A page has asked. Returns how many there are.
    fn seen(&self, ask: &Ask) -> u32 {
        let mut pages = lock(&self.pages);
        let page = Page {
            each_poll: ask.each_poll,
            until: Instant::now() + WAIT_MAX + GONE,
        };
        pages.open.insert(ask.page, page);
        self.record(&mut pages);
        pages.open.len() as u32
    }

    /// How long a page was told to wait.
    fn waits(&self, page: u64, wait: Duration) {
        if let Some(page) = lock(&self.pages).open.get_mut(&page) {
            page.until = Instant::now() + wait + GONE;
        }
    }

    /// Has recorded what the pages want.
    fn record(&self, pages: &mut Pages) {
        let each_poll = pages.open.values().any(|page| page.each_poll);
        if each_poll != pages.each_poll {
            pages.each_poll = each_poll;
            self.viewer().record_all(each_poll);
        }
    }

    /// Calls `f` with a dump that is young enough.
    fn with_tasks(&self, f: impl FnOnce(&Dumped)) {
        let mut dumped = lock(&self.dumped);
        let is_old = |it: &Dumped| it.at.elapsed() > it.took * PART;
        if dumped.as_ref().is_none_or(is_old) {
            let began = Instant::now();
            let mut tasks = self.runtime.dump();
            tasks.sort_by_key(|task| task.id.as_u64());
            let summary = Summary::of(&tasks);
            let lost = self.viewer().lost_tasks();
            *dumped = Some(Dumped {
                at: Instant::now(),
                took: began.elapsed(),
                tasks,
                summary,
                lost,
            });
        }
        f(dumped.as_ref().expect("there is one by now"));
    }

    fn events(&self, mut cursor: Vec<u64>, json: &mut Json) -> BTreeSet<u64> {
        let new = self.viewer().events_since(&mut cursor, EVENTS);
        json.key("events").map(|map| {
            let cursor: Vec<_> = cursor.iter().map(u64::to_string).collect();
            map.key("cursor").text(&cursor.join("."));
            map.key("gaps").list(|list| {
                for (processor, until) in &new.gaps {
                    list.list(|pair| {
                        pair.number(processor.map_or(0, |index| index as u64 + 1));
                        pair.number(until.as_nanos() as u64);
                    });
                }
            });
            map.key("list").list(|list| {
                for event in &new.events {
                    event_json(event, list);
                }
            });
        });
        let tasks = new.events.iter().filter_map(|event| event.task);
        tasks.map(|task| task.as_u64()).collect()
    }

    /// Tells what is in a dump. The answer is how long the dump took, if it was made for this.
    fn tasks(&self, ask: Option<&AskTasks>, named: &BTreeSet<u64>, json: &mut Json) -> Duration {
        let began = Instant::now();
        let mut took = Duration::ZERO;
        self.with_tasks(|dumped| {
            took = began.elapsed();
            json.key("lost").list(|list| {
                for task in &dumped.lost {
                    Field::row(TASK_FIELDS, task, list);
                }
            });
            let Some(ask) = ask else { return };
            json.key("tasks");
            tasks_json(&dumped.tasks, &dumped.summary, ask, json);
            json.key("names").map(|names| {
                for id in named {
                    let place = dumped
                        .tasks
                        .binary_search_by_key(id, |task| task.id.as_u64());
                    if let Ok(row) = place {
                        let task = &dumped.tasks[row];
                        let name = task.name.clone();
                        let name = name.unwrap_or_else(|| task.location.to_string());
                        names.key(&id.to_string()).text(&name);
                    }
                }
            });
        });
        took
    }
}

impl Source for Live {
    fn answer(&self, ask: &Ask) -> String {
        let began = Instant::now();
        let pages = self.seen(ask);
        let viewer = self.viewer();
        Json::object(|json| {
            json.key("live").truth(true);
            json.key("program").text(&Viewer::program());
            json.key("pid").number(std::process::id().into());
            json.key("began_ms").number(self.began_ms);
            json.key("now").number(viewer.now_ns());
            json.key("level")
                .text(&format!("{:?}", viewer.level()).to_lowercase());
            json.key("each_poll").truth(ask.each_poll);
            json.key("folder").truth(viewer.snapshot_folder().is_some());
            json.key("metrics");
            metrics_json(&self.runtime.metrics(), json);
            let mut named = BTreeSet::new();
            if let Some(cursor) = &ask.cursor {
                named = self.events(cursor.clone(), json);
            }
            let for_dump = self.tasks(ask.tasks.as_ref(), &named, json);
            json.key("stalls").list(|list| {
                for stall in viewer.stalls() {
                    Field::row(STALL_FIELDS, &stall, list);
                }
            });
            let rest = began.elapsed().saturating_sub(for_dump);
            let wait = (rest * PART * pages).clamp(WAIT_MIN, WAIT_MAX);
            self.waits(ask.page, wait);
            json.key("wait").number(wait.as_millis() as u64);
        })
    }

    fn is_large(&self) -> bool {
        self.runtime.metrics().live_tasks > MANY_TASKS
    }

    fn file(&self) -> io::Result<Arc<File>> {
        let file = unnamed_file()?;
        self.runtime.write_snapshot(BufWriter::new(&file))?;
        Ok(Arc::new(file))
    }

    fn snapshot(&self) -> bool {
        self.runtime.snapshot("page")
    }

    fn tidy(&self) -> bool {
        let mut pages = lock(&self.pages);
        let now = Instant::now();
        pages.open.retain(|_, page| page.until > now);
        self.record(&mut pages);
        let some_are_open = !pages.open.is_empty();
        drop(pages);
        if !some_are_open {
            *lock(&self.dumped) = None;
        }
        some_are_open
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut pages = std::mem::take(&mut *lock(&self.pages));
        pages.open.clear();
        self.record(&mut pages);
    }
}

/// A file for this user alone, which goes when it is closed.
fn unnamed_file() -> io::Result<File> {
    let name = format!("ws-snapshot-{}", page::random()?);
    crate::os::unnamed_file(&env::temp_dir().join(name))
}

/// What a panic under the lock left is whole: it is replaced in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|error| error.into_inner())
}

impl Rows for Vec<TaskDump> {
    fn len(&self) -> usize {
        self.len()
    }

    fn field(&self, row: usize, key: &str) -> Field<'_> {
        match TASK_FIELDS.iter().find(|(name, _)| *name == key) {
            Some((_, value)) => value(&self[row]),
            None => Field::Nothing,
        }
    }

    fn write(&self, row: usize, json: &mut Json) {
        Field::row(TASK_FIELDS, &self[row], json);
    }

    fn keys(&self) -> Vec<String> {
        let keys = TASK_FIELDS.iter().map(|(key, _)| (*key).to_owned());
        keys.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{future, iter};

    use super::*;
    use crate::runtime::Runtime;

    /// How many lost tasks are told of from now on.
    fn told(live: &Live) -> usize {
        drop(live.answer(&Ask::default()));
        let dumped = lock(&live.dumped);
        dumped.as_ref().map_or(0, |dumped| dumped.lost.len())
    }

    #[test]
    fn the_lost_tasks_are_found_with_the_dump_and_not_with_each_answer() {
        let runtime = Runtime::new().unwrap();
        let live = Live::new(runtime.handle().clone());
        let lose = || drop(runtime.spawn(future::pending::<()>()));
        let forget = || *lock(&live.dumped) = None;
        let until_told = |count| {
            let mut looks = iter::repeat_with(|| {
                forget();
                std::thread::yield_now();
                told(&live)
            })
            .take(100_000);
            assert!(looks.any(|told| told == count), "{count} are not found");
        };
        lose();
        until_told(1);
        // It serves for hours if it took an hour.
        lock(&live.dumped).as_mut().unwrap().took = Duration::from_secs(3600);
        lose();
        while runtime.metrics().live_tasks < 2 || runtime.handle().lost_tasks().len() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(told(&live), 1);
        until_told(2);
    }
}
