//! The heuristics, each with a switch for `cargo xtask ablate`.
//!
//! In a shipped build a switch is the constant `true`, and costs nothing. In a build with
//! `--cfg ws_ablate` the variable `WS_WITHOUT` names those that are off, so that both sides of a
//! comparison run the same code. What each is worth, and what was dropped: `docs/decisions/`.

/// See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heuristic {
    /// Wakes a thread for a lone `runnext` while that pays; see *The wake back-off* in
    /// `sched/push.rs`. Without it: each time.
    WakeBackoff,
    /// The same for branches of joins; see *How many it promotes* in `fork_join/owner.rs`.
    ForkBackoff,
    /// Keeps a woken thread off the CPU of the thread that woke it; see `sched/affinity.rs`.
    Affinity,
    /// Takes the oldest tasks of a P that has not moved; see *The rescue steal* in `sched/find.rs`.
    RescueSteal,
    /// See *The exchange* in `sched/looks.rs`.
    Exchange,
    /// A spinner looks on for some microseconds before it parks; see `sched/search.rs`.
    SpinBeforePark,
    /// See *After a steal* in `fork_join/owner.rs`.
    AfterSteal,
    /// See *Contended calls* in `sched/contention.rs`.
    ContendedCalls,
    /// See *Timer slack* in `sched/wait.rs`.
    TimerSlack,
    /// See *Compute only* in `monitor/compute_only.rs`.
    ComputeOnly,
    /// See `policy/short_wait.rs`.
    ShortWait,
}

impl Heuristic {
    #[cfg(ws_ablate)]
    const NAMED: [(&'static str, Self); 11] = [
        ("wake-backoff", Self::WakeBackoff),
        ("fork-backoff", Self::ForkBackoff),
        ("affinity", Self::Affinity),
        ("rescue-steal", Self::RescueSteal),
        ("exchange", Self::Exchange),
        ("spin-before-park", Self::SpinBeforePark),
        ("after-steal", Self::AfterSteal),
        ("contended-calls", Self::ContendedCalls),
        ("timer-slack", Self::TimerSlack),
        ("compute-only", Self::ComputeOnly),
        ("short-wait", Self::ShortWait),
    ];

    #[cfg(not(ws_ablate))]
    #[inline(always)]
    pub(crate) const fn is_on(self) -> bool {
        let _ = self;
        true
    }

    /// Panics if the variable has a name that is none of these: a comparison without its subject
    /// would say nothing.
    #[cfg(ws_ablate)]
    pub(crate) fn is_on(self) -> bool {
        static OFF: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
            let names = std::env::var("WS_WITHOUT").unwrap_or_default();
            let bit = |name: &str| {
                let named = Heuristic::NAMED.iter().find(|named| named.0 == name);
                let (_, heuristic) = named.unwrap_or_else(|| panic!("no heuristic `{name}`"));
                1_u32 << *heuristic as u32
            };
            names.split(',').filter(|it| !it.is_empty()).map(bit).sum()
        });
        *OFF & 1 << self as u32 == 0
    }
}
