//! A client: one request after the other, each asked until it is answered.
use std::{io, time::Duration};

use kv::api::{Answer, Command, Op};

use super::{
    history::History,
    node::{NODES, name},
    plan::{QUIET, SETTLED},
    rng::Rng,
    wire::{self, Reply, Request},
};
use crate::seam::{self, Instant, TcpStream};

/// After this time without an answer, a node is asked no more.
const PATIENCE: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(10);
/// After this time a client gives a request up, while there are faults.
const GIVES_UP: Duration = Duration::from_millis(1_200);
/// Requests after the faults.
const LAST: u64 = 5;
const KEYS: u64 = 2;

pub struct Client {
    pub id: u64,
    pub rng: Rng,
    pub history: History,
}

struct Connection {
    node: usize,
    stream: Option<TcpStream>,
}

impl Client {
    /// Asks until the faults are over. Later, when all is well, the first attempt has to succeed.
    pub async fn run(mut self, end: Duration) -> io::Result<()> {
        let begin = Instant::now();
        let mut connection = Connection {
            node: 0,
            stream: None,
        };
        let mut number = 0;
        while begin.elapsed() < QUIET {
            let pause = self.rng.below(50_000);
            seam::sleep(Duration::from_micros(pause)).await;
            number += 1;
            self.request(&mut connection, number, begin, GIVES_UP).await;
        }
        seam::sleep(SETTLED.saturating_sub(begin.elapsed())).await;
        connection.stream = None;
        for number in number + 1..=number + LAST {
            let is_answered = self.request(&mut connection, number, begin, PATIENCE).await;
            if !is_answered {
                return Err(io::Error::other("no answer, although all is well"));
            }
        }
        if let Some(rest) = end.checked_sub(begin.elapsed()) {
            seam::sleep(rest).await;
        }
        Ok(())
    }

    async fn request(
        &mut self,
        connection: &mut Connection,
        number: u64,
        begin: Instant,
        limit: Duration,
    ) -> bool {
        let key = format!("k{}", self.rng.below(KEYS));
        let value = self.id * 10_000 + number;
        let op = match self.rng.below(10) {
            0..=4 => Op::Read,
            5..=7 => Op::Write(value),
            _ => Op::Add(1),
        };
        let call = self.history.begin(self.id, &key, op.clone());
        let command = Command {
            client: self.id,
            number,
            key: key.clone(),
            op,
        };
        let request = Request::Command(command);
        let asked = connection.ask(&request);
        let Some(answer) = seam::timeout(limit, asked).await else {
            connection.stream = None;
            return false;
        };
        let time = begin.elapsed().as_micros();
        self.history.end(&key, call, answer, time);
        true
    }
}

impl Connection {
    async fn ask(&mut self, request: &Request) -> Answer {
        loop {
            let host = name(self.node);
            let asked = wire::ask(&mut self.stream, &host, request);
            match seam::timeout(PATIENCE, asked).await {
                Some(Ok(Reply::Done(answer))) => return answer,
                Some(Ok(Reply::NotLeader(Some(leader)))) if leader != self.node => {
                    *self = Self {
                        node: leader,
                        stream: None,
                    };
                }
                _ => {
                    let node = (self.node + 1) % NODES;
                    *self = Self { node, stream: None };
                }
            }
            seam::sleep(PAUSE).await;
        }
    }
}
