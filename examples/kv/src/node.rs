//! A node: its server, and how it answers a client.
//!
//! # How it works
//!
//! The node that leads answers. A write goes into raft's log. For a read the leader asks a majority
//! whether it still leads, and waits until it has applied what was committed before.
use std::{
    collections::BTreeMap,
    fmt,
    future::IntoFuture,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    routing::post,
    serve::Listener,
};
use openraft::{
    BasicNode, Config, Raft, SnapshotPolicy,
    error::{ClientWriteError, Infallible, InstallSnapshotError, RaftError},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest,
        InstallSnapshotResponse, VoteRequest, VoteResponse,
    },
};
use tokio::net::TcpListener;

use crate::{
    NodeId, Types,
    api::{Answer, Command, Op, Refusal},
    bug::Bug,
    files,
    log::Log,
    machine::Machine,
    peers::Peers,
};

/// What a node has to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its number.
    pub id: NodeId,
    /// The addresses of all nodes, its own too: host and port.
    pub nodes: BTreeMap<NodeId, String>,
    /// Where its server listens.
    pub listen: String,
    /// The folder with its files, in a folder that is there. It is made if it is not there.
    pub folder: PathBuf,
    /// Entries of the log from one snapshot to the next.
    pub snapshot_every: u64,
    /// A mistake, for tests.
    pub bug: Bug,
}

struct Node {
    id: NodeId,
    bug: Bug,
    raft: Raft<Types>,
    machine: Machine,
    /// Until when a majority follows this leader: [`Bug::LeaseByCalendar`].
    lease: Mutex<SystemTime>,
}

type Shared = State<Arc<Node>>;

/// Runs a node until its server fails, or its raft: after an error of the disk raft never answers
/// again, so the node ends.
///
/// # Errors
///
/// What its disk and its sockets say, and if raft does not start.
pub async fn run(options: Options) -> io::Result<()> {
    let listener = TcpListener::bind(&options.listen).await?;
    serve(options, listener).await
}

/// Runs a node on a listener that is open.
///
/// # Errors
///
/// As [`run`].
pub async fn serve<L>(options: Options, listener: L) -> io::Result<()>
where
    L: Listener<Addr: fmt::Debug>,
{
    files::make_folder(&options.folder).await?;
    let http = reqwest::Client::builder().no_proxy().build();
    let http = http.map_err(io::Error::other)?;
    let machine = Machine::open(options.folder.clone(), options.bug).await?;
    let log = Log::open(options.folder.clone(), options.bug).await?;
    let config = Config {
        snapshot_policy: SnapshotPolicy::LogsSinceLast(options.snapshot_every),
        max_in_snapshot_log_to_keep: options.snapshot_every / 4,
        replication_lag_threshold: options.snapshot_every * 2,
        ..Config::default()
    };
    let config = Arc::new(config.validate().map_err(io::Error::other)?);
    let raft = Raft::new(options.id, config, Peers::new(http), log, machine.clone()).await;
    let raft = raft.map_err(io::Error::other)?;
    let members = options.nodes.iter();
    let members = members.map(|(id, address)| (*id, BasicNode::new(address)));
    let members: BTreeMap<NodeId, BasicNode> = members.collect();
    // All nodes do this: the first time it makes the cluster, and then it is refused.
    let _ = raft.initialize(members).await;
    let node = Arc::new(Node {
        id: options.id,
        bug: options.bug,
        raft: raft.clone(),
        machine,
        lease: Mutex::new(SystemTime::UNIX_EPOCH),
    });
    tokio::select! {
        served = axum::serve(listener, routes(node)).into_future() => served,
        error = death(&raft) => Err(error),
    }
}

/// Waits until raft has ended for good, and tells why: an error of the disk, for instance.
async fn death(raft: &Raft<Types>) -> io::Error {
    let mut metrics = raft.metrics();
    loop {
        if let Err(fatal) = &metrics.borrow_and_update().running_state {
            return io::Error::other(fatal.clone());
        }
        if let Err(error) = metrics.changed().await {
            return io::Error::other(error);
        }
    }
}

fn routes(node: Arc<Node>) -> Router {
    Router::new()
        .route("/op", post(op))
        .route("/raft/append", post(append))
        .route("/raft/snapshot", post(snapshot))
        .route("/raft/vote", post(vote))
        .layer(DefaultBodyLimit::disable())
        .with_state(node)
}

type ToPeer<A, E = Infallible> = Json<Result<A, RaftError<NodeId, E>>>;

async fn append(
    State(node): Shared,
    Json(request): Json<AppendEntriesRequest<Types>>,
) -> ToPeer<AppendEntriesResponse<NodeId>> {
    Json(node.raft.append_entries(request).await)
}

async fn snapshot(
    State(node): Shared,
    Json(request): Json<InstallSnapshotRequest<Types>>,
) -> ToPeer<InstallSnapshotResponse<NodeId>, InstallSnapshotError> {
    Json(node.raft.install_snapshot(request).await)
}

async fn vote(
    State(node): Shared,
    Json(request): Json<VoteRequest<NodeId>>,
) -> ToPeer<VoteResponse<NodeId>> {
    Json(node.raft.vote(request).await)
}

async fn op(State(node): Shared, Json(command): Json<Command>) -> Json<Result<Answer, Refusal>> {
    Json(match command.op {
        Op::Read => node.read(&command.key).await,
        _ => node.write(command).await,
    })
}

impl Node {
    async fn read(&self, key: &str) -> Result<Answer, Refusal> {
        if !self.may_read_at_once() {
            let asked = SystemTime::now();
            if let Err(error) = self.raft.ensure_linearizable().await {
                return Err(match error.forward_to_leader() {
                    Some(to) => Refusal::NotLeader(address_of(to.leader_node.as_ref())),
                    None => Refusal::Unknown(error.to_string()),
                });
            }
            let mut lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
            *lease = asked + Duration::from_secs(1);
        }
        Ok(Answer::Value(self.machine.value(key)))
    }

    fn may_read_at_once(&self) -> bool {
        match self.bug {
            Bug::ReadsFromOldLeader => self.believes_to_lead(),
            Bug::LeaseByCalendar => {
                let lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
                SystemTime::now() < *lease
            }
            _ => false,
        }
    }

    fn believes_to_lead(&self) -> bool {
        self.raft.metrics().borrow().current_leader == Some(self.id)
    }

    async fn write(&self, command: Command) -> Result<Answer, Refusal> {
        loop {
            if self.bug == Bug::AppliedBeforeCommit && self.believes_to_lead() {
                self.machine.apply_early(&command);
            }
            let error = match self.raft.client_write(command.clone()).await {
                Ok(written) => return Ok(written.data),
                Err(error) => error,
            };
            return Err(match error.into_api_error() {
                Some(ClientWriteError::ForwardToLeader(to)) => {
                    if self.bug == Bug::UnboundedRetry && to.leader_id.is_none() {
                        tokio::task::yield_now().await;
                        continue;
                    }
                    Refusal::NotLeader(address_of(to.leader_node.as_ref()))
                }
                other => Refusal::Unknown(format!("{other:?}")),
            });
        }
    }
}

fn address_of(node: Option<&BasicNode>) -> Option<String> {
    node.map(|node| node.addr.clone())
}
