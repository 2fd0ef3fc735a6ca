//! Each kind of fault that a plan can have is planted, does what it says, does nothing else, and is
//! over in time.
//!
//! Three hosts tell each other numbers, use their disks and look at their clocks. What they notice
//! is a set of [`Effect`]s. For a plan of one kind it has to be the set of that kind.
#![cfg(target_os = "linux")]

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs, io,
    io::Write,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use ws::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream, UdpSocket},
    time::sleep,
};
use ws_sim::{FaultKind, Plan, Sim, millis, secs};

const HOSTS: [&str; 3] = ["n0", "n1", "n2"];

/// From one round of a host to the next.
const TICK: Duration = Duration::from_millis(50);

/// So many datagrams in a row were not lost by chance: at most half of them are.
const CUT: usize = 15;

/// So few were lost by chance.
const FEW: usize = 3;

/// All faults are over.
const QUIET: Duration = Duration::from_secs(12);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// One host began again.
    Restarts,
    /// All hosts began again at the same time.
    AllRestart,
    /// Destructors of its program have run.
    Drops,
    /// A host told a peer of the end of their connection.
    SaysGoodbye,
    /// A host did nothing for more than half a second.
    StandsStill,
    /// No datagram came from one host to another for a while, nor back.
    CutBothWays,
    /// The way back went on.
    CutOneWay,
    /// Some datagrams were lost among others.
    Loses,
    /// A datagram took 60 ms or more.
    Late,
    /// A datagram took 700 ms or more.
    VeryLate,
    /// The calendar is not what the monotonic clock makes of the first date.
    Calendar,
    /// The monotonic clock went otherwise than the true time.
    Jumps,
    /// Ten polls took 5 ms or more.
    SlowSteps,
    /// A sync took 5 to 600 ms.
    SlowSync,
    Eio,
    Enospc,
}

use Effect::*;

/// What each kind does. A host that is down gets no datagram and sends none.
fn effects(kind: FaultKind) -> &'static [Effect] {
    match kind {
        FaultKind::Crash => &[Restarts, Drops, CutOneWay],
        FaultKind::HardCrash => &[Restarts, CutOneWay],
        FaultKind::Kill => &[Restarts, Drops, SaysGoodbye, CutOneWay],
        FaultKind::PowerCut => &[AllRestart, Drops],
        FaultKind::Pause => &[StandsStill, Late, VeryLate],
        FaultKind::Partition => &[CutBothWays],
        FaultKind::OneWay => &[CutOneWay],
        FaultKind::Hold => &[Late, VeryLate],
        FaultKind::SlowLink => &[Late],
        FaultKind::LossyLink => &[Loses],
        FaultKind::Clock => &[Calendar],
        FaultKind::Jump => &[Jumps],
        FaultKind::SlowHost => &[SlowSteps, SlowSync],
        FaultKind::SlowDisk => &[SlowSync],
        FaultKind::FailingDisk => &[Eio],
        FaultKind::FullDisk => &[Enospc],
        other => panic!("add what {other:?} does"),
    }
}

const KINDS: [FaultKind; 16] = [
    FaultKind::Crash,
    FaultKind::HardCrash,
    FaultKind::Kill,
    FaultKind::PowerCut,
    FaultKind::Pause,
    FaultKind::Partition,
    FaultKind::OneWay,
    FaultKind::Hold,
    FaultKind::SlowLink,
    FaultKind::LossyLink,
    FaultKind::Clock,
    FaultKind::Jump,
    FaultKind::SlowHost,
    FaultKind::SlowDisk,
    FaultKind::FailingDisk,
    FaultKind::FullDisk,
];

/// What the hosts have noticed, and when.
#[derive(Default)]
struct Seen {
    effects: Vec<(Effect, Duration)>,
    /// Times of starts after the first one.
    restarts: Vec<Duration>,
    /// For each way: when a datagram left, and whether it came.
    sent: BTreeMap<(usize, usize), Vec<(Duration, bool)>>,
}

impl Seen {
    /// What was noticed, with what follows from the datagrams and the starts.
    fn all(&self) -> Vec<(Effect, Duration)> {
        let mut all = self.effects.clone();
        for at in &self.restarts {
            let same = self.restarts.iter().filter(|other| *other == at).count();
            all.push((
                if same == HOSTS.len() {
                    AllRestart
                } else {
                    Restarts
                },
                *at,
            ));
        }
        for (way, sent) in &self.sent {
            // What was sent last is under way.
            let sent = &sent[..sent.len() - 1];
            let runs = sent.chunk_by(|a, b| a.1 == b.1).filter(|run| !run[0].1);
            for run in runs {
                let (begin, end) = (run[0].0, run[run.len() - 1].0);
                let back = &self.sent[&(way.1, way.0)];
                let within = |at: &&(Duration, bool)| at.0 > begin + TICK && at.0 + TICK < end;
                // Nothing is sent by a host that is down.
                let goes_on = back.iter().filter(within).all(|(_, came)| *came);
                let effect = match run.len() {
                    ..=FEW => Loses,
                    CUT.. if goes_on => CutOneWay,
                    CUT.. => CutBothWays,
                    _ => continue, // A fault that was cut short, or much bad luck.
                };
                all.push((effect, begin));
            }
        }
        all
    }
}

struct Guard {
    sim: Sim,
    seen: Rc<RefCell<Seen>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let now = self.sim.elapsed();
        self.seen.borrow_mut().effects.push((Drops, now));
    }
}

async fn node(me: usize, sim: Sim, seen: Rc<RefCell<Seen>>) -> io::Result<()> {
    if sim.elapsed() > Duration::ZERO {
        seen.borrow_mut().restarts.push(sim.elapsed());
    }
    let _guard = Guard {
        sim: sim.clone(),
        seen: seen.clone(),
    };
    ws::spawn_local(greet(HOSTS[(me + 1) % HOSTS.len()]));
    ws::spawn_local(hear(sim.clone(), seen.clone()));
    let socket = Rc::new(UdpSocket::bind("0.0.0.0:7").await?);
    ws::spawn_local(disk(sim.clone(), seen.clone()));
    ws::spawn_local(receive(me, socket.clone(), sim.clone(), seen.clone()));
    let note = |effect| seen.borrow_mut().effects.push((effect, sim.elapsed()));
    let first = (Instant::now(), SystemTime::now());
    let mut last = (sim.elapsed(), first.0);
    loop {
        sleep(TICK).await;
        let now = (sim.elapsed(), Instant::now());
        let (passed, shown) = (now.0 - last.0, now.1 - last.1);
        if passed > millis(500) {
            note(StandsStill);
        }
        if shown.abs_diff(passed) > millis(1) {
            note(Jumps);
        }
        let dated = SystemTime::now()
            .duration_since(first.1)
            .unwrap_or_default();
        if dated.abs_diff(now.1 - first.0) > millis(1) {
            note(Calendar);
        }
        for _ in 0..10 {
            ws::task::yield_now().await;
        }
        if sim.elapsed() - now.0 >= millis(5) {
            note(SlowSteps);
        }
        last = (sim.elapsed(), Instant::now());
        for (to, name) in HOSTS.iter().enumerate().filter(|(to, _)| *to != me) {
            let number = {
                let mut seen = seen.borrow_mut();
                let sent = seen.sent.entry((me, to)).or_default();
                sent.push((sim.elapsed(), false));
                sent.len() - 1
            };
            let text = [me.to_le_bytes(), number.to_le_bytes()].concat();
            socket.send_to(&text, format!("{name}:7")).await?;
        }
    }
}

/// Keeps a connection to a host, and says nothing.
async fn greet(host: &str) {
    loop {
        sleep(TICK).await;
        if let Ok(mut stream) = TcpStream::connect((host, 8)).await {
            let _ = stream.read(&mut [0]).await;
        }
    }
}

async fn hear(sim: Sim, seen: Rc<RefCell<Seen>>) -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:8").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let (sim, seen) = (sim.clone(), seen.clone());
        ws::spawn_local(async move {
            if let Ok(0) = stream.read(&mut [0]).await {
                seen.borrow_mut().effects.push((SaysGoodbye, sim.elapsed()));
            }
        });
    }
}

async fn receive(me: usize, socket: Rc<UdpSocket>, sim: Sim, seen: Rc<RefCell<Seen>>) {
    let mut text = [0; 16];
    while socket.recv_from(&mut text).await.is_ok() {
        let [from, number] = [0, 8].map(|at| text[at..at + 8].try_into().unwrap());
        let way = (usize::from_le_bytes(from), me);
        let mut seen = seen.borrow_mut();
        let sent = &mut seen.sent.get_mut(&way).unwrap()[usize::from_le_bytes(number)];
        sent.1 = true;
        let took = sim.elapsed() - sent.0;
        for (effect, least) in [(Late, 60), (VeryLate, 700)] {
            if took >= millis(least) {
                seen.effects.push((effect, sim.elapsed()));
            }
        }
    }
}

async fn disk(sim: Sim, seen: Rc<RefCell<Seen>>) {
    let note = |effect| seen.borrow_mut().effects.push((effect, sim.elapsed()));
    loop {
        sleep(TICK).await;
        let before = sim.elapsed();
        let written = ws::spawn_blocking(|| {
            let mut file = fs::File::create("log")?;
            file.write_all(b"some bytes")?;
            file.sync_all()
        });
        match written.await.unwrap().map_err(|error| error.raw_os_error()) {
            Ok(()) if (5..600).contains(&(sim.elapsed() - before).as_millis()) => note(SlowSync),
            Ok(()) => {}
            Err(Some(libc::EIO)) => note(Eio),
            Err(Some(libc::ENOSPC)) => note(Enospc),
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Runs with a plan. What was noticed, with the times.
fn run(seed: u64, plan: Option<Plan>) -> Vec<(Effect, Duration)> {
    let sim = Sim::new(seed);
    let seen = Rc::new(RefCell::new(Seen::default()));
    for (me, name) in HOSTS.into_iter().enumerate() {
        let (of_host, seen) = (sim.clone(), seen.clone());
        sim.host(name, move || node(me, of_host.clone(), seen.clone()));
    }
    let noticed = Rc::new(RefCell::new(Vec::new()));
    let (at_end, seen) = (noticed.clone(), seen);
    sim.client("client", async move {
        sleep(QUIET + secs(5)).await;
        *at_end.borrow_mut() = seen.borrow().all();
    });
    let has_plan = plan.is_some();
    plan.into_iter().for_each(|plan| sim.faults(plan));
    sim.try_run().unwrap();
    assert_eq!(sim.planned_faults().len() > 3, has_plan);
    noticed.take()
}

#[test]
fn each_kind_of_fault_is_planted_and_does_what_it_says_alone() {
    for kind in KINDS {
        let plan = Plan::new().only([kind]).quiet_after(QUIET).every(secs(1));
        let plan = plan.lasts(secs(1), millis(1_500));
        // Two that are down at once would look as if the way between them were cut.
        let plan = match kind {
            FaultKind::PowerCut => plan,
            _ => plan.most_down(1),
        };
        let noticed = run(1, Some(plan));
        let found: BTreeSet<Effect> = noticed.iter().map(|(effect, _)| *effect).collect();
        let wanted: BTreeSet<Effect> = effects(kind).iter().copied().collect();
        assert_eq!(found, wanted, "{kind:?}: {noticed:?}");
        let late = noticed.iter().find(|(_, at)| *at > QUIET + secs(1));
        assert_eq!(late, None, "{kind:?}");
    }
}

#[test]
fn without_faults_nothing_is_noticed() {
    let noticed = run(1, None);
    assert_eq!(noticed, []);
}
