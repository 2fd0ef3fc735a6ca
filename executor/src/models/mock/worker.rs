//! What a worker of the mock does: how it sleeps, and how it looks for work.

use super::*;

impl Sleeper for Worker {
    type Env = MockEnv;

    fn env(&self) -> &MockEnv {
        &self.mock
    }

    fn own_peer(&self) -> &Peer {
        self.mock.peer(self.index)
    }

    fn spinning(&self) -> &Cell<Option<Spinning>> {
        &self.spinning
    }

    fn parking(&self) -> &Cell<bool> {
        &self.parking
    }

    fn flush(&self) {
        let mut batch = Batch::new();
        self.lrq.drain(|job| batch.push(job));
        if !batch.is_empty() {
            self.mock.push_batch(batch);
        }
    }

    fn has_private(&self) -> bool {
        !self.own_peer().inbox.is_empty()
    }

    fn needs_no_permit(&self) -> bool {
        false
    }

    fn is_called(&self) -> bool {
        self.mock.closed.load(Observer)
    }

    fn wait(&self) -> Slept {
        let ready = self.brings.borrow().is_some();
        if !ready {
            self.wait_once();
        }
        Slept {
            expired: false,
            ready,
        }
    }

    fn may_end(&self) -> bool {
        unreachable!("a model has no time that goes by");
    }

    /// Without a permit it goes to the global queue, and with one into the own, where one alone
    /// wakes nobody.
    fn wake_what_came(&self) {
        match self.brings.take() {
            Some(job) if self.own_peer().state.has_permit() => {
                self.lrq.push(job).expect("the model's queue has room");
            }
            Some(job) => self.mock.push(job),
            None => {}
        }
    }

    fn falls_asleep(&self) {}

    fn wakes_up(&self) {}
}

impl Worker {
    /// In the netpoll if nobody else is there, else on its parker.
    fn wait_once(&self) {
        let parker = &self.own_peer().parker;
        let Some(net) = &self.mock.net else {
            return parker.park();
        };
        let Some(poller) = net.poller.try_lock() else {
            return parker.park();
        };
        self.mock.poll_as(self.index, poller, |_| {
            parker.park_polling(|| {
                if !net.prepare() {
                    net.parker.park();
                }
                net.finish();
            });
        });
        if net.armed.load(Relaxed) {
            net.fired.unpark(|| ());
            self.mock.close();
        }
    }

    /// Is in the netpoll for something that is its own, and comes back from there, without a permit
    /// if none is free.
    pub(in crate::models) fn come_from_the_netpoll(&self) {
        let net = self.mock.net();
        let Some(poller) = net.poller.try_lock() else {
            return;
        };
        self.mock.poll_as(self.index, poller, |_| {
            net.prepare();
            net.finish();
        });
        self.try_run();
    }

    /// Sleeps on its parker, since another was in the netpoll when it parked. Then it finds nothing
    /// to do, and waits there itself, until the mock is closed.
    pub(in crate::models) fn wait_in_turn(self) {
        self.own_peer().parker.park();
        self.sleep();
        while !self.is_called() {
            self.park();
        }
        self.leave();
    }

    /// Takes its P, and a permit if one is free.
    pub(in crate::models) fn arrive(self) -> Self {
        self.own_peer().state.arrive();
        self.try_run();
        self
    }

    /// Begins to spin.
    pub(in crate::models) fn start_spinning(self) -> Self {
        assert!(self.begin_search(), "the model has room for a spinner");
        self
    }

    /// Falls asleep: for before the model's other threads begin.
    pub(in crate::models) fn asleep(self) -> Self {
        assert!(!self.begin_park(), "there is no work yet");
        self
    }

    /// Is in a sleep that brings a job, as one in the netpoll brings wakers.
    pub(in crate::models) fn that_brings(self, job: Job) -> Self {
        self.brings.replace(Some(job));
        self
    }

    /// Has asked for a permit in vain, and is about to sleep: for before the model's other threads
    /// begin.
    pub(in crate::models) fn wanting(self) -> Self {
        assert!(!self.ask_for_permit(), "no permit is free");
        self
    }

    /// The sleep of one that is [`wanting`](Self::wanting), until it is handed a permit.
    pub(in crate::models) fn go_on(&self) {
        self.own_peer().parker.park();
        assert!(self.was_answered(), "nobody else wakes it");
    }

    /// Looks for work, and sleeps until there is some.
    pub(in crate::models) fn next(&self) -> Found {
        if self.parking.get() {
            self.sleep();
        }
        loop {
            let permit = self.own_peer().state.has_permit();
            if !permit && self.is_called() {
                return Found::Closed;
            }
            if (permit || self.regain())
                && let Some(job) = self.find()
            {
                self.found_work();
                return Found::Job(job.done());
            }
            self.park();
        }
    }

    /// As [`next`](Self::next), for a thread that has looked and found nothing.
    pub(in crate::models) fn park_and_next(&self) -> Found {
        self.park();
        self.next()
    }

    fn find(&self) -> Option<Job> {
        if let Some(job) = self.own_peer().inbox.pop() {
            return Some(job);
        }
        let ordered = self.priority_queues.as_ref().and_then(OrderedLocal::pop);
        ordered
            .or_else(|| self.lrq.pop())
            .or_else(|| self.mock.pop_queued())
            .or_else(|| self.search())
    }

    fn search(&self) -> Option<Job> {
        if !self.begin_search() {
            return None;
        }
        loop {
            let mut busy = false;
            for victim in self.mock.awake_peers() {
                if victim.index() == self.index {
                    continue;
                }
                match victim.stealer.steal_into(&self.lrq) {
                    Steal::Stolen { first, .. } => return Some(first),
                    Steal::Busy => busy = true,
                    Steal::Empty => {}
                }
                if let Some(job) = self.steal_ordered(victim) {
                    return Some(job);
                }
            }
            if let Some(job) = self.mock.pop_queued() {
                return Some(job);
            }
            if !busy {
                return None;
            }
        }
    }

    fn steal_ordered(&self, victim: &Peer) -> Option<Job> {
        let own = self.priority_queues.as_ref()?;
        victim.ordered.as_ref()?.steal(|job| {
            own.push(job).expect("the model's queue has room");
        })
    }

    /// To the back of the local queue, or into the ordered one, and wakes a thread if one could
    /// take it.
    pub(in crate::models) fn push_back(&self, job: Job) {
        let pushed = match &self.priority_queues {
            Some(priority_queues) if job.is_ordered() => priority_queues.push(job),
            _ => self.lrq.push(job),
        };
        pushed.expect("the model's queue has room");
        if let Some((permit, spinning)) = self.mock.idle.submit(1) {
            self.mock.wake_with(permit, spinning);
        }
    }

    /// In a poll: forks a child.
    pub(in crate::models) fn fork(&self, job: Job) {
        assert!(self.direct.put(job).is_none(), "one a poll");
    }

    /// After the poll: whether the child is still its own.
    pub(in crate::models) fn has_child(&self) -> bool {
        !self.direct.is_empty()
    }

    /// Goes away: gives permit and P up. Its queue is empty.
    pub(in crate::models) fn leave(self) {
        let permit = self.own_peer().state.vacate();
        self.mock.left(permit, self.spinning.take());
    }
}
