//! The planted bugs.

/// A mistake in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// A leader tells the client that a write is done before another node has it.
    AckBeforeCommit,
    /// A request that is asked again is done again.
    AppliedTwice,
    /// The timer of an election goes on after the election is won.
    TimerNotCancelled,
    /// A node that lost its leader answers with the state of its own.
    ReadsFromOldLeader,
    /// A follower takes entries from a leader of an older term.
    OldTermAccepted,
    /// A follower answers before its entries are on its disk.
    LogNotSynced,
    /// A leader counts its own entry before it is on its disk.
    LeaderCountsUnsynced,
    /// A vote is answered before it is on the disk.
    VoteNotSynced,
    /// A vote goes to a candidate with an older log.
    ShorterLogWins,
    /// A candidate counts votes for its earlier term.
    VotesOfOldTerm,
    /// A candidate does not look again at its term after it waited for its disk.
    StaleCandidate,
    /// Entries that come late cut off what came before them: messages are taken to be in order.
    CutsAlways,
    /// A leader commits entries of older terms by counting copies (figure 8 of the paper on raft).
    CommitsOldTerm,
    /// A request listens for its answer only after a wait: the wake-up may be over.
    LostWakeUp,
    /// Each request that failed is asked again by one more task.
    UnboundedRetry,
}

impl Bug {
    pub const ALL: [Self; 15] = [
        Self::AckBeforeCommit,
        Self::AppliedTwice,
        Self::TimerNotCancelled,
        Self::ReadsFromOldLeader,
        Self::OldTermAccepted,
        Self::LogNotSynced,
        Self::LeaderCountsUnsynced,
        Self::VoteNotSynced,
        Self::ShorterLogWins,
        Self::VotesOfOldTerm,
        Self::StaleCandidate,
        Self::CutsAlways,
        Self::CommitsOldTerm,
        Self::LostWakeUp,
        Self::UnboundedRetry,
    ];

    /// The bug of that name.
    pub fn named(name: &str) -> Option<Self> {
        let all = Self::ALL.into_iter().chain([Self::None]);
        all.into_iter().find(|bug| format!("{bug:?}") == name)
    }
}
