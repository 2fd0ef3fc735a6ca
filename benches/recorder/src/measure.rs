//! Wall time and CPU time.

use std::{
    mem::MaybeUninit,
    time::{Duration, Instant},
};

/// What a run took.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// Bytes of the trace: in a ring, or in a file.
    pub(crate) bytes: u64,
}

/// When a load began.
#[derive(Debug)]
pub(crate) struct Began {
    at: Instant,
    cpu: Duration,
}

impl Began {
    pub(crate) fn now() -> Self {
        Self {
            cpu: cpu(),
            at: Instant::now(),
        }
    }

    /// The load is over. `finish` makes the trace whole, and returns its bytes.
    pub(crate) fn over<E>(self, finish: impl FnOnce() -> Result<u64, E>) -> Result<Figures, E> {
        let wall = self.at.elapsed();
        let bytes = finish()?;
        let cpu = cpu().saturating_sub(self.cpu);
        Ok(Figures { wall, cpu, bytes })
    }
}

/// CPU time of this process, of the user and of the system.
fn cpu() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: it writes one `rusage` to where the pointer shows, which has room for one.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    assert_eq!(result, 0, "it knows RUSAGE_SELF");
    // SAFETY: it has succeeded, so it has written all of it.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}
