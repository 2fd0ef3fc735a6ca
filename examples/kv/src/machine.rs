//! Keys and values, and their snapshots.
//!
//! # How it works
//!
//! The state is in memory. It follows from the last snapshot, which the file `snapshot` has, and
//! from the log after it: raft applies that again after a crash.
//!
//! A client may ask again, since it cannot know whether the first request came through. So the
//! state remembers each client's last request and its answer, and does none twice.
//!
//! *Invariant*: a snapshot is on the disk before raft deletes the log that it stands for.
use std::{
    collections::BTreeMap,
    io::{self, Cursor},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use openraft::{
    Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta,
    StorageError, StorageIOError, StoredMembership, storage::RaftStateMachine,
};
use serde::{Deserialize, Serialize};
use tokio::{sync, time::sleep};

use crate::{
    NodeId, Types,
    api::{Answer, Command, Op},
    bug::Bug,
    files::{self, Steps},
};

type StorageResult<T> = Result<T, StorageError<NodeId>>;
type Membership = StoredMembership<NodeId, openraft::BasicNode>;

/// The state of a node. Clones are the same one.
#[derive(Clone)]
pub struct Machine {
    shared: Arc<Shared>,
}

struct Shared {
    folder: PathBuf,
    bug: Bug,
    state: Mutex<State>,
    /// What reads see of writes that no majority has: [`Bug::AppliedBeforeCommit`].
    early: Mutex<BTreeMap<String, u64>>,
    /// Held while the file changes, so that no older snapshot follows a newer one.
    saving: sync::Mutex<()>,
}

/// What all nodes agree on.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct State {
    applied: Option<LogId<NodeId>>,
    membership: Membership,
    values: BTreeMap<String, u64>,
    /// Each client's last request, and its answer.
    clients: BTreeMap<u64, (u64, Answer)>,
}

/// The file of a snapshot.
#[derive(Deserialize, Serialize)]
struct Saved {
    meta: SnapshotMeta<NodeId, openraft::BasicNode>,
    state: State,
}

impl State {
    fn apply(&mut self, command: &Command, bug: Bug) -> Answer {
        if bug != Bug::AppliedTwice
            && let Some((number, answer)) = self.clients.get(&command.client)
            && *number >= command.number
        {
            return *answer;
        }
        let value = self.values.get(&command.key).copied();
        let (answer, new) = match command.op {
            Op::Read => (Answer::Value(value), None),
            Op::Write(new) => (Answer::Done, Some(new)),
            Op::Swap { old, new } if old == value => (Answer::Done, Some(new)),
            Op::Swap { .. } => (Answer::Other, None),
            Op::Add(number) => {
                let sum = value.unwrap_or(0).wrapping_add(number);
                (Answer::Value(Some(sum)), Some(sum))
            }
        };
        if let Some(new) = new {
            self.values.insert(command.key.clone(), new);
        }
        self.clients
            .insert(command.client, (command.number, answer));
        answer
    }
}

impl Machine {
    /// Reads the last snapshot of a folder.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn open(folder: PathBuf, bug: Bug) -> io::Result<Self> {
        let state = match files::read(&folder, "snapshot").await? {
            Some(bytes) => serde_json::from_slice::<Saved>(&bytes)?.state,
            None => State::default(),
        };
        let shared = Shared {
            folder,
            bug,
            state: Mutex::new(state),
            early: Mutex::default(),
            saving: sync::Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = &self.shared.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn early(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        let early = &self.shared.early;
        early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key, as this node knows it.
    pub fn value(&self, key: &str) -> Option<u64> {
        let early = self.early().get(key).copied();
        early.or_else(|| self.state().values.get(key).copied())
    }

    /// Lets reads see a write before raft has it: [`Bug::AppliedBeforeCommit`].
    pub fn apply_early(&self, command: &Command) {
        if let Op::Write(value) = command.op {
            self.early().insert(command.key.clone(), value);
        }
    }

    async fn save(&self, bytes: Vec<u8>) -> io::Result<()> {
        let steps = Steps::with(self.shared.bug);
        let shared = self.shared.clone();
        let save = async move { files::replace(&shared.folder, "snapshot", bytes, steps).await };
        if self.shared.bug == Bug::SnapshotNotSynced {
            tokio::spawn(async {
                sleep(Duration::from_secs(1)).await;
                save.await
            });
            return Ok(());
        }
        save.await
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> StorageResult<Snapshot<Types>> {
        let _saving = self.shared.saving.lock().await;
        let mut state = self.state().clone();
        if self.shared.bug == Bug::SnapshotForgetsClients {
            state.clients.clear();
        }
        let meta = SnapshotMeta {
            last_log_id: state.applied,
            last_membership: state.membership.clone(),
            snapshot_id: state.applied.map_or_else(String::new, |id| id.to_string()),
        };
        let saved = Saved { meta, state };
        let failed = |error: io::Error| StorageIOError::write_snapshot(None, &error);
        let bytes = serde_json::to_vec(&saved).map_err(|error| failed(error.into()))?;
        self.save(bytes.clone()).await.map_err(failed)?;
        Ok(Snapshot {
            meta: saved.meta,
            snapshot: Box::new(Cursor::new(bytes)),
        })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> StorageResult<(Option<LogId<NodeId>>, Membership)> {
        let state = self.state();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> StorageResult<Vec<Answer>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.state();
        let answers = entries.into_iter().map(|entry| {
            state.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => Answer::Done,
                EntryPayload::Normal(command) => {
                    self.early().remove(&command.key);
                    state.apply(&command, self.shared.bug)
                }
                EntryPayload::Membership(members) => {
                    state.membership = StoredMembership::new(Some(entry.log_id), members);
                    Answer::Done
                }
            }
        });
        Ok(answers.collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> StorageResult<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<NodeId, openraft::BasicNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> StorageResult<()> {
        let saved = serde_json::from_slice::<Saved>(snapshot.get_ref());
        let saved =
            saved.map_err(|error| StorageIOError::read_snapshot(Some(meta.signature()), &error))?;
        let _saving = self.shared.saving.lock().await;
        let written = self.save(snapshot.into_inner()).await;
        written.map_err(|error| StorageIOError::write_snapshot(Some(meta.signature()), &error))?;
        *self.state() = saved.state;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> StorageResult<Option<Snapshot<Types>>> {
        let read = files::read(&self.shared.folder, "snapshot").await;
        let Some(bytes) = read.map_err(|error| StorageIOError::read_snapshot(None, &error))? else {
            return Ok(None);
        };
        let saved = serde_json::from_slice::<Saved>(&bytes);
        let saved = saved.map_err(|error| StorageIOError::read_snapshot(None, &error))?;
        Ok(Some(Snapshot {
            meta: saved.meta,
            snapshot: Box::new(Cursor::new(bytes)),
        }))
    }
}
