//! Await trees: which callers ask for them, and what these got.
//!
//! An ask names the tasks that are idle, and those that another ask has woken. Each of them is
//! woken to have its next poll traced (`cell/traced.rs`), and the thread that polls it answers.
//! Several asks may wait for the same poll. A task that is aborted instead answers as well, with
//! nothing, since that takes a step on a worker, too.
//!
//! *No ask waits for an answer that does not come*: a task has an entry here if it is queued to be
//! traced, or that step runs, and only then. The task is woken under the lock, so an answer finds
//! the entry; the wake queues the task and runs nothing.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::cell::{Id, TaskRef, traced::Place};

/// Where a task is suspended: the functions of its future that wait, from the outermost one to
/// those that wait for something.
///
/// `Display` shows it as a tree, a line for each function with its place. It reads debug
/// information, so the first one may take hundreds of milliseconds, and names and lines are there
/// as far as the program was built with them. See
/// [`Handle::dump_awaits`](crate::runtime::Handle::dump_awaits).
#[derive(Clone, Debug)]
pub struct AwaitTree {
    places: Arc<Vec<Place>>,
}

/// A function of an [`AwaitTree`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwaitFrame {
    /// How many functions of the tree are above it.
    pub depth: usize,
    /// Its name.
    pub function: String,
    /// Its source file, if it is known.
    pub file: Option<String>,
    /// The line in that file where it waits.
    pub line: Option<u32>,
}

impl AwaitTree {
    /// The functions, each before those that it waits for.
    pub fn frames(&self) -> Vec<AwaitFrame> {
        let (mut tree, mut before) = (Vec::new(), Vec::new());
        for place in self.places.iter().flatten() {
            let way = way(place.resolve().frames());
            // Each place has a line of its own.
            let most = way.len().saturating_sub(1);
            let is_same = |(a, b): &(&AwaitFrame, &AwaitFrame)| a == b;
            let shared = way.iter().zip(&before).take_while(is_same).count();
            tree.extend_from_slice(&way[shared.min(most)..]);
            before = way;
        }
        tree
    }

    /// Why a part of it is not known, if it is not. Of a stack of hundreds of functions the
    /// outermost ones are not.
    pub fn error(&self) -> Option<String> {
        let error = |place: &Place| match place {
            Err(error) => Some(error.to_string()),
            Ok(place) => {
                let stack = place.resolve();
                let mut origins = stack.frames().iter().map(Origin::of);
                let is_whole = origins.any(|origin| origin == Origin::Poll);
                stack.cut().filter(|_| !is_whole).map(str::to_owned)
            }
        };
        self.places.iter().find_map(error)
    }
}

/// From the poll of the task to the place where a waker was cloned, without what every future has
/// around it.
///
/// A function that was inlined may have the last part of its name alone. So if its file is known,
/// that says what it is.
fn way(frames: &[ws_stack::Frame]) -> Vec<AwaitFrame> {
    let inside = frames
        .iter()
        .take_while(|frame| Origin::of(frame) != Origin::Poll);
    let origins = inside.map(|frame| (Origin::of(frame), frame));
    let mut way: Vec<_> = origins
        .filter(|(origin, _)| *origin != Origin::Around)
        .filter_map(|(origin, frame)| {
            let frame = AwaitFrame {
                depth: 0,
                function: frame.function()?.to_owned(),
                file: frame.short_file().map(str::to_owned),
                line: frame.line(),
            };
            Some((origin, frame))
        })
        .collect();
    way.reverse();
    // Of our own functions at the inner end, only what the program has called.
    let is_ours = |(origin, _): &&(Origin, AwaitFrame)| *origin == Origin::Ours;
    let ours = way.iter().rev().take_while(is_ours).count();
    way.truncate(way.len() - ours.saturating_sub(1));
    let numbered = way.into_iter().enumerate();
    numbered
        .map(|(depth, (_, frame))| AwaitFrame { depth, ..frame })
        .collect()
}

/// Whose a function is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// What polls a task's future.
    Poll,
    /// What is around every future and every waker.
    Around,
    /// Another one of the runtime's.
    Ours,
    Programs,
}

impl Origin {
    pub(super) fn of(frame: &ws_stack::Frame) -> Self {
        let function = frame.function().unwrap_or_default();
        match frame.file() {
            Some(file) => Self::by_file(file, function),
            None => Self::by_name(function),
        }
    }

    fn by_file(file: &str, function: &str) -> Self {
        /// The folder of this package when it was built. Beside it are the runtime's others, in a
        /// checkout and where cargo keeps what it has downloaded.
        const HERE: &str = env!("CARGO_MANIFEST_DIR");
        const BESIDE: [&str; 8] = [
            "net/src/",
            "reactor/src/",
            "queue/src/",
            "src/",
            "ws-net-",
            "ws-reactor-",
            "ws-queue-",
            "ws-runtime-",
        ];
        let is_stds =
            file.starts_with("/rustc/") || file.contains("/lib/rustlib/src/rust/library/");
        if is_stds || file.starts_with(ws_stack::SOURCES) {
            return Self::Around;
        }
        let within = |folder: &str| file.strip_prefix(folder)?.strip_prefix('/');
        match within(HERE).and_then(|rest| rest.strip_prefix("src/")) {
            Some("cell/raw.rs") => return Self::Poll,
            Some(file) if file.starts_with("cell/") => return Self::Around,
            Some(_) => return Self::Ours,
            None => {}
        }
        let beside = HERE.rsplit_once('/').and_then(|(folder, _)| within(folder));
        if let Some(file) = beside.filter(|file| BESIDE.iter().any(|it| file.starts_with(it))) {
            // The cell that the future is in.
            return match file.ends_with("/src/sync.rs") {
                true => Self::Around,
                false => Self::Ours,
            };
        }
        match Self::by_name(function) {
            // A method of the program's on a type of std's.
            Self::Around => Self::Programs,
            origin => origin,
        }
    }

    fn by_name(function: &str) -> Self {
        const AROUND: [&str; 5] = [
            "core::",
            "std::",
            "alloc::",
            "ws_stack::",
            "ws_executor::cell::",
        ];
        const OURS: [&str; 4] = ["ws_executor::", "ws_net::", "ws_reactor::", "ws_queue::"];
        let path = function.trim_start_matches(['<', '&']);
        let begins = |with: &[&str]| with.iter().any(|prefix| path.starts_with(prefix));
        if function.starts_with("ws_executor::cell::raw::poll") {
            Self::Poll
        } else if begins(&AROUND) {
            Self::Around
        } else if begins(&OURS) {
            Self::Ours
        } else {
            Self::Programs
        }
    }
}

impl fmt::Display for AwaitTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (frames, error) = (self.frames(), self.error());
        if frames.is_empty() {
            let error = error
                .as_deref()
                .unwrap_or("its last poll has cloned no waker");
            return write!(f, "(not known: {error})");
        }
        if let Some(error) = error {
            writeln!(f, "(a part is not known: {error})")?;
        }
        for (number, frame) in frames.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            let indent = 2 * frame.depth;
            write!(f, "{:indent$}{frame}", "")?;
        }
        Ok(())
    }
}

/// Its function, and where in its code: `fetch at src/main.rs:9`. Not how deep it is.
impl fmt::Display for AwaitFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        if let Some(file) = &self.file {
            write!(f, " at {file}")?;
        }
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        Ok(())
    }
}

/// The asks that wait for traced polls, by task.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    asks: Mutex<HashMap<Id, Vec<Arc<Ask>>>>,
}

/// A caller that asks.
#[derive(Debug, Default)]
pub(crate) struct Ask {
    state: Mutex<AskState>,
}

#[derive(Debug, Default)]
struct AskState {
    /// How many answers are to come.
    left: usize,
    trees: HashMap<Id, AwaitTree>,
    waker: Option<Waker>,
}

/// A panic leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ask {
    /// Whether all answers have come.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        // Under no lock: a waker may be code of the user's.
        let waker = cx.waker().clone();
        let mut state = lock(&self.state);
        let (stale, polled) = if state.left == 0 {
            (Some(waker), Poll::Ready(()))
        } else {
            (state.waker.replace(waker), Poll::Pending)
        };
        drop(state);
        if let Some(stale) = stale {
            crate::cell::drop_waker_quietly(stale);
        }
        polled
    }

    /// What has come so far.
    pub(crate) fn take(&self) -> HashMap<Id, AwaitTree> {
        std::mem::take(&mut lock(&self.state).trees)
    }

    pub(super) fn awaits_one_more(&self) {
        lock(&self.state).left += 1;
    }

    pub(super) fn is_told(&self, answer: Option<(Id, AwaitTree)>) {
        let mut state = lock(&self.state);
        state.left -= 1;
        state.trees.extend(answer);
        let waker = if state.left == 0 {
            state.waker.take()
        } else {
            None
        };
        drop(state);
        if let Some(waker) = waker {
            crate::cell::wake_quietly(waker);
        }
    }
}

impl Traces {
    /// A task was polled and traced, or it has ended instead.
    pub(crate) fn answer(&self, id: Id, places: Vec<Place>) {
        let asks = lock(&self.asks).remove(&id).unwrap_or_default();
        let tree = AwaitTree {
            places: Arc::new(places),
        };
        for ask in asks {
            ask.is_told(Some((id, tree.clone())));
        }
    }

    /// Has the task's next poll traced, if it is idle, or another ask has woken it for that.
    pub(super) fn trace(&self, ask: &Arc<Ask>, task: &TaskRef) {
        ask.awaits_one_more();
        let is_idle = || task.header().snapshot().is_idle();
        let mut asks = lock(&self.asks);
        match asks.entry(task.header().id()) {
            Entry::Occupied(mut entry) => entry.get_mut().push(ask.clone()),
            Entry::Vacant(entry) if is_idle() && task.wake_traced() => {
                entry.insert(vec![ask.clone()]);
            }
            Entry::Vacant(_) => {
                drop(asks);
                ask.is_told(None);
            }
        }
    }
}
