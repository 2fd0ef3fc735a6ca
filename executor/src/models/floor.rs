//! The scheduler's floor for the models: as many Ps and permits as one asks for, and the steps of
//! `sched/shared.rs`, `sched/worker.rs` and `sched/sleep.rs` around the shipped [`Idle`],
//! [`Standing`], [`Parker`] and queues.
//!
//! A method here has the name and the steps of the one that it plays. Left out are contexts, hooks,
//! counters, timers and the netpoll; a thread that cannot be started is one that the runtime's cap
//! does not allow.
#![expect(unsafe_code, reason = "a job is one word, as a task is")]

use std::{
    array,
    cell::Cell,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst as Observer},
    },
};

use crate::{
    queue::{Batch, GlobalQueue, Item, Linked, LocalQueue, Steal, Stealer, local_queue},
    sched::{
        idle::{Idle, Permit, Spinning, Standing, Stands},
        park::Parker,
    },
    sync::{
        UnsafeCell,
        atomic::{Ordering::SeqCst, fence},
    },
};

/// Something to do; which is its number.
#[derive(Debug)]
pub(super) struct Job(NonNull<JobCell>);

struct JobCell {
    next: UnsafeCell<Option<NonNull<()>>>,
    number: usize,
}

impl Job {
    pub(super) fn new(number: usize) -> Self {
        let cell = Box::new(JobCell {
            next: UnsafeCell::new(None),
            number,
        });
        Self(NonNull::from(Box::leak(cell)))
    }

    fn done(self) -> usize {
        // SAFETY: the job owns its cell, which came from a box.
        unsafe { Box::from_raw(self.0.as_ptr()) }.number
    }
}

// SAFETY: the cell is owned by the job alone.
unsafe impl Send for Job {}

// SAFETY: the pointer is that of a box, and comes back as it went.
unsafe impl Item for Job {
    fn into_raw(self) -> NonNull<()> {
        self.0.cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }
}

// SAFETY: `next` is a field of the cell, for the queue alone.
unsafe impl Linked for Job {
    unsafe fn next<'a>(raw: NonNull<()>) -> &'a UnsafeCell<Option<NonNull<()>>> {
        // SAFETY: by contract `raw` is a job in a queue.
        unsafe { &raw.cast::<JobCell>().as_ref().next }
    }
}

/// What all threads share; plays `Shared`.
pub(super) struct Floor {
    pub(super) idle: Idle,
    pub(super) grq: GlobalQueue<Job>,
    peers: Vec<Peer>,
    workers: usize,
    /// No more work comes: sleepers get up and go. Seen by a sleeper because an unpark follows.
    closed: AtomicBool,
}

/// Plays `Peer`.
pub(super) struct Peer {
    pub(super) standing: Standing,
    pub(super) parker: Parker,
    stealer: Stealer<Job>,
    inbox: GlobalQueue<Job>,
}

/// A thread with its P; plays `Worker`.
pub(super) struct Worker {
    pub(super) floor: Arc<Floor>,
    index: usize,
    lrq: LocalQueue<Job>,
    spinning: Cell<Option<Spinning>>,
    /// It has parked already, and begins with its sleep.
    lies: Cell<bool>,
}

/// What a worker found.
pub(super) enum Found {
    Job(usize),
    /// The floor was closed.
    Closed,
}

/// A floor with `permits` of them, all free, and `N` vacant Ps.
pub(super) fn floor<const N: usize>(permits: usize) -> (Arc<Floor>, [Worker; N]) {
    let queues: [_; N] = array::from_fn(|_| local_queue());
    let mut peers = Vec::new();
    let queues = queues.map(|(lrq, stealer)| {
        peers.push(Peer {
            standing: Standing::new(),
            parker: Parker::new(),
            stealer,
            inbox: GlobalQueue::new(),
        });
        lrq
    });
    let floor = Arc::new(Floor {
        idle: Idle::new(permits, N),
        grq: GlobalQueue::new(),
        peers,
        workers: permits,
        closed: AtomicBool::new(false),
    });
    let mut index = 0;
    let workers = queues.map(|lrq| {
        index += 1;
        Worker {
            floor: floor.clone(),
            index: index - 1,
            lrq,
            spinning: Cell::new(None),
            lies: Cell::new(false),
        }
    });
    (floor, workers)
}

impl Floor {
    pub(super) fn peer(&self, index: usize) -> &Peer {
        &self.peers[index]
    }

    pub(super) fn any_work(&self) -> bool {
        !self.grq.is_empty() || self.peers.iter().any(|peer| !peer.stealer.is_empty())
    }

    /// Work from a thread that has no P.
    pub(super) fn push_foreign(&self, job: Job) {
        self.grq.push(job);
        self.wake_for(1);
    }

    pub(super) fn push_batch(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut batch = Batch::new();
        batch.extend(jobs);
        let len = batch.len();
        self.grq.push_batch(batch);
        self.wake_for(len);
    }

    /// Work for one thread alone.
    pub(super) fn push_pinned(&self, index: usize, job: Job) {
        let peer = self.peer(index);
        peer.inbox.push(job);
        self.notify_owner(peer);
    }

    /// Every P of the floor sleeps on its own parker.
    fn notify_owner(&self, peer: &Peer) {
        fence(SeqCst);
        self.unpark(peer);
    }

    pub(super) fn wake_for(&self, backlog: usize) {
        for _ in 0..backlog.min(self.workers) {
            let Some((permit, spinning)) = self.idle.submit(backlog) else {
                return;
            };
            self.wake_with(permit, spinning);
        }
    }

    fn wake_with(&self, permit: Permit, spinning: Spinning) {
        let mut permit = Some(permit);
        let claimed = self.idle.parked().claim(None, |index| {
            let peer = self.peer(index);
            match peer.standing.hand_to_parked(permit.take()?) {
                Ok(()) => Some(peer),
                Err(back) => {
                    permit = Some(back);
                    None
                }
            }
        });
        match (claimed, permit) {
            (Some(peer), None) => {
                spinning.hand_over();
                self.unpark(peer);
            }
            (None, Some(permit)) => self.start_thread(permit, spinning),
            _ => unreachable!("a permit is handed to exactly one P"),
        }
    }

    /// The cap does not allow another thread.
    fn start_thread(&self, permit: Permit, spinning: Spinning) {
        self.idle.release(permit, Some(spinning));
        self.after_refusal();
    }

    /// Others relied on the spinner that did not start: if a thread is parked by now, and anything
    /// is queued, it is woken.
    fn after_refusal(&self) {
        if !self.idle.parked().is_empty() && self.any_work() {
            self.wake_for(1);
        }
    }

    fn unpark(&self, peer: &Peer) {
        peer.parker
            .unpark(|| unreachable!("nobody waits in a netpoll here"));
    }

    pub(super) fn release(&self, permit: Permit, spinning: Option<Spinning>) {
        self.idle.release(permit, spinning);
        self.after_release();
        if self.any_work() {
            self.wake_for(1);
        }
    }

    fn after_release(&self) {
        while !self.idle.wanting().is_empty() {
            let Some(permit) = self.idle.acquire() else {
                return;
            };
            if let Err(permit) = self.hand_to_wanting(permit) {
                self.idle.release(permit, None);
            }
        }
    }

    pub(super) fn hand_to_wanting(&self, permit: Permit) -> Result<(), Permit> {
        let mut permit = Some(permit);
        self.idle.wanting().claim(None, |index| {
            let peer = self.peer(index);
            match peer.standing.hand_to_wanting(permit.take()?) {
                Ok(()) => {
                    self.notify_owner(peer);
                    Some(())
                }
                Err(back) => {
                    permit = Some(back);
                    None
                }
            }
        });
        permit.map_or(Ok(()), Err)
    }

    /// Sends the sleepers home.
    pub(super) fn close(&self) {
        self.closed.store(true, Observer);
        self.peers.iter().for_each(|peer| self.unpark(peer));
    }

    /// No permit was lost or doubled, and nobody is counted who does not spin. For when all threads
    /// are done.
    pub(super) fn assert_settled(&self) {
        let running = self
            .peers
            .iter()
            .filter(|peer| peer.standing.load() == Stands::Running);
        assert_eq!(
            self.idle.free() + running.count(),
            self.workers,
            "a permit was lost or doubled"
        );
        assert_eq!(self.idle.spinning(), 0, "a spinner was not counted down");
    }
}

impl Worker {
    pub(super) fn peer(&self) -> &Peer {
        self.floor.peer(self.index)
    }

    /// Takes its P, and a permit if one is free.
    pub(super) fn arrive(self) -> Self {
        self.peer().standing.arrive();
        self.try_run();
        self
    }

    /// Begins to spin.
    pub(super) fn start_spinning(self) -> Self {
        let spinning = self.floor.idle.start_spinning();
        assert!(spinning.is_some(), "the model has room for a spinner");
        self.spinning.set(spinning);
        self
    }

    /// Falls asleep without a last look: for before the model's other threads begin.
    pub(super) fn lie_down(self) -> Self {
        let permit = self.peer().standing.park().expect("it was running");
        self.floor.idle.parked().insert(self.index);
        self.floor.idle.release(permit, self.spinning.take());
        self.lies.set(true);
        self
    }

    pub(super) fn try_run(&self) -> bool {
        match self.floor.idle.acquire() {
            Some(permit) => {
                self.peer().standing.run(permit);
                true
            }
            None => false,
        }
    }

    /// Looks for work, and sleeps until there is some.
    pub(super) fn next(&self) -> Found {
        if self.lies.take() && self.sleep().is_err() {
            return Found::Closed;
        }
        loop {
            if self.has_permit_or_gets_one()
                && let Some(job) = self.find()
            {
                self.found_work();
                return Found::Job(job.done());
            }
            if self.park().is_err() {
                return Found::Closed;
            }
        }
    }

    /// As [`next`](Self::next), for who has looked and found nothing.
    pub(super) fn park_and_next(&self) -> Found {
        match self.park() {
            Ok(()) => self.next(),
            Err(Closed) => Found::Closed,
        }
    }

    /// Plays `step_without_permit`.
    fn has_permit_or_gets_one(&self) -> bool {
        if self.peer().standing.has_permit() || self.try_run() {
            return true;
        }
        self.hand_in();
        fence(SeqCst);
        self.try_run()
    }

    /// Moves the ring to the global queue.
    fn hand_in(&self) {
        let mut jobs = Vec::new();
        self.lrq.drain(|job| jobs.push(job));
        if !jobs.is_empty() {
            self.floor.push_batch(jobs);
        }
    }

    /// Gives its permit to somebody who has pinned work and none.
    pub(super) fn lend_permit(&self) {
        if let Some(permit) = self.peer().standing.revoke()
            && let Err(permit) = self.floor.hand_to_wanting(permit)
        {
            self.peer().standing.run(permit);
        }
    }

    fn find(&self) -> Option<Job> {
        if let Some(job) = self.peer().inbox.pop() {
            return Some(job);
        }
        if let Some(job) = self.lrq.pop() {
            return Some(job);
        }
        if let Some(job) = self.floor.grq.pop() {
            return Some(job);
        }
        self.search()
    }

    fn search(&self) -> Option<Job> {
        let spinning = self
            .spinning
            .take()
            .or_else(|| self.floor.idle.start_spinning())?;
        self.spinning.set(Some(spinning));
        loop {
            let mut busy = false;
            for (index, victim) in self.floor.peers.iter().enumerate() {
                if index == self.index {
                    continue;
                }
                match victim.stealer.steal_into(&self.lrq) {
                    Steal::Stolen { first, .. } => return Some(first),
                    Steal::Busy => busy = true,
                    Steal::Empty => {}
                }
            }
            if let Some(job) = self.floor.grq.pop() {
                return Some(job);
            }
            if !busy {
                return None;
            }
        }
    }

    fn found_work(&self) {
        let Some(spinning) = self.spinning.take() else {
            return;
        };
        if self.floor.idle.stop_spinning(spinning) && self.floor.any_work() {
            self.floor.wake_for(1);
        }
    }

    /// To the back of the local queue, and wakes a thread if one could take it.
    pub(super) fn push_back(&self, job: Job) {
        self.lrq.push(job).expect("the model's queue has room");
        if let Some((permit, spinning)) = self.floor.idle.submit(1) {
            self.floor.wake_with(permit, spinning);
        }
    }

    /// Gives the permit up and sleeps until there is something to do.
    fn park(&self) -> Result<(), Closed> {
        let permit = self.peer().standing.park();
        self.floor.idle.parked().insert(self.index);
        match (permit, self.spinning.take()) {
            (Some(permit), spinning) => {
                self.floor.idle.release(permit, spinning);
                self.floor.after_release();
            }
            (None, Some(spinning)) => {
                self.floor.idle.stop_spinning(spinning);
            }
            (None, None) => fence(SeqCst),
        }
        if self.floor.any_work()
            && let Some((permit, spinning)) = self.floor.idle.submit(1)
        {
            self.stand_up(permit, spinning);
            return Ok(());
        }
        self.sleep()
    }

    fn sleep(&self) -> Result<(), Closed> {
        loop {
            if self.peer().standing.has_permit() {
                self.was_handed_a_permit();
                return Ok(());
            }
            if self.floor.closed.load(Observer) {
                if self.rise() {
                    return Err(Closed);
                }
                return Ok(());
            }
            if !self.peer().inbox.is_empty() {
                self.rise();
                self.get_permit();
                return Ok(());
            }
            self.peer().parker.park();
        }
    }

    fn was_handed_a_permit(&self) {
        if self.spinning.take().is_none() {
            self.spinning.set(Some(Spinning::take_over()));
        }
    }

    /// Stands up as a spinner: more may have come than it is going to take, from who relied on it.
    fn stand_up(&self, permit: Permit, spinning: Spinning) {
        match self.peer().standing.hand_to_parked(permit) {
            Ok(()) => {
                self.floor.idle.parked().remove(self.index);
                self.spinning.set(Some(spinning));
            }
            Err(permit) => {
                self.was_handed_a_permit();
                self.floor.release(permit, Some(spinning));
            }
        }
    }

    fn rise(&self) -> bool {
        if self.peer().standing.awake() {
            self.floor.idle.parked().remove(self.index);
            true
        } else {
            self.was_handed_a_permit();
            false
        }
    }

    /// Gets a permit for work that this thread alone can do, and waits for one if it must.
    pub(super) fn get_permit(&self) {
        let peer = self.peer();
        loop {
            if peer.standing.has_permit() || self.try_run() {
                return;
            }
            peer.standing.want();
            self.floor.idle.wanting().insert(self.index);
            fence(SeqCst);
            if let Some(permit) = self.floor.idle.acquire() {
                if let Err(permit) = peer.standing.hand_to_wanting(permit) {
                    self.floor.release(permit, None);
                }
                self.floor.idle.wanting().remove(self.index);
                return;
            }
            peer.parker.park();
            self.floor.idle.wanting().remove(self.index);
            if !peer.standing.awake() {
                return;
            }
        }
    }

    /// Goes away: gives permit and P up. Its queue is empty.
    pub(super) fn leave(self) {
        let permit = self.peer().standing.vacate();
        match (permit, self.spinning.take()) {
            (Some(permit), spinning) => self.floor.release(permit, spinning),
            (None, Some(spinning)) => {
                self.floor.idle.stop_spinning(spinning);
            }
            (None, None) => {}
        }
    }
}

/// The floor was closed while a worker slept.
struct Closed;
