//! What a node knows, and the rules of raft. Nothing here waits.
//!
//! # Invariant
//!
//! A change of the term, the vote or the log is written to the disk in the same step. The callers
//! in `node.rs` sync the disk before they tell anybody.
use std::time::Duration;

use kv::api::Command;
use tokio::sync::oneshot;

use super::{
    bug::Bug,
    disk::{Disk, Write},
    rng::Rng,
    store::Store,
    wire::{Append, Entry, Reply},
};
use crate::seam::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Follower,
    Candidate,
    Leader,
}

/// A client that waits for an entry.
struct Waiting {
    entry: usize,
    term: u64,
    answer: oneshot::Sender<Reply>,
}

pub struct State {
    id: usize,
    bug: Bug,
    disk: Disk,
    rng: Rng,
    pub term: u64,
    vote: Option<usize>,
    log: Vec<Entry>,
    pub role: Role,
    pub leader: Option<usize>,
    commit: usize,
    applied: usize,
    votes: usize,
    /// Of each node, as its leader knows it: which entry comes next, and how many it has.
    next: Vec<usize>,
    matched: Vec<usize>,
    /// When it is time for an election.
    pub deadline: Instant,
    store: Store,
    waiting: Vec<Waiting>,
}

impl State {
    pub fn new(id: usize, nodes: usize, bug: Bug, disk: Disk, rng: Rng) -> Self {
        let image = disk.read();
        let mut state = Self {
            id,
            bug,
            disk,
            rng,
            term: image.term,
            vote: image.vote,
            log: image.log,
            role: Role::Follower,
            leader: None,
            commit: 0,
            applied: 0,
            votes: 0,
            next: vec![0; nodes],
            matched: vec![0; nodes],
            deadline: Instant::now(),
            store: Store::default(),
            waiting: Vec::new(),
        };
        state.wait_for_leader();
        state
    }

    /// The next election is 150 to 220 ms from now.
    fn wait_for_leader(&mut self) {
        let time = 150_000 + self.rng.below(70_000);
        self.deadline = Instant::now() + Duration::from_micros(time);
    }

    /// The term of the last entry, and how many there are.
    pub fn last(&self) -> (u64, usize) {
        let term = self.log.last().map_or(0, |entry| entry.term);
        (term, self.log.len())
    }

    pub fn len(&self) -> usize {
        self.log.len()
    }

    fn set_vote(&mut self, term: u64, vote: Option<usize>) {
        (self.term, self.vote) = (term, vote);
        self.disk.write(Write::Vote { term, vote });
    }

    /// A message has this term. A newer one ends what this node was.
    pub fn see(&mut self, term: u64) {
        if term > self.term {
            self.set_vote(term, None);
            self.role = Role::Follower;
            self.leader = None;
        }
    }

    fn push(&mut self, entry: Entry) {
        self.disk.write(Write::Entry(entry.clone()));
        self.log.push(entry);
    }

    pub fn vote(&mut self, term: u64, candidate: usize, last: (u64, usize)) -> bool {
        self.see(term);
        let fits = last >= self.last() || self.bug == Bug::ShorterLogWins;
        let is_free = self.vote.is_none_or(|vote| vote == candidate);
        if term < self.term || !fits || !is_free {
            return false;
        }
        self.set_vote(term, Some(candidate));
        self.wait_for_leader();
        true
    }

    /// Takes entries of a leader: how many are its own then, or where it may try again.
    pub fn append(&mut self, append: Append) -> Result<usize, usize> {
        if append.term < self.term && self.bug != Bug::OldTermAccepted {
            return Err(0);
        }
        self.see(append.term);
        self.role = Role::Follower;
        self.leader = Some(append.leader);
        self.wait_for_leader();
        let before = append.before;
        if before > self.log.len() {
            return Err(self.log.len());
        }
        if before > 0 && self.log[before - 1].term != append.before_term {
            return Err(before - 1);
        }
        let end = before + append.entries.len();
        if self.bug == Bug::CutsAlways {
            self.cut(before);
        }
        for (place, entry) in (before..).zip(append.entries) {
            if self
                .log
                .get(place)
                .is_some_and(|own| own.term == entry.term)
            {
                continue;
            }
            self.cut(place);
            self.push(entry);
        }
        self.commit = self.commit.max(append.commit.min(end));
        Ok(end)
    }

    fn cut(&mut self, len: usize) {
        if len < self.log.len() {
            self.log.truncate(len);
            self.disk.write(Write::Cut(len));
        }
    }

    /// Begins an election.
    pub fn stand(&mut self) -> u64 {
        self.role = Role::Candidate;
        self.leader = None;
        self.set_vote(self.term + 1, Some(self.id));
        self.votes = 1;
        self.wait_for_leader();
        self.term
    }

    /// Whether the vote for `term` was the one that makes it the leader.
    pub fn elected(&mut self, term: u64) -> bool {
        let counts = term == self.term || self.bug == Bug::VotesOfOldTerm;
        if self.role != Role::Candidate || !counts {
            return false;
        }
        self.votes += 1;
        if 2 * self.votes <= self.next.len() {
            return false;
        }
        self.role = Role::Leader;
        self.leader = Some(self.id);
        self.next.fill(self.log.len());
        self.matched.fill(0);
        if self.bug != Bug::CommitsOldTerm {
            let term = self.term;
            self.push(Entry {
                term,
                command: None,
            });
        }
        true
    }

    /// What a node is to be told next, if this one leads in `term`.
    pub fn to_append(&self, to: usize, term: u64) -> Option<Append> {
        if self.role != Role::Leader || self.term != term {
            return None;
        }
        let before = self.next[to].min(self.log.len());
        Some(Append {
            term,
            leader: self.id,
            before,
            before_term: before.checked_sub(1).map_or(0, |last| self.log[last].term),
            entries: self.log[before..].to_vec(),
            commit: self.commit,
        })
    }

    /// Whether a node has yet to be told of an entry.
    pub fn lacks(&self, node: usize) -> bool {
        self.next[node] < self.log.len()
    }

    /// What a node said to entries of `term`.
    pub fn appended(&mut self, by: usize, term: u64, matched: Result<usize, usize>) {
        if self.role != Role::Leader || self.term != term {
            return;
        }
        match matched {
            Ok(len) => {
                self.matched[by] = self.matched[by].max(len);
                self.next[by] = self.matched[by];
                self.count();
            }
            Err(len) => self.next[by] = len,
        }
    }

    /// Commits what a majority has.
    fn count(&mut self) {
        let mut matched = self.matched.clone();
        matched.sort_unstable();
        let most = matched[(matched.len() - 1) / 2].min(self.log.len());
        if most <= self.commit {
            return;
        }
        if self.log[most - 1].term == self.term || self.bug == Bug::CommitsOldTerm {
            self.commit = most;
        }
    }

    /// Does what was committed, and answers those that wait for it. Tells whether there was any.
    pub fn apply(&mut self) -> bool {
        let before = self.applied;
        while self.applied < self.commit.min(self.log.len()) {
            let entry = &self.log[self.applied];
            self.applied += 1;
            let again = self.bug == Bug::AppliedTwice;
            let command = entry.command.as_ref();
            let answer = command.map(|command| self.store.apply(command, again));
            let (number, term) = (self.applied, entry.term);
            let ready = self
                .waiting
                .extract_if(.., |waiting| waiting.entry <= number);
            for waiting in ready {
                let fits = waiting.entry == number && waiting.term == term;
                let reply = match answer {
                    Some(answer) if fits => Reply::Done(answer),
                    _ => Reply::NotLeader(self.leader),
                };
                let _ = waiting.answer.send(reply);
            }
        }
        self.applied > before
    }

    /// Puts a request into the log, if it is not there. The answer comes by the channel.
    pub fn propose(&mut self, command: Command) -> Result<oneshot::Receiver<Reply>, Reply> {
        if self.bug == Bug::ReadsFromOldLeader
            && command.op == kv::api::Op::Read
            && self.role == Role::Leader
        {
            return Err(Reply::Done(self.store.read(&command.key)));
        }
        if self.role != Role::Leader {
            return Err(Reply::NotLeader(self.leader));
        }
        let (term, applied) = (self.term, self.applied);
        let is_it = |entry: &Entry| {
            let own = entry.command.as_ref();
            entry.term == term
                && own
                    .is_some_and(|own| (own.client, own.number) == (command.client, command.number))
        };
        let there = self.log[applied..].iter().position(is_it);
        let entry = match there {
            Some(place) => applied + place + 1,
            None => {
                let writes = matches!(command.op, kv::api::Op::Write(_));
                self.push(Entry {
                    term,
                    command: Some(command),
                });
                if writes && self.bug == Bug::AckBeforeCommit {
                    return Err(Reply::Done(kv::api::Answer::Done));
                }
                self.log.len()
            }
        };
        let (answer, receiver) = oneshot::channel();
        self.waiting.push(Waiting {
            entry,
            term,
            answer,
        });
        Ok(receiver)
    }
}
