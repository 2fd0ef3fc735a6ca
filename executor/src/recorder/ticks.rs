//! Ticks: the time of a record, which becomes a time in nanoseconds when it is read.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "the counter of the processor is read by an intrinsic"
    )
)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::timer::Clock;

/// In a simulation, a time line that many runtimes share, and where it was when this one began.
#[cfg(any(test, feature = "sim"))]
type Line = std::sync::OnceLock<(super::timeline::Timeline, u64)>;
#[cfg(not(any(test, feature = "sim")))]
#[derive(Debug, Default)]
pub(crate) struct Line {}

/// Where ticks come from.
#[derive(Debug)]
pub(crate) enum Ticks {
    /// The processor's counter, which runs evenly.
    Counter {
        /// Both were read one after the other, when the runtime was built.
        begin: u64,
        begin_ns: u64,
        /// Nanoseconds of 2^32 ticks; 0 until they are known well enough.
        per_tick: AtomicU64,
    },
    /// The runtime's clock: a tick is a nanosecond.
    Clock(Line),
}

/// What the clock shows, or the time line.
#[cfg(any(test, feature = "sim"))]
fn shown(line: &Line, clock: &Clock) -> u64 {
    match line.get() {
        None => clock.now_ns(),
        Some((timeline, begin)) => timeline.next() - begin,
    }
}

#[cfg(not(any(test, feature = "sim")))]
fn shown(_: &Line, clock: &Clock) -> u64 {
    clock.now_ns()
}

/// How ticks become nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    begin_ns: u64,
    ticks: u64,
    ns: u64,
}

impl Ticks {
    pub(crate) fn new(clock: &Clock) -> Self {
        if !clock.is_virtual() && counter::is_even() {
            Self::Counter {
                begin: counter::read(),
                begin_ns: clock.now_ns(),
                per_tick: AtomicU64::new(0),
            }
        } else {
            Self::Clock(Line::default())
        }
    }

    /// From now on, times are those of a time line, which is at `begin`, and not those of a virtual
    /// clock.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn set_timeline(&self, timeline: &super::timeline::Timeline, begin: u64) {
        if let Self::Clock(place) = self {
            timeline.moves_to(begin);
            // It is set once, when the machine is made.
            let _ = place.set((timeline.clone(), begin));
        }
    }

    /// Ticks since the runtime was built.
    #[inline]
    pub(crate) fn now(&self, clock: &Clock) -> u64 {
        match self {
            // The counters of two cores may differ by a few ticks.
            Self::Counter { begin, .. } => counter::read().saturating_sub(*begin),
            Self::Clock(line) => shown(line, clock),
        }
    }

    /// No record has a later time so far.
    pub(crate) fn latest(&self, clock: &Clock) -> u64 {
        #[cfg(any(test, feature = "sim"))]
        if let Self::Clock(line) = self
            && let Some((timeline, begin)) = line.get()
        {
            return timeline.last().saturating_sub(*begin);
        }
        self.now(clock)
    }

    /// So many ticks in nanoseconds: for short spans, since the scale is that of a moment soon
    /// after the beginning.
    pub(crate) fn span_ns(&self, clock: &Clock, ticks: u64) -> u64 {
        let per_tick = match self {
            Self::Counter { per_tick, .. } => match per_tick.load(Relaxed) {
                0 => self.measure_tick(clock, per_tick),
                known => known,
            },
            Self::Clock(_) => 1 << 32,
        };
        ((u128::from(ticks) * u128::from(per_tick)) >> 32) as u64
    }

    /// How long a tick is, by all that have gone by. It is known well enough after a millisecond:
    /// the two readings of the clock are some 50 ns wrong.
    #[cold]
    fn measure_tick(&self, clock: &Clock, known: &AtomicU64) -> u64 {
        let scale = self.scale(clock);
        let per_tick = ((u128::from(scale.ns) << 32) / u128::from(scale.ticks.max(1))) as u64;
        if scale.ns >= 1_000_000 {
            known.store(per_tick, Relaxed);
        }
        per_tick
    }

    /// The scale as of now.
    pub(crate) fn scale(&self, clock: &Clock) -> Scale {
        match self {
            Self::Counter { begin_ns, .. } => Scale {
                begin_ns: *begin_ns,
                ticks: self.now(clock),
                ns: clock.now_ns().saturating_sub(*begin_ns),
            },
            Self::Clock(_) => Scale {
                begin_ns: 0,
                ticks: 1,
                ns: 1,
            },
        }
    }
}

impl Scale {
    /// The time of the runtime's clock, in nanoseconds.
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        let since = u128::from(ticks) * u128::from(self.ns) / u128::from(self.ticks.max(1));
        self.begin_ns.saturating_add(since as u64)
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::{path::Path, sync::LazyLock};

    use crate::kernel_file;

    /// Whether it runs at the same rate on all cores, in sleep as well. The kernel has tested that:
    /// if it does not, it takes another source.
    pub(super) fn is_even() -> bool {
        const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        static IS_EVEN: LazyLock<bool> = LazyLock::new(|| {
            kernel_file::read(Path::new(SOURCE)).is_ok_and(|source| source.trim() == "tsc")
        });
        *IS_EVEN
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: any processor of this architecture has the instruction.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    pub(super) fn is_even() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // Fails if the scale is upside down, begins elsewhere, or is that of another moment.
    #[test]
    fn ticks_become_nanoseconds() {
        let scale = Scale {
            begin_ns: 7,
            ticks: 3_000_000_000_000,
            ns: 1_000_000_000_000,
        };
        assert_eq!(scale.ns(0), 7);
        assert_eq!(scale.ns(3_000_000), 1_000_007);
        let none = Scale {
            begin_ns: 7,
            ticks: 0,
            ns: 0,
        };
        assert_eq!(none.ns(0), 7);
    }

    #[test]
    fn a_tick_lies_between_two_readings_of_the_clock() {
        let clock = Clock::real();
        let ticks = Ticks::new(&clock);
        for _ in 0..1000 {
            let before = clock.now_ns();
            let tick = ticks.now(&clock);
            let after = clock.now_ns();
            let ns = ticks.scale(&clock).ns(tick);
            // Two cores' counters, and the scale of a short time, may differ a little.
            let slack = 100_000;
            assert!(
                (before.saturating_sub(slack)..=after + slack).contains(&ns),
                "{before} {ns} {after}"
            );
        }
    }

    // Fails if the scale is upside down.
    #[test]
    fn a_span_is_as_long_as_the_scale_says() {
        let clock = Clock::real();
        let ticks = Ticks::new(&clock);
        let span_ns = 5_000_000;
        let begin = clock.now_ns();
        while clock.now_ns() < begin + span_ns {}
        let scale = ticks.scale(&clock);
        let span = ticks.span_ns(&clock, scale.ticks);
        let slack = scale.ns / 100;
        assert!(
            (scale.ns - slack..=scale.ns + slack).contains(&span),
            "{span}"
        );
    }

    // Fails if two records have one time, if one is earlier than the line, or if a clock moves it.
    #[test]
    fn a_time_line_goes_on_with_each_record_of_any_runtime() {
        let timeline = crate::recorder::timeline::Timeline::default();
        let clocks = [Clock::stopped(), Clock::stopped()];
        let ticks = clocks.each_ref().map(Ticks::new);
        ticks[0].set_timeline(&timeline, 0);
        // It was built a second later.
        ticks[1].set_timeline(&timeline, 1_000_000_000);
        clocks[0].advance(Duration::from_secs(3600));
        let times = [0, 1, 1, 0].map(|at| ticks[at].now(&clocks[at]));
        assert_eq!(times, [1_000_000_000, 100, 200, 1_000_000_300]);
        assert_eq!(ticks[1].latest(&clocks[1]), 300);
        timeline.moves_to(2_000_000_000);
        assert_eq!(ticks[1].now(&clocks[1]), 1_000_000_000);
    }

    #[test]
    fn a_virtual_clock_is_taken_as_it_is() {
        let clock = Clock::stopped();
        let ticks = Ticks::new(&clock);
        clock.advance(Duration::from_secs(5));
        let tick = ticks.now(&clock);
        assert_eq!(ticks.scale(&clock).ns(tick), 5_000_000_000);
        assert_eq!(ticks.span_ns(&clock, 5), 5);
    }
}
