//! The vote and the log of a node, in its folder.
//!
//! # How it works
//!
//! The file `vote` has the vote. The file `log` has one record a line: an entry, that the end of
//! the log was cut, or what is committed. All entries are in memory, too. One task appends: it
//! takes what waits, writes it, syncs the file, and tells raft.
//!
//! *Invariant*: what raft was told is on the disk. The file read from its begin gives what is in
//! memory, and at most more that nobody was told.
//!
//! What is committed has to be on the disk before it is applied. openraft lets a leader lead on
//! after its restart. If that one does not know what it had committed, it confirms a read with a
//! state from before.
//!
//! Rejected: a file for each part of the log. Logs are short here, since snapshots are often.
use std::{
    collections::BTreeMap,
    fmt::Debug,
    fs::{File, OpenOptions},
    io::{self, Write},
    mem,
    ops::RangeBounds,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use openraft::{
    Entry, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote,
    storage::{LogFlushed, RaftLogStorage},
};
use serde::{Deserialize, Serialize};
use tokio::{sync::Notify, task::spawn_blocking};

use crate::{
    NodeId, Types,
    bug::Bug,
    files::{self, Fsync},
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
    /// There is something to write.
    work: Notify,
}

struct State {
    file: Arc<File>,
    vote: Option<Vote<NodeId>>,
    committed: Option<LogId<NodeId>>,
    purged: Option<LogId<NodeId>>,
    entries: BTreeMap<u64, Entry<Types>>,
    waiting: Vec<(String, LogFlushed<Types>)>,
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
    /// Opens the log in a folder, or begins one. It needs a runtime.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn open(folder: PathBuf, bug: Bug) -> io::Result<Self> {
        let bytes = files::read(&folder, "log")?;
        if bytes.is_none() {
            // The name of the file has to be on the disk before its contents count.
            files::replace(&folder, "log", b"", Fsync::Yes)?;
        }
        let bytes = bytes.unwrap_or_default();
        let (lines, length) = files::lines(&bytes);
        let (mut entries, mut committed, mut purged) = (BTreeMap::new(), None, None);
        for line in lines {
            match serde_json::from_str(line)? {
                Record::Entry(entry) if bug == Bug::ConflictNotCut => {
                    entries.entry(entry.log_id.index).or_insert(entry);
                }
                Record::Entry(entry) => {
                    entries.insert(entry.log_id.index, entry);
                }
                Record::Cut(index) => entries.retain(|at, _| *at < index),
                Record::Committed(id) => committed = Some(id),
                Record::Purged(id) => purged = Some(id),
            }
        }
        let file = OpenOptions::new().append(true).open(folder.join("log"))?;
        if length < bytes.len() {
            file.set_len(length as u64)?;
            file.sync_all()?;
        }
        let vote = match files::read(&folder, "vote")? {
            Some(bytes) => Some(serde_json::from_slice(&bytes)?),
            None => None,
        };
        let state = State {
            file: Arc::new(file),
            vote,
            committed,
            purged,
            entries,
            waiting: Vec::new(),
        };
        let shared = Arc::new(Shared {
            folder,
            bug,
            state: Mutex::new(state),
            work: Notify::new(),
        });
        tokio::spawn(write(shared.clone()));
        Ok(Self { shared })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self, without: Bug) -> Fsync {
        if self.bug == without {
            Fsync::No
        } else {
            Fsync::Yes
        }
    }
}

/// Writes what is appended.
async fn write(shared: Arc<Shared>) {
    loop {
        let (file, waiting) = {
            let mut state = shared.state();
            (state.file.clone(), mem::take(&mut state.waiting))
        };
        if waiting.is_empty() {
            shared.work.notified().await;
            continue;
        }
        let (texts, callbacks): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        let sync = shared.sync(Bug::LogNotSynced);
        let written = spawn_blocking(move || append(&file, &texts.concat(), sync)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        for callback in callbacks {
            let copy = written.as_ref().copied();
            callback.log_io_completed(copy.map_err(|error| error.kind().into()));
        }
        if shared.bug == Bug::LostWakeUp {
            // An append between these two lines finds nobody to wake.
            tokio::task::yield_now().await;
            shared.work.notified().await;
        }
    }
}

fn append(mut file: &File, text: &str, sync: Fsync) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    if sync == Fsync::Yes {
        file.sync_data()?;
    }
    Ok(())
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
        let sync = self.shared.sync(Bug::VoteNotSynced);
        let saved = serde_json::to_vec(vote)
            .map_err(io::Error::from)
            .and_then(|bytes| files::replace(&self.shared.folder, "vote", &bytes, sync));
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
        let mut state = self.state();
        state.committed = Some(id);
        let written = write_now(&state.file, &Record::Committed(id));
        written.map_err(|error| StorageIOError::write_logs(&error))?;
        Ok(())
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
        state.waiting.push((text, callback));
        drop(state);
        if self.shared.bug == Bug::LostWakeUp {
            self.shared.work.notify_waiters();
        } else {
            self.shared.work.notify_one();
        }
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<NodeId>) -> StorageResult<()> {
        let mut state = self.state();
        state.entries.split_off(&log_id.index);
        if self.shared.bug == Bug::ConflictNotCut {
            return Ok(());
        }
        let written = write_now(&state.file, &Record::Cut(log_id.index));
        written.map_err(|error| StorageIOError::write_logs(&error))?;
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId<NodeId>) -> StorageResult<()> {
        let mut state = self.state();
        state.entries = state.entries.split_off(&(log_id.index + 1));
        state.purged = Some(log_id);
        let rewritten = rewrite(&self.shared.folder, &state);
        let file = rewritten.map_err(|error| StorageIOError::write_logs(&error))?;
        state.file = Arc::new(file);
        Ok(())
    }
}

fn write_now(file: &File, record: &Record) -> io::Result<()> {
    append(file, &record.line()?, Fsync::Yes)
}

/// Writes the file anew, without what was purged.
fn rewrite(folder: &std::path::Path, state: &State) -> io::Result<File> {
    let mut text = String::new();
    let purged = state.purged.map(Record::Purged).into_iter();
    let begin = purged.chain(state.committed.map(Record::Committed));
    for record in begin.chain(state.entries.values().cloned().map(Record::Entry)) {
        text += &record.line()?;
    }
    files::replace(folder, "log", text.as_bytes(), Fsync::Yes)?;
    OpenOptions::new().append(true).open(folder.join("log"))
}
