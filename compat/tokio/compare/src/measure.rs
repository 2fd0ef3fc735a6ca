//! What is measured, and how.

use std::{
    fmt, fs,
    future::Future,
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep_until};

use crate::Result;

/// Before a measurement: connections are made, and threads started.
const WARM_UP: Duration = Duration::from_millis(300);

/// How often each time came, to within one part in 128.
#[derive(Debug, Default)]
pub struct Times {
    counts: Vec<u32>,
    total: u64,
}

impl Times {
    pub fn add(&mut self, time: Duration) {
        let index = Self::index(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.total += 1;
    }

    pub fn join(&mut self, others: &Self) {
        if self.counts.len() < others.counts.len() {
            self.counts.resize(others.counts.len(), 0);
        }
        for (count, other) in self.counts.iter_mut().zip(&others.counts) {
            *count += other;
        }
        self.total += others.total;
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// In µs.
    pub fn percentile(&self, percent: u64) -> f64 {
        let mut left = (self.total * percent).div_ceil(100);
        for (index, &count) in self.counts.iter().enumerate() {
            left = left.saturating_sub(count.into());
            if left == 0 {
                return Self::nanoseconds(index) / 1e3;
            }
        }
        0.0
    }

    /// Eight bits of the time, and how far they were shifted.
    fn index(nanoseconds: u64) -> usize {
        let shift = (u64::BITS - nanoseconds.leading_zeros()).saturating_sub(8);
        shift as usize * 128 + (nanoseconds >> shift) as usize
    }

    fn nanoseconds(index: usize) -> f64 {
        let shift = (index / 128).saturating_sub(1);
        let bits = index - shift * 128;
        (bits as u64).checked_shl(shift as u32).unwrap_or(u64::MAX) as f64
    }
}

/// The result of a row.
pub struct Numbers {
    pub per_second: f64,
    pub p50: f64,
    pub p99: f64,
    /// In µs.
    pub cpu_per_operation: f64,
    peak_kib: u64,
}

impl Numbers {
    /// `operations` in `time`, for which the process took `cpu`.
    pub fn new(
        operations: u64,
        time: Duration,
        cpu: Duration,
        [p50, p99]: [f64; 2],
    ) -> Result<Self> {
        if operations == 0 {
            return Err("nothing was done".into());
        }
        Ok(Self {
            per_second: operations as f64 / time.as_secs_f64(),
            p50,
            p99,
            cpu_per_operation: cpu.as_secs_f64() * 1e6 / operations as f64,
            peak_kib: peak_kib()?,
        })
    }

    pub fn of(times: &Times, time: Duration, cpu: Duration) -> Result<Self> {
        let percentiles = [50, 99].map(|percent| times.percentile(percent));
        Self::new(times.total(), time, cpu, percentiles)
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            per_second,
            p50,
            p99,
            cpu_per_operation,
            peak_kib,
        } = self;
        write!(
            f,
            "{per_second:.1} {p50:.1} {p99:.1} {cpu_per_operation:.2} {peak_kib}"
        )
    }
}

/// Each client is a task, which makes one call after another. What began in the warm-up does not
/// count.
pub async fn calls<C, F>(
    clients: impl IntoIterator<Item = C>,
    length: Duration,
    call: impl Fn(C) -> F + Copy + Send + 'static,
) -> Result<Numbers>
where
    C: Send + 'static,
    F: Future<Output = Result<C>> + Send + 'static,
{
    let start = Instant::now() + WARM_UP;
    let end = start + length;
    let mut tasks = JoinSet::new();
    for mut client in clients {
        tasks.spawn(async move {
            let mut times = Times::default();
            let mut began = Instant::now();
            while began < end {
                client = call(client).await?;
                let now = Instant::now();
                if began >= start {
                    times.add(now - began);
                }
                began = now;
            }
            Result::Ok(times)
        });
    }
    sleep_until(start.into()).await;
    let (began, cpu) = (Instant::now(), cpu());
    let mut all = Times::default();
    while let Some(times) = tasks.join_next().await {
        all.join(&times??);
    }
    Numbers::of(&all, began.elapsed(), self::cpu() - cpu)
}

/// The CPU time of this process until now.
pub fn cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to memory for an `rusage`.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    assert_eq!(answer, 0, "it fails for a wrong argument alone");
    // SAFETY: the call has filled it.
    let usage = unsafe { usage.assume_init() };
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

fn peak_kib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number.ok_or("no VmHWM")?.trim().parse()?)
}
