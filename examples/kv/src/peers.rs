//! Raft's messages from node to node: JSON over HTTP.
use openraft::{
    BasicNode,
    error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable},
    network::{RPCOption, RaftNetwork, RaftNetworkFactory},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest,
        InstallSnapshotResponse, VoteRequest, VoteResponse,
    },
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{NodeId, Types};

type Failed<E> = RPCError<NodeId, BasicNode, RaftError<NodeId, E>>;

/// The other nodes.
#[derive(Clone, Debug)]
pub struct Peers {
    http: reqwest::Client,
}

impl Peers {
    /// Sends by this client.
    pub fn new(http: reqwest::Client) -> Self {
        Self { http }
    }
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, id: NodeId, node: &BasicNode) -> Peer {
        Peer {
            id,
            address: node.addr.clone(),
            http: self.http.clone(),
        }
    }
}

/// One of them.
#[derive(Debug)]
pub struct Peer {
    id: NodeId,
    address: String,
    http: reqwest::Client,
}

impl Peer {
    async fn ask<A, E>(
        &self,
        what: &str,
        message: &impl Serialize,
        option: RPCOption,
    ) -> Result<A, Failed<E>>
    where
        A: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        let address = format!("http://{}/raft/{what}", self.address);
        let request = self.http.post(address).json(message);
        let sent = request.timeout(option.soft_ttl()).send().await;
        // After this raft waits a while before it tries again.
        let response = sent.map_err(|error| Unreachable::new(&error))?;
        let answer = response.json::<Result<A, RaftError<NodeId, E>>>().await;
        let answer = answer.map_err(|error| NetworkError::new(&error))?;
        answer.map_err(|error| RemoteError::new(self.id, error).into())
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, Failed<openraft::error::Infallible>> {
        self.ask("append", &request, option).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<NodeId>, Failed<InstallSnapshotError>> {
        self.ask("snapshot", &request, option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<NodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<NodeId>, Failed<openraft::error::Infallible>> {
        self.ask("vote", &request, option).await
    }

    fn backoff(&self) -> openraft::network::Backoff {
        let wait = std::time::Duration::from_millis(100);
        openraft::network::Backoff::new(std::iter::repeat(wait))
    }
}
