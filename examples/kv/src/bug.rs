//! Mistakes that a store like this one may have. Tests put them in, one at a time, to see how soon
//! they are found. A node without one has [`Bug::None`].

/// A mistake of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bug {
    /// No mistake.
    #[default]
    None,
    /// The vote is answered before its name is on the disk: an old vote may come back.
    VoteNotSynced,
    /// The log is acknowledged before it is on the disk: an fsync was left out.
    LogNotSynced,
    /// A snapshot counts as saved, and the log before it is deleted, a second before it is on the
    /// disk.
    SnapshotNotSynced,
    /// A node reads what it has if it believes that it leads, and asks nobody.
    ReadsFromOldLeader,
    /// A leader reads what it has for one second after a majority has confirmed it. The second is
    /// measured by the calendar.
    LeaseByCalendar,
    /// A request that a client asks again is done again.
    AppliedTwice,
    /// Reads see a write before a majority has it.
    AppliedBeforeCommit,
    /// A snapshot leaves out which requests of the clients were done.
    SnapshotForgetsClients,
    /// The end of a log that another leader has overruled is cut in memory, and not on the disk:
    /// after a restart it counts again.
    ConflictNotCut,
    /// What is committed is not on the disk: a leader that restarts reads what was before.
    CommitForgotten,
    /// The task that writes the log misses a wake-up if it comes in a certain moment.
    LostWakeUp,
    /// A node without a leader asks again and again for one, and lets no time pass.
    UnboundedRetry,
    /// A file gets its name before its bytes are on the disk.
    RenamedBeforeSync,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::VoteNotSynced,
        Self::LogNotSynced,
        Self::SnapshotNotSynced,
        Self::ReadsFromOldLeader,
        Self::LeaseByCalendar,
        Self::AppliedTwice,
        Self::AppliedBeforeCommit,
        Self::SnapshotForgetsClients,
        Self::ConflictNotCut,
        Self::CommitForgotten,
        Self::LostWakeUp,
        Self::UnboundedRetry,
        Self::RenamedBeforeSync,
    ];
}
