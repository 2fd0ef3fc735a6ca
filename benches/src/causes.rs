//! Why a row is lost: what was found by looking into it, and what would have to be given up to win it.
//!
//! The page has these words beside a row that a run lost, and that row alone; for the others it says that nobody has looked into
//! them. They are the only words on it that were written by hand.

/// A row, or, with a `*`, all whose names begin and end so; the peers that this is about; and the cause.
const CAUSES: &[(&str, &[&str], &str)] = &[
    (
        "sleeps_200k",
        &["tokio"],
        "A sleep here ends some tens of microseconds late, and a core is woken for it. tokio's clock ticks once a millisecond, so \
         its sleeps end a millisecond late and some 40 at a time: fewer wake-ups, which are most of the CPU here. The row shows \
         the lateness of both.",
    ),
    (
        "tokio_spawn_remote_busy2",
        &["smol"],
        "Each busy task spawns its successor, which runs next and goes on so for a slice of 10 ms before the queue has its turn \
         (F4, as in Go). smol has no place for the task that runs next, so its queue has a turn each time; for two tasks that \
         talk to each other (`ping_pong`, `request_reply`) that place is what makes them fast.",
    ),
    (
        "fifo_among_10k",
        &["go"],
        "A task that a timer wakes goes behind the 10,000 that wait already, in the order in which they came; Go runs it next, \
         before all of them. The row is there to show what a priority is good for: `urgent_among_10k` has one.",
    ),
    (
        "echo_1",
        &["smol"],
        "With one message under way there is nothing to do for a second core. smol takes more CPU and more switches for a message, \
         which the row shows, and answers sooner: its threads are mostly awake, and a sleeping core takes tens of \
         microseconds to wake here.",
    ),
    (
        "spawn_then_compute",
        &["smol"],
        "The child waits for a thread to wake. smol's are mostly awake: it switches four times as often for a spawn, and its 99th \
         percentile is the price of that; the row shows both.",
    ),
    (
        "echo_fork_join_2w",
        &["tokio-rayon"],
        "rayon has threads of its own, so the system takes a core from the computation after some 3 ms and gives it to the server. \
         Here one set of threads does both, and a computation gives way where it forks. The row shows how many joins a second \
         both came to.",
    ),
    (
        "join_*w",
        &["chili"],
        "chili offers thieves three branches, and of those beyond one in 64; the others are plain calls. Here every branch is \
         offered, so that a thief always gets the oldest (J1), which costs a few instructions for each.",
    ),
];

/// The cause for a row that was lost to a peer, if it is known.
pub(crate) fn of(row: &str, peer: &str) -> Option<&'static str> {
    let known = CAUSES
        .iter()
        .find(|(name, peers, _)| is_meant(name, row) && peers.contains(&peer));
    known.map(|(_, _, cause)| *cause)
}

fn is_meant(name: &str, row: &str) -> bool {
    match name.split_once('*') {
        None => name == row,
        Some((begin, end)) => row.starts_with(begin) && row.ends_with(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::SUBJECT;

    const PEERS: &[&str] = &["tokio", "smol", "chili", "tokio-rayon", "go"];

    #[test]
    fn each_cause_is_that_of_a_row() {
        let rows = crate::workloads::rows_of(SUBJECT).expect("it has rows");
        for (name, peers, _) in CAUSES {
            assert!(rows.iter().any(|row| is_meant(name, row.name)), "{name}");
            for peer in *peers {
                assert!(PEERS.contains(peer), "{peer}");
            }
        }
    }

    #[test]
    fn a_cause_is_about_a_row_and_a_peer() {
        assert!(of("echo_1", "smol").is_some());
        assert_eq!(of("echo_1", "tokio"), None);
        assert_eq!(of("echo_1000", "smol"), None);
        assert!(of("join_fib_1w", "chili").is_some());
        assert_eq!(of("join_stack", "chili"), None);
        assert_eq!(of("ring_1000", "smol"), None);
    }
}
