//! *Affinity*: a thread that is woken is not to be queued behind the one that woke it.
//!
//! A worker that spawns a task and computes on wakes a thread for that task (*The wake back-off* in
//! `push.rs`). The system puts the woken thread where it thinks best. If that is the waker's own
//! CPU, the wake-up was for nothing: the thread waits for the waker's time slice to end. This
//! should not happen while another CPU is idle, but in virtual machines it does; see
//! `ws_reactor::ThreadId::keep_off`. Measured with a task that spawns a child and computes for 5
//! ms: one child in ten began 1 to 5 ms late on a machine whose second core was idle.
//!
//! So if the thread fell asleep on the waker's CPU, the waker takes that CPU out of the thread's
//! set. The thread puts it back as the first thing that it does. Only a wake-up for a lone
//! `runnext` does this: other wake-ups are made by threads that soon look at their queues again.
//!
//! *Invariant*: while a thread runs anything but this module, its set is as it was. It falls asleep
//! and wakes up under the lock, and a waker changes the set under the lock, and only while the
//! thread sleeps.
//!
//! Rejected:
//!
//! - A yield of the waker: it gives its CPU to any thread.
//! - To wake more threads than one: it only raises the odds.
//! - To leave it to the monitor: it would have to be awake all the time.

use ws_reactor::{CpuSet, ThreadId, current_cpu};

use crate::sync::Mutex;

/// On which CPU a P's thread fell asleep.
#[derive(Debug)]
pub(crate) struct Affinity(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    state: State,
    /// Its CPUs as they were before it was kept off one. The room for them stays, so that a waker
    /// does not allocate it.
    before: CpuSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Awake,
    /// It fell asleep on this CPU.
    Asleep(u32),
    /// And is kept off it.
    KeptOff,
}

impl Affinity {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Inner {
            state: State::Awake,
            before: CpuSet::default(),
        }))
    }

    /// The calling thread is about to sleep.
    pub(crate) fn fall_asleep(&self) {
        if let Some(cpu) = current_cpu() {
            self.0.lock().state = State::Asleep(cpu);
        }
    }

    /// The calling thread is awake.
    pub(crate) fn wake_up(&self) {
        let mut inner = self.0.lock();
        if std::mem::replace(&mut inner.state, State::Awake) == State::KeptOff {
            inner.before.restore(ThreadId::current());
        }
    }

    /// The calling thread has woken `thread`, and computes on.
    pub(crate) fn keep_off_this_cpu(&self, thread: ThreadId) {
        let mut inner = self.0.lock();
        if let State::Asleep(cpu) = inner.state
            && current_cpu() == Some(cpu)
            && thread.keep_off(cpu, &mut inner.before)
        {
            inner.state = State::KeptOff;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The calling thread's CPUs, told by whether it can be kept off each.
    fn cpus() -> Vec<u32> {
        let thread = ThreadId::current();
        let mut set = CpuSet::default();
        let can = |cpu: &u32| {
            let can = thread.keep_off(*cpu, &mut set);
            if can {
                set.restore(thread);
            }
            can
        };
        (0..1024).filter(can).collect()
    }

    #[test]
    fn a_set_is_whole_again_after_waking_up() {
        let before = cpus();
        let affinity = Affinity::new();
        let thread = ThreadId::current();
        affinity.keep_off_this_cpu(thread);
        assert_eq!(cpus(), before, "it is awake, so it is left alone");
        affinity.fall_asleep();
        affinity.keep_off_this_cpu(thread);
        // If another CPU is there to go to, it was moved; once is enough in any case.
        affinity.keep_off_this_cpu(thread);
        affinity.wake_up();
        assert_eq!(cpus(), before);
        affinity.wake_up();
        assert_eq!(cpus(), before);
    }

    // Fails if a waker on another CPU takes the sleeper's.
    #[test]
    fn a_waker_elsewhere_leaves_the_sleepers_cpus() {
        let before = cpus();
        let affinity = Affinity::new();
        let elsewhere = before.iter().find(|&&cpu| Some(cpu) != current_cpu());
        let Some(&elsewhere) = elsewhere else {
            // One CPU is all that this process may use.
            return;
        };
        // The system may move this thread there in between, so that it is right to take it off;
        // hardly ten times.
        let is_left_alone = (0..10).any(|_| {
            affinity.0.lock().state = State::Asleep(elsewhere);
            affinity.keep_off_this_cpu(ThreadId::current());
            let is_left_alone = affinity.0.lock().state == State::Asleep(elsewhere);
            affinity.wake_up();
            is_left_alone
        });
        assert!(is_left_alone);
        assert_eq!(cpus(), before);
    }

    #[test]
    fn one_that_is_woken_is_kept_off_its_wakers_cpu_until_it_wakes_up() {
        let before = cpus();
        let affinity = Affinity::new();
        let thread = ThreadId::current();
        // The system may move the thread in between, so that there is nothing to do; hardly ten
        // times.
        let off = (0..10).find_map(|_| {
            affinity.fall_asleep();
            let State::Asleep(cpu) = affinity.0.lock().state else {
                panic!("Linux tells where it is");
            };
            affinity.keep_off_this_cpu(thread);
            (affinity.0.lock().state == State::KeptOff).then_some(cpu)
        });
        assert_eq!(off.is_some(), before.len() > 1, "if there is another");
        if let Some(cpu) = off {
            assert!(before.contains(&cpu));
            assert_ne!(current_cpu(), Some(cpu));
        }
        affinity.wake_up();
        assert_eq!(cpus(), before);
    }
}
