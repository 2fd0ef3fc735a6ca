//! Why a row is lost: what was found by looking into it, and what would have to be given up to win
//! it.
//!
//! The page has these words beside a row that a run lost, and that row alone; for the others it
//! says that nobody has looked into them. They and the notes of a run are the only words on it that
//! were written by hand.

const CHANNELS: &str = "Most of it is the channel. Go's and GHC's are parts of their runtimes, and hand a value to who waits; on the Rust \
     runtimes the row has async-channel. On one machine, slower than most, a question and its answer, two messages, took some 570 ns where \
     nothing was stolen, and some 300 in the same program with the channels of `futures`.";
const ALL_OFFERED: &str = "chili offers thieves three branches, and of those beyond one in 64; the others are plain calls. Here every \
     branch is offered, so that a thief always gets the oldest (J1), which costs a few instructions for each. And where the linker puts a \
     recursion makes up to a third: with the same instructions at different addresses `join_skynet_1w` took from 3.9 to 5.6 ms here, \
     chili 4.4 to 5.1.";
const NEIGHBOURS: &str = "Each message is small work, and wakes the next in line. On one machine \
     one core did that best (on another, which was idle, two were twice as fast for the same \
     CPU: [decisions/2026-11-29-cost-model.md](decisions/2026-11-29-cost-model.md)): with one \
     worker a number of `go_sieve` \
     took 137 ns here and 180 on tokio, with two 140 and 148, each for twice the CPU (medians of nine rounds), for what neighbours on two cores \
     hand over goes from cache to cache. A P with more than one task shares them at once (H2), and as a woken task runs next (F4), there \
     is mostly one to be had: in a sieve of 1,500 primes thieves took 1.2 tasks at a time, 2,000 times in 110 ms, on tokio 120 times. To let no \
     more than three or ten woken tasks run next in a row changed nothing beyond the spread; and the same build was behind in one hour and \
     ahead in another.";
const LONG_LEAVES: &str = "The leaves are long, so the price of a join is nothing, and all pools run the same code in them. What is left is the monitor, \
     which looks every four milliseconds where nothing else goes on: a look costs two computing cores some 30 us in a virtual machine.";
const MEMORY: &str = "Both cores wait for memory most of the time, and the first parts are one thread's work on every pool; so the pools differ by \
     less than two runs of one of them: rayon's time was 0.97 to 1.01 of this one's in four (medians of three rounds).";
const AT_REST: &str = "Where each byte and microsecond is, what was tried, and why the rest stays: \
     [decisions/2026-11-30-at-rest.md](decisions/2026-11-30-at-rest.md).";
const ONE_LOCK: &str = "kanal is one lock and two queues. Here eight senders are spread over two \
     cores, which take turns at that lock: 1.6 cores for a message, and 1.3 on tokio, whose woken \
     consumer stays with the sender that woke it. On another day it was 48 ns here and 45 there \
     ([channels.md](channels.md)).";
const IN_BUNCHES: &str = "There a tick or a message waits for hundreds of milliseconds behind the \
     blocked threads, and then all are answered in one go: the CPU time of a wake-up is that of a \
     hundred of them. Here each is answered when it is due.";
const SAME_WORK: &str = "1 % or less: nearly all of it is what the tasks compute.";
const COMPUTES_ON: &str = "There the computations have one core, since there is one worker. Here \
     the monitor gives the permit of a long computation to others, and it goes on without one, on \
     the second core: twice the work is done in the same time.";
const TWO_FREE: &str = "The tasks were allocated by a third thread. Two workers drop them at once, \
     and meet in the allocator's lock: with one worker a task took 99 ns and 137 ns of CPU in six \
     runs, with two 205 and 375, on smol 116 for both.";
/// A row, or, with a `*`, all whose names begin and end so; the peers that this is about; and the
/// cause.
const CAUSES: &[(&str, &[&str], &str)] = &[
    (
        "tokio_spawn_remote_busy2",
        &["smol"],
        "Each busy task spawns its successor, which runs next. The queue has its turn after some \
         150 us (F4). smol has no place for the task that runs next, so its queue has a turn each \
         time: 0.84 us beside 1.29 here in seven rounds on 2026-11-29. Two tasks that talk to each \
         other (`ping_pong`, `request_reply`) are fast because of that place.",
    ),
    (
        "echo_1",
        &["smol", "go"],
        "With one message under way there is nothing to do for a second core. smol and Go take more CPU and more switches for a message, \
         which the row shows, and answer sooner: their threads are mostly awake, and a sleeping core takes tens of \
         microseconds to wake here.",
    ),
    (
        "ghc_chan",
        &["tokio", "tokio-main"],
        "The writer never waits, so it could send all in one poll. Here a second worker takes the reader at once, and two cores work on \
         one channel, each message for more than it costs on one core. tokio runs a woken task next on the same thread and lets nobody \
         take it, so the reader begins when the writer has ended, and the channel holds all messages until then: the row shows \
         one core and three times the memory. In `spawn_then_compute` the same makes a child wait for 5 ms.",
    ),
    ("ghc_chan", &["go", "ghc"], CHANNELS),
    ("fan_in_1M", &["go"], CHANNELS),
    ("ping_pong_1000", &["go"], CHANNELS),
    ("ring_1000", &["go"], CHANNELS),
    ("go_ping_pong_hog", &["go"], CHANNELS),
    (
        "call_foreign_1",
        &["smol"],
        "34 and 33 ns, and smol's second thread is awake meanwhile: it takes twice the CPU time. \
         In the run of 2026-11-22 it was 33 ns here and 37 on smol.",
    ),
    (
        "wake_foreign",
        &["tokio"],
        "10.5 and 9.9 us. A thread that sleeps is kept off the CPU of the thread that wakes it: \
         that costs 5 % here, and makes the 99th percentile of `spawn_then_compute` 2.7 times \
         shorter ([decisions/2026-11-24-heuristics.md](decisions/2026-11-24-heuristics.md)).",
    ),
    ("ghc_threads007", &["smol"], TWO_FREE),
    ("shutdown_1M", &["smol"], TWO_FREE),
    ("start_and_end", &["tokio", "smol"], AT_REST),
    ("parked_1M", &["smol"], AT_REST),
    (
        "connections_1000",
        &["smol"],
        "One byte: smol's task is smaller by 24, for it has no account of what it did.",
    ),
    ("channel_8_to_1_kanal", &["tokio", "smol"], ONE_LOCK),
    (
        "channel_1_to_1_crossfire",
        &["smol"],
        "smol takes a second core for it: 21 ns of CPU here, and 34 there.",
    ),
    (
        "channel_pairs_crossfire",
        &["tokio"],
        "2 %. Nearly all of it is the channel: with the others the row takes a tenth of the time.",
    ),
    (
        "echo_1000",
        &["tokio"],
        "5 %, with a tail of 19 ms for its 29. The client is a third thread on two cores, and the \
         second worker is woken for half of what a look at the netpoll brings: that shortens the \
         tail, and costs 0.35 us of CPU a message.",
    ),
    (
        "ticks_computing_100_8w",
        &["smol"],
        "Two of eight threads compute on both cores, so it is the system that says when a third \
         one has a core: from 0.5 to 4.1 ms here in five rounds, and from 0.1 to 2.9 on smol.",
    ),
    ("request_reply_block_on", &["go"], CHANNELS),
    ("ghc_threads003", &["go", "ghc"], CHANNELS),
    ("go_sieve", &["go"], CHANNELS),
    (
        "echo_blocked_*w",
        &["go"],
        "Go is told of each system call when it begins, and gives the P away after 20 us. Here a task may block in any library, and the \
         monitor finds out by two looks at its thread's CPU clock.",
    ),
    (
        "spawn_then_compute",
        &["smol"],
        "The child waits for a thread to wake. smol's are mostly awake: it switches four times as often for a spawn, and takes more CPU, \
         which the row shows.",
    ),
    (
        "echo_fork_join_2w",
        &["tokio-rayon"],
        "rayon has threads of its own, so the system takes a core from the computation after some 3 ms and gives it to the server. \
         Here one set of threads does both, and a computation gives way where it forks. The row shows how many joins a second \
         both came to.",
    ),
    (
        "ghc_sieve",
        &["smol", "tokio", "tokio-main"],
        "The computations are the same machine code for all, and with one worker all take the same. With two it depends on which of them both cores have \
         at a time: smol's one queue gives them neighbours, which take nearly the same branches, and here the workers are in different halves. Where all \
         computations were one and the same, the two were within 2 %. tokio's order was not looked at.",
    ),
    (
        "fan_in_1M",
        &["tokio", "tokio-main"],
        "Within what runs differ by: in seven rounds later it was 62 ns here and 69 on tokio, and with an older build 70 and 61.",
    ),
    (
        "tokio_spawn_remote_busy1",
        &["smol"],
        "Three threads want two cores: two workers, one of which has a task that always wants to go on, and the one that spawns. So it depends on \
         whom the system lets run: in two runs later it was 420 and 394 ns here, and 361 and 399 on smol.",
    ),
    (
        "go_wakeup_spin_50us",
        &["smol"],
        "Within what runs differ by: in two others it was 166 and 181 us here, and 169 and 178 on smol.",
    ),
    ("join_fib_*w", &["chili"], ALL_OFFERED),
    ("join_skynet_*w", &["chili"], ALL_OFFERED),
    (
        "echo_blocked_8w",
        &["tokio", "tokio-handoff"],
        "Within what runs differ by: 51 and 79 us on tokio in one, 74 and 57 in the next. It had been behind while the monitor read a file for \
         each blocked thread at each look; without that a message takes 23 us of CPU and not 35, tokio's 18. What is left is one more look at \
         the netpoll before a thread waits there.",
    ),
    (
        "ticks_computing_*_8w",
        &["tokio", "tokio-handoff"],
        "Two of eight threads compute on both cores, so all depends on when the system gives a third one a core. tokio's clock counts whole \
         milliseconds: it wakes a quarter as often, for a bunch of ticks, all of them late by 1 ms in the median; here a thread wakes for each, \
         which is late by 11 us in the median, and now and then has to wait for its core.",
    ),
    (
        "join_quicksort_1w",
        &["chili"],
        "It waits for memory: in the run that had this, plain calls took 268 ms in this one's process and 197 in chili's.",
    ),
    (
        "echo_computing_*_8w",
        &["tokio", "tokio-handoff", "smol", "go"],
        "Two of eight threads compute on both cores, so it is the system that says when the third one has a core, and all runtimes are within \
         what runs differ by: in seven rounds later `echo_computing_300_8w` was 2.0 ms here and 2.6 on tokio.",
    ),
    (
        "echo_64",
        &["tokio"],
        "The client is a third thread on two cores, and much depends on who shares one with it: with the same code it was 6.6 us here and 7.4 \
         on tokio a day before, and 7.9 and 7.3 in nine rounds after this run. Where it is behind, threads wait twice as often for a message: \
         the second worker is woken for half of what a look at the netpoll brings, and has soon done it.",
    ),
    (
        "sleeps_200k",
        &["tokio"],
        "The machine was slow in that part of the run, for all. In seven rounds later it was 2.1 us here and 2.4 on tokio.",
    ),
    (
        "join_matmul_1w",
        &["chili"],
        "The same machine code for nearly all of the time, which differs from process to process: plain calls took from 258 to 277 ms in one run.",
    ),
    ("join_uts_*w", &["chili"], ALL_OFFERED),
    ("join_matmul_2w", &["rayon"], LONG_LEAVES),
    ("join_quicksort_2w", &["rayon"], MEMORY),
    ("join_mergesort_2w", &["rayon"], MEMORY),
    ("go_sieve", &["tokio", "tokio-main"], NEIGHBOURS),
    ("ghc_threads003", &["tokio", "tokio-main"], NEIGHBOURS),
];

/// The same for rows that take more CPU time than a peer's.
const CPU_CAUSES: &[(&str, &[&str], &str)] = &[
    ("ping_pong_1000", &["go"], CHANNELS),
    ("ring_1000", &["go"], CHANNELS),
    ("fan_in_1M", &["go"], CHANNELS),
    ("request_reply_block_on", &["go"], CHANNELS),
    ("go_ping_pong_hog", &["go"], CHANNELS),
    ("go_sieve", &["go"], CHANNELS),
    ("ghc_chan", &["go", "ghc"], CHANNELS),
    ("ghc_threads003", &["go", "ghc"], CHANNELS),
    (
        "ghc_chan",
        &["tokio", "tokio-main"],
        "Two cores work on one channel, and on tokio one does: see the row's time above.",
    ),
    ("go_sieve", &["tokio"], NEIGHBOURS),
    (
        "tokio_spawn_remote_busy2",
        &["smol"],
        "Two tasks that always go on are polled until the queue has its turn: see the row's time \
         above.",
    ),
    (
        "spawn_then_compute",
        &["tokio"],
        "Nearly all of it is what the task computes. Here a second thread is woken for the child, \
         which begins after 51 us; on tokio the child waits until the computation is over, 5 ms.",
    ),
    (
        "go_wakeup_*_50us",
        &["tokio", "tokio-main", "smol"],
        "A second worker is woken for what waits, so an operation takes 7 to 23 % less time than \
         on tokio, for 9 to 11 % more CPU time.",
    ),
    (
        "ghc_sieve",
        &["tokio", "smol"],
        "1 %. The computations are the same machine code for all.",
    ),
    ("ghc_threads007", &["smol"], TWO_FREE),
    ("shutdown_1M", &["smol"], TWO_FREE),
    (
        "*_among_10k",
        &["go"],
        "The 10,000 tasks compute until the last message has come, so the CPU time of a message is \
         theirs until the next one: some 2.2 ms on each core. Why it is that of one core in Go was \
         not looked into.",
    ),
    (
        "tickers_100x5ms",
        &["tokio"],
        "tokio's clock counts whole milliseconds: it wakes up for several ticks at once, all of \
         them late by 1.4 ms in the median. Here a thread wakes for each, which is late by 38 us.",
    ),
    (
        "ticks_blocked_*w",
        &["tokio", "tokio-handoff", "smol", "go"],
        IN_BUNCHES,
    ),
    (
        "echo_blocked_*w",
        &["tokio", "tokio-handoff", "smol"],
        IN_BUNCHES,
    ),
    ("ticks_computing_*_8w", &["smol", "go"], SAME_WORK),
    (
        "echo_computing_*_8w",
        &["tokio", "tokio-handoff", "smol", "go"],
        SAME_WORK,
    ),
    (
        "ticks_computing_*_1w",
        &["tokio", "tokio-handoff", "smol", "go"],
        COMPUTES_ON,
    ),
    (
        "echo_computing_*_1w",
        &["tokio", "tokio-handoff", "smol", "go"],
        COMPUTES_ON,
    ),
    (
        "echo_64",
        &["tokio"],
        "4 %: the second worker is woken for half of what a look at the netpoll brings.",
    ),
    (
        "echo_1000",
        &["tokio"],
        "The second worker is woken for half of what a look at the netpoll brings: see the row's \
         time above.",
    ),
    (
        "channel_pairs_crossfire",
        &["tokio"],
        "3 %. Nearly all of it is the channel: with the others the row takes a tenth of the time.",
    ),
    ("channel_8_to_1_kanal", &["tokio", "smol"], ONE_LOCK),
    ("start_and_end", &["tokio", "smol"], AT_REST),
];

/// The cause for a row that was lost to a peer, if it is known.
pub(crate) fn of(row: &str, peer: &str) -> Option<&'static str> {
    found(CAUSES, row, peer)
}

/// The same for a row that takes more CPU time.
pub(crate) fn of_cpu(row: &str, peer: &str) -> Option<&'static str> {
    found(CPU_CAUSES, row, peer)
}

fn found(causes: &'static [(&str, &[&str], &str)], row: &str, peer: &str) -> Option<&'static str> {
    let known = causes
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

    const PEERS: &[&str] = &[
        "tokio",
        "tokio-main",
        "tokio-handoff",
        "smol",
        "rayon",
        "chili",
        "tokio-rayon",
        "go",
        "ghc",
    ];

    #[test]
    fn each_cause_is_that_of_a_row() {
        let rows = crate::workloads::rows_of(SUBJECT).expect("it has rows");
        for (name, peers, _) in CAUSES.iter().chain(CPU_CAUSES) {
            assert!(rows.iter().any(|row| is_meant(name, row.name)), "{name}");
            for peer in *peers {
                assert!(PEERS.contains(peer), "{peer}");
            }
        }
    }

    #[test]
    fn a_cause_is_about_a_row_and_a_peer() {
        assert!(of_cpu("echo_64", "tokio").is_some());
        assert_eq!(of_cpu("echo_1", "smol"), None);
        assert!(of("echo_1", "smol").is_some());
        assert_eq!(of("echo_1", "tokio"), None);
        assert_eq!(of("echo_1000", "smol"), None);
        assert!(of("join_fib_1w", "chili").is_some());
        assert_eq!(of("join_stack", "chili"), None);
        assert_eq!(of("ring_1000", "smol"), None);
    }
}
