//! The vote and the log of a node, in its folder.
//!
//! # How it works
//!
//! The file `vote` has the vote. The file `log` has one record a line: an entry, that the end of
//! the log was cut, or what is committed. All entries are in memory, too. Records wait in the order
//! in which raft gave them. Whoever holds the file takes all that wait, writes them, syncs the
//! file, and tells raft. For entries that is a task of its own.
//!
//! *Invariant*: what raft was told is on the disk. The file read from its begin gives what is in
//! memory, and at most more that nobody was told. After a write that failed, all fail: what a sync
//! has not written once, the next one does not write either.
//!
//! What is committed has to be on the disk before it is applied. openraft lets a leader lead on
//! after its restart. If that one does not know what it had committed, it confirms a read with a
//! state from before.
//!
//! Rejected: a file for each part of the log. Logs are short here, since snapshots are often.
use std::{
    collections::BTreeMap,
    fmt::Debug,
    fs::File,
    io, mem,
    ops::RangeBounds,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use openraft::{
    Entry, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote,
    storage::{LogFlushed, RaftLogStorage},
};
use serde::{Deserialize, Serialize};
use tokio::sync::{self, Notify};

use crate::{
    NodeId, Types,
    bug::Bug,
    files::{self, Fsync, Steps},
};

type StorageResult<T> = Result<T, StorageError<NodeId>>;

/// The log of a node. Clones are the same one.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

struct Shared {
    folder: PathBuf,
    bug: Bug,
    state: Mutex<State>,
    /// The file, or why nothing can be written any more.
    file: sync::Mutex<Result<Arc<File>, io::ErrorKind>>,
    /// There is something to write.
    work: Notify,
}

#[derive(Default)]
struct State {
    vote: Option<Vote<NodeId>>,
    committed: Option<LogId<NodeId>>,
    purged: Option<LogId<NodeId>>,
    entries: BTreeMap<u64, Entry<Types>>,
    waiting: Vec<Waiting>,
}

/// Lines that are not in the file yet, and whom to tell of it.
struct Waiting {
    text: String,
    callback: Option<LogFlushed<Types>>,
}

/// A line of the file.
#[derive(Deserialize, Serialize)]
enum Record {
    Entry(Entry<Types>),
    /// The entries from this index on are no more.
    Cut(u64),
    /// The entries up to this one are committed.
    Committed(LogId<NodeId>),
    /// The entries up to this one are in a snapshot.
    Purged(LogId<NodeId>),
}

impl Record {
    fn line(&self) -> io::Result<String> {
        Ok(files::line(&serde_json::to_string(self)?))
    }
}

impl Log {
    /// Opens the log in a folder, or begins one.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn open(folder: PathBuf, bug: Bug) -> io::Result<Self> {
        let bytes = files::read(&folder, "log").await?;
        if bytes.is_none() {
            // The name of the file has to be on the disk before its contents count.
            files::replace(&folder, "log", Vec::new(), Steps::with(bug)).await?;
        }
        let bytes = bytes.unwrap_or_default();
        let (lines, length) = files::lines(&bytes);
        let mut state = State::of(&lines, bug)?;
        let file = files::open_to_append(&folder, "log").await?;
        if length < bytes.len() {
            files::cut(&file, length as u64).await?;
        }
        if let Some(bytes) = files::read(&folder, "vote").await? {
            state.vote = Some(serde_json::from_slice(&bytes)?);
        }
        let shared = Arc::new(Shared {
            folder,
            bug,
            state: Mutex::new(state),
            file: sync::Mutex::new(Ok(file)),
            work: Notify::new(),
        });
        tokio::spawn(write(shared.clone()));
        Ok(Self { shared })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Writes a record, and what waits before it.
    async fn write_now(&self, record: Record) -> StorageResult<()> {
        let written = match record.line() {
            Ok(text) => {
                let callback = None;
                self.state().waiting.push(Waiting { text, callback });
                self.shared.flush().await
            }
            Err(error) => Err(error),
        };
        written.map_err(|error| StorageIOError::write_logs(&error).into())
    }
}

impl State {
    fn of(lines: &[&str], bug: Bug) -> io::Result<Self> {
        let mut state = Self::default();
        for line in lines {
            match serde_json::from_str(line)? {
                Record::Entry(entry) if bug == Bug::ConflictNotCut => {
                    let place = state.entries.entry(entry.log_id.index);
                    place.or_insert(entry);
                }
                Record::Entry(entry) => {
                    state.entries.insert(entry.log_id.index, entry);
                }
                Record::Cut(index) => state.entries.retain(|at, _| *at < index),
                Record::Committed(id) => state.committed = Some(id),
                Record::Purged(id) => state.purged = Some(id),
            }
        }
        Ok(state)
    }

    /// The text of a file that has this state, without what was purged.
    fn text(&self) -> io::Result<String> {
        let mut text = String::new();
        let purged = self.purged.map(Record::Purged).into_iter();
        let begin = purged.chain(self.committed.map(Record::Committed));
        for record in begin.chain(self.entries.values().cloned().map(Record::Entry)) {
            text += &record.line()?;
        }
        Ok(text)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what waits.
    async fn flush(&self) -> io::Result<()> {
        let mut file = self.file.lock().await;
        let waiting = mem::take(&mut self.state().waiting);
        let (texts, callbacks): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|waiting| (waiting.text, waiting.callback))
            .unzip();
        let sync = match self.bug {
            Bug::LogNotSynced => Fsync::No,
            _ => Fsync::Yes,
        };
        if let Ok(open) = &*file
            && !texts.is_empty()
            && let Err(error) = files::append(open, texts.concat(), sync).await
        {
            *file = Err(error.kind());
        }
        tell(callbacks, &file)
    }

    /// Writes the file anew, without what was purged. What waits is in it.
    async fn rewrite(&self) -> io::Result<()> {
        let mut file = self.file.lock().await;
        let (text, waiting) = {
            let mut state = self.state();
            (state.text()?, mem::take(&mut state.waiting))
        };
        if file.is_ok() {
            let steps = Steps::with(self.bug);
            let replaced = files::replace(&self.folder, "log", text.into_bytes(), steps).await;
            *file = match replaced {
                Ok(()) => files::open_to_append(&self.folder, "log").await,
                Err(error) => Err(error),
            }
            .map_err(|error| error.kind());
        }
        tell(waiting.into_iter().map(|waiting| waiting.callback), &file)
    }
}

/// Tells raft, and the caller, whether the file has it.
fn tell(
    callbacks: impl IntoIterator<Item = Option<LogFlushed<Types>>>,
    file: &Result<Arc<File>, io::ErrorKind>,
) -> io::Result<()> {
    let written = file.as_ref().map(|_| ()).map_err(|kind| *kind);
    for callback in callbacks.into_iter().flatten() {
        callback.log_io_completed(written.map_err(io::Error::from));
    }
    written.map_err(io::Error::from)
}

/// Writes what is appended.
async fn write(shared: Arc<Shared>) {
    loop {
        if shared.state().waiting.is_empty() {
            shared.work.notified().await;
            continue;
        }
        // If it fails, raft has been told.
        let _ = shared.flush().await;
        if shared.bug == Bug::LostWakeUp {
            // An append between these two lines finds nobody to wake.
            tokio::task::yield_now().await;
            shared.work.notified().await;
        }
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> StorageResult<Vec<Entry<Types>>> {
        let state = self.state();
        let found = state.entries.range(range);
        Ok(found.map(|(_, entry)| entry.clone()).collect())
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> StorageResult<LogState<Types>> {
        let state = self.state();
        let last = state.entries.last_key_value().map(|(_, last)| last.log_id);
        Ok(LogState {
            last_purged_log_id: state.purged,
            last_log_id: last.or(state.purged),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<NodeId>) -> StorageResult<()> {
        let steps = match self.shared.bug {
            Bug::VoteNotSynced => Steps::WithoutFolder,
            bug => Steps::with(bug),
        };
        let saved = match serde_json::to_vec(vote) {
            Ok(bytes) => files::replace(&self.shared.folder, "vote", bytes, steps).await,
            Err(error) => Err(error.into()),
        };
        saved.map_err(|error| StorageIOError::write_vote(&error))?;
        self.state().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> StorageResult<Option<Vote<NodeId>>> {
        Ok(self.state().vote)
    }

    async fn save_committed(&mut self, id: Option<LogId<NodeId>>) -> StorageResult<()> {
        let (Some(id), false) = (id, self.shared.bug == Bug::CommitForgotten) else {
            return Ok(());
        };
        self.state().committed = Some(id);
        self.write_now(Record::Committed(id)).await
    }

    async fn read_committed(&mut self) -> StorageResult<Option<LogId<NodeId>>> {
        Ok(self.state().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> StorageResult<()>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.state();
        let mut text = String::new();
        for entry in entries {
            let index = entry.log_id.index;
            state.entries.insert(index, entry.clone());
            let line = Record::Entry(entry).line();
            text += &line.map_err(|error| StorageIOError::write_logs(&error))?;
        }
        let callback = Some(callback);
        state.waiting.push(Waiting { text, callback });
        drop(state);
        if self.shared.bug == Bug::LostWakeUp {
            self.shared.work.notify_waiters();
        } else {
            self.shared.work.notify_one();
        }
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<NodeId>) -> StorageResult<()> {
        self.state().entries.split_off(&log_id.index);
        if self.shared.bug == Bug::ConflictNotCut {
            return Ok(());
        }
        self.write_now(Record::Cut(log_id.index)).await
    }

    async fn purge(&mut self, log_id: LogId<NodeId>) -> StorageResult<()> {
        {
            let mut state = self.state();
            state.entries = state.entries.split_off(&(log_id.index + 1));
            state.purged = Some(log_id);
        }
        let rewritten = self.shared.rewrite().await;
        rewritten.map_err(|error| StorageIOError::write_logs(&error).into())
    }
}
