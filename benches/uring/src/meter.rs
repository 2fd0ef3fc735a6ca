//! What the server's thread took for a request.

use std::{
    io,
    mem::{size_of, zeroed},
    time::Instant,
};

use crate::epoll::checked;

/// Columns of a row, in their order.
pub(crate) const COLUMNS: [&str; 8] = [
    "CPU us",
    "user us",
    "system us",
    "calls",
    "requests a round",
    "switches",
    "other threads' CPU us",
    "requests a second",
];

/// One run: a value for each column.
pub(crate) type Figures = [f64; COLUMNS.len()];

/// Counts what a server does, and measures from the end of the warm-up.
#[derive(Debug)]
pub(crate) struct Meter {
    warm_up: u64,
    requests: u64,
    begin: Option<Sample>,
    /// System calls of the server's thread.
    pub(crate) calls: u64,
    /// Waits for events.
    pub(crate) rounds: u64,
    /// Requests that were answered.
    pub(crate) served: u64,
}

impl Meter {
    pub(crate) fn new(warm_up: u64, requests: u64) -> Meter {
        Meter {
            warm_up,
            requests,
            begin: None,
            calls: 0,
            rounds: 0,
            served: 0,
        }
    }

    /// Called once in a round. There are figures when all requests were answered.
    pub(crate) fn look(&mut self) -> io::Result<Option<Figures>> {
        match &self.begin {
            None if self.served >= self.warm_up => self.begin = Some(Sample::take(self)?),
            Some(begin) if self.served >= begin.served + self.requests => {
                return Ok(Some(Sample::take(self)?.since(begin)));
            }
            _ => {}
        }
        Ok(None)
    }
}

#[derive(Debug)]
struct Sample {
    time: Instant,
    cpu: f64,
    user: f64,
    system: f64,
    /// CPU of the whole process: threads of io_uring are in it.
    process: f64,
    switches: f64,
    calls: u64,
    rounds: u64,
    served: u64,
}

impl Sample {
    fn take(meter: &Meter) -> io::Result<Sample> {
        let thread = usage(libc::RUSAGE_THREAD)?;
        let process = usage(libc::RUSAGE_SELF)?;
        Ok(Sample {
            time: Instant::now(),
            cpu: thread_cpu()?,
            user: micros(thread.ru_utime),
            system: micros(thread.ru_stime),
            process: micros(process.ru_utime) + micros(process.ru_stime),
            switches: (thread.ru_nvcsw + thread.ru_nivcsw) as f64,
            calls: meter.calls,
            rounds: meter.rounds,
            served: meter.served,
        })
    }

    fn since(&self, begin: &Sample) -> Figures {
        let served = (self.served - begin.served) as f64;
        let (user, system) = (self.user - begin.user, self.system - begin.system);
        [
            (self.cpu - begin.cpu) / served,
            user / served,
            system / served,
            (self.calls - begin.calls) as f64 / served,
            served / (self.rounds - begin.rounds) as f64,
            (self.switches - begin.switches) / served,
            (self.process - begin.process - user - system) / served,
            served / (self.time - begin.time).as_secs_f64(),
        ]
    }
}

fn micros(time: libc::timeval) -> f64 {
    time.tv_sec as f64 * 1e6 + time.tv_usec as f64
}

/// CPU time of this thread in microseconds.
fn thread_cpu() -> io::Result<f64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that the call may write to.
    checked(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) })?;
    Ok(time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3)
}

fn usage(who: i32) -> io::Result<libc::rusage> {
    // SAFETY: a rusage is numbers alone, and all zeros are numbers.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: `usage` is a rusage that the call may write to.
    checked(unsafe { libc::getrusage(who, &raw mut usage) })?;
    Ok(usage)
}

/// Keeps this thread on one CPU.
pub(crate) fn stay_on(cpu: usize) -> io::Result<()> {
    // SAFETY: a cpu_set_t is bits alone, and no bit is the empty set.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: it changes the set alone, and panics for a CPU beyond its end.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the pointer is good for a set of that size, and the call only reads it.
    checked(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })?;
    Ok(())
}
