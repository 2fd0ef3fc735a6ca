//! A node: the tasks around its [`State`].
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use kv::api::Command;
use tokio::sync::Notify;

use super::{
    bug::Bug,
    disk::Disk,
    rng::Rng,
    state::{Role, State},
    wire::{self, PORT, Reply, Request},
};
use crate::seam::{self, Instant, Moment, TcpStream};

/// How often a node may ask another one within a second.
const MOST_ASKED: u32 = 400;
/// How many nodes there are.
pub const NODES: usize = 3;

const HEARTBEAT: Duration = Duration::from_millis(50);
/// After this time without an answer, a follower is asked over a new connection.
const PATIENCE: Duration = Duration::from_millis(100);
/// After this time a candidate asks again for a vote.
const VOTE: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(20);

/// The name of a node's host.
pub fn name(id: usize) -> String {
    format!("n{id}")
}

/// What a run counts, besides the answers to clients.
#[derive(Default)]
pub struct Watch {
    /// When the first node began.
    begin: Option<Moment>,
    last_election: Duration,
    /// How often a node asked another one, by their numbers and the second.
    asked: BTreeMap<(usize, usize, u64), u32>,
}

impl Watch {
    fn elapsed(&mut self) -> Duration {
        let now = seam::moment();
        now - *self.begin.get_or_insert(now)
    }

    /// When the last election was, since the first node began.
    pub fn last_election(&self) -> Duration {
        self.last_election
    }

    /// Whether a node asked another one too often within a second.
    pub fn asked_too_often(&self) -> bool {
        self.asked.values().any(|asked| *asked > MOST_ASKED)
    }

    /// A node asks another one. Tells whether it asks too often.
    fn asks(&mut self, node: usize, peer: usize) -> bool {
        let second = self.elapsed().as_secs();
        let asked = self.asked.entry((node, peer, second)).or_default();
        *asked += 1;
        *asked > MOST_ASKED
    }
}

/// What a node's program is made with.
#[derive(Clone)]
pub struct Options {
    pub id: usize,
    pub bug: Bug,
    pub disk: Disk,
    pub rng: Arc<Mutex<Rng>>,
    pub watch: Arc<Mutex<Watch>>,
}

struct Node {
    options: Options,
    state: Mutex<State>,
    /// The log has grown: sync it, and send it.
    grown: Notify,
    /// Requests have their answers.
    applied: Notify,
    to_send: [Notify; NODES],
}

/// The program of a node.
pub async fn run(options: Options) -> io::Result<()> {
    options.watch.lock().unwrap().elapsed();
    let (id, bug, disk) = (options.id, options.bug, options.disk.clone());
    let rng = Rng::new(options.rng.lock().unwrap().next(), 0);
    let node = Arc::new(Node {
        options,
        state: Mutex::new(State::new(id, NODES, bug, disk, rng)),
        grown: Notify::new(),
        applied: Notify::new(),
        to_send: [const { Notify::const_new() }; NODES],
    });
    seam::spawn(node.clone().watch_the_leader());
    seam::spawn(node.clone().sync_the_log());
    let listener = seam::listen(PORT).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        seam::spawn(node.clone().serve(stream));
    }
}

impl Node {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn is(&self, bug: Bug) -> bool {
        self.options.bug == bug
    }

    async fn sync_unless(&self, bug: Bug) {
        if !self.is(bug) {
            self.options.disk.sync().await;
        }
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        while let Ok(request) = wire::receive(&mut stream).await {
            let reply = match request {
                Request::Vote {
                    term,
                    candidate,
                    last,
                } => self.vote(term, candidate, last).await,
                Request::Append(append) => self.append(append).await,
                Request::Command(command) => self.command(command).await,
            };
            if wire::send(&mut stream, &reply).await.is_err() {
                return;
            }
        }
    }

    async fn vote(&self, term: u64, candidate: usize, last: (u64, usize)) -> Reply {
        let granted = self.state().vote(term, candidate, last);
        self.sync_unless(Bug::VoteNotSynced).await;
        let term = self.state().term;
        Reply::Vote { term, granted }
    }

    async fn append(&self, append: wire::Append) -> Reply {
        let of = append.term;
        let matched = self.state().append(append);
        self.sync_unless(Bug::LogNotSynced).await;
        let mut state = self.state();
        self.apply(&mut state);
        let term = state.term;
        let is_old = term != of && !self.is(Bug::OldTermAccepted);
        let matched = if is_old { Err(0) } else { matched };
        Reply::Append { term, matched }
    }

    async fn command(&self, command: Command) -> Reply {
        let answer = self.state().propose(command);
        self.grown.notify_one();
        self.to_send.iter().for_each(Notify::notify_one);
        if self.is(Bug::LostWakeUp) && answer.is_ok() {
            self.options.disk.sync().await;
            self.applied.notified().await;
        }
        match answer {
            Ok(answer) => answer.await.unwrap_or(Reply::NotLeader(None)),
            Err(reply) => reply,
        }
    }

    /// Makes a leader's own entries durable, and counts them.
    async fn sync_the_log(self: Arc<Self>) {
        loop {
            self.grown.notified().await;
            let (term, len) = {
                let state = self.state();
                (state.term, state.len())
            };
            self.sync_unless(Bug::LeaderCountsUnsynced).await;
            let mut state = self.state();
            state.appended(self.options.id, term, Ok(len));
            self.apply(&mut state);
        }
    }

    /// Begins an election whenever no leader was heard of for some time.
    async fn watch_the_leader(self: Arc<Self>) {
        loop {
            let (deadline, role) = {
                let state = self.state();
                (state.deadline, state.role)
            };
            let leads = role == Role::Leader && !self.is(Bug::TimerNotCancelled);
            if leads {
                seam::sleep(HEARTBEAT).await;
            } else if let Some(left) = deadline.checked_duration_since(Instant::now())
                && !left.is_zero()
            {
                seam::sleep(left).await;
            } else {
                self.clone().elect().await;
            }
        }
    }

    async fn elect(self: Arc<Self>) {
        let mut term = self.state().stand();
        {
            let mut watch = self.options.watch.lock().unwrap();
            watch.last_election = watch.elapsed();
        }
        self.options.disk.sync().await;
        let last = {
            let mut state = self.state();
            if self.is(Bug::StaleCandidate) {
                state.role = Role::Candidate;
                term = state.term;
            }
            if state.role != Role::Candidate || state.term != term {
                return;
            }
            state.last()
        };
        for peer in (0..NODES).filter(|peer| *peer != self.options.id) {
            seam::spawn(self.clone().ask_for_vote(peer, term, last));
        }
    }

    async fn ask_for_vote(self: Arc<Self>, peer: usize, of: u64, last: (u64, usize)) {
        let request = Request::Vote {
            term: of,
            candidate: self.options.id,
            last,
        };
        let host = name(peer);
        let (term, granted) = loop {
            let asked = seam::timeout(VOTE, wire::ask(&mut None, &host, &request)).await;
            if let Some(Ok(Reply::Vote { term, granted })) = asked {
                break (term, granted);
            }
            seam::sleep(PAUSE).await;
            let state = self.state();
            if state.term != of || state.role != Role::Candidate {
                return;
            }
        };
        let of = {
            let mut state = self.state();
            state.see(term);
            if !granted || !state.elected(of) {
                return;
            }
            state.term
        };
        self.grown.notify_one();
        for peer in (0..NODES).filter(|peer| *peer != self.options.id) {
            self.clone().begin_to_lead(peer, of);
        }
    }

    fn begin_to_lead(self: Arc<Self>, peer: usize, term: u64) {
        seam::spawn(self.lead(peer, term));
    }

    /// Sends a node the log, as long as this one leads in `term`.
    async fn lead(self: Arc<Self>, peer: usize, term: u64) {
        let (host, mut kept) = (name(peer), None);
        loop {
            let Some(append) = self.state().to_append(peer, term) else {
                return;
            };
            let request = Request::Append(append);
            let asks = |watch: &mut Watch| watch.asks(self.options.id, peer);
            if asks(&mut self.options.watch.lock().unwrap()) {
                // The run has failed, and has to come to its end.
                return;
            }
            match seam::timeout(PATIENCE, wire::ask(&mut kept, &host, &request)).await {
                Some(Ok(Reply::Append { term: of, matched })) => {
                    let mut state = self.state();
                    state.see(of);
                    state.appended(peer, term, matched);
                    self.apply(&mut state);
                }
                _ => {
                    seam::sleep(PAUSE).await;
                    if self.is(Bug::UnboundedRetry) {
                        self.clone().begin_to_lead(peer, term);
                    }
                }
            }
            if !self.state().lacks(peer) {
                seam::timeout(HEARTBEAT, self.to_send[peer].notified()).await;
            }
        }
    }

    fn apply(&self, state: &mut State) {
        if state.apply() {
            self.applied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::loads, *};
    use crate::shared::Action;

    /// Fails on turmoil if the watch counts by the hosts' `Instant`: that of a restarted host
    /// begins anew, and where it begins is the machine's.
    #[test]
    fn a_restarted_host_has_the_time_of_the_others() {
        const RESTART: Duration = Duration::from_millis(500);
        const END: Duration = Duration::from_millis(700);
        let watch = Arc::new(Mutex::new(Watch::default()));
        let begins = Arc::new(Mutex::new(Vec::new()));
        let mut setup = loads::setup((100, 5_000));
        let (watched, begun) = (watch.clone(), begins.clone());
        let host = move || {
            let (watched, begun) = (watched.clone(), begun.clone());
            Box::pin(async move {
                let now = watched.lock().unwrap().elapsed();
                begun.lock().unwrap().push(now);
                std::future::pending().await
            }) as _
        };
        setup.hosts = vec![("n0".to_owned(), Arc::new(host))];
        let client = async {
            seam::sleep(END).await;
            Ok(())
        };
        setup.clients = vec![("client".to_owned(), Box::pin(client))];
        setup.actions = vec![
            (RESTART / 2, Action::Crash(0)),
            (RESTART, Action::Restart(0)),
        ];
        seam::run(setup).unwrap();
        let begins = begins.lock().unwrap();
        let [first, second] = begins[..] else {
            panic!("it began {begins:?}");
        };
        assert!(first.is_zero());
        assert!(RESTART <= second && second < END, "{second:?}");
    }
}
