//! A client that looks for the leader, and asks again until it has an answer.
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::api::{Answer, Command, Op, Refusal};

/// How long one request waits for its answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// The wait between two requests that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// A client of the store.
#[derive(Debug)]
pub struct Client {
    id: u64,
    number: u64,
    nodes: Vec<String>,
    /// The node that is asked first.
    leader: usize,
    http: reqwest::Client,
}

/// The client has no answer. The request may have been done, or may still be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAnswer;

impl Client {
    /// A client of these nodes, with a number that no other client has.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be made.
    pub fn new(id: u64, nodes: Vec<String>) -> reqwest::Result<Self> {
        Ok(Self {
            id,
            number: 0,
            nodes,
            leader: 0,
            http: reqwest::Client::builder().no_proxy().build()?,
        })
    }

    /// Does something with a key. Without an answer it asks again, until the time is over.
    ///
    /// # Errors
    ///
    /// If no node has answered until then.
    pub async fn op(&mut self, key: &str, op: Op, patience: Duration) -> Result<Answer, NoAnswer> {
        self.number += 1;
        let command = Command {
            client: self.id,
            number: self.number,
            key: key.to_owned(),
            op,
        };
        let end = Instant::now() + patience;
        while Instant::now() < end {
            match self.ask(&command).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(Refusal::NotLeader(Some(leader)))) => {
                    let known = self.nodes.iter().position(|node| *node == leader);
                    self.leader = known.unwrap_or(self.leader);
                }
                Ok(Err(_)) | Err(_) => self.leader = (self.leader + 1) % self.nodes.len(),
            }
            sleep(PAUSE).await;
        }
        Err(NoAnswer)
    }

    async fn ask(&self, command: &Command) -> reqwest::Result<Result<Answer, Refusal>> {
        let address = format!("http://{}/op", self.nodes[self.leader]);
        let request = self.http.post(address).json(command);
        request.timeout(PATIENCE).send().await?.json().await
    }
}
