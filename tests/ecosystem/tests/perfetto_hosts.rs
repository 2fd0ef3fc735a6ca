//! A recording of simulated hosts, read with Perfetto's own definitions of its format: a process
//! for each host, messages as arrows from one to the other, one order of time.
//!
//! It fails when two hosts share a track or a number, when a slice is not inside of the one around
//! it, when a message arrives before it leaves, and when what a host did before its crash goes on
//! after it.
#![cfg(target_os = "linux")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    time::Duration,
};

use perfetto_protos::{
    trace::Trace,
    trace_packet::{TracePacket, trace_packet::Data},
    track_event::{TrackEvent, track_event::Type},
};
use protobuf::Message;
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use ws_sim::Sim;

/// A track: its process, and the names from there on.
type Path = (String, String);

#[derive(Clone, Debug)]
struct Slice {
    path: Path,
    name: String,
    begin: u64,
    end: u64,
}

/// Where an arrow begins and ends: the track, what happens there, and when.
type Arrow = ((Path, String, u64), Option<(Path, String, u64)>);

#[derive(Default)]
struct Page {
    slices: Vec<Slice>,
    arrows: BTreeMap<u64, Arrow>,
}

impl Page {
    fn read(bytes: &[u8]) -> Self {
        let trace = Trace::parse_from_bytes(bytes).expect("it is a trace");
        let tracks = tracks(&trace);
        let mut names: HashMap<u32, HashMap<u64, String>> = HashMap::new();
        let mut processes: HashMap<u32, String> = HashMap::new();
        let mut events = Vec::new();
        for packet in &trace.packet {
            let sequence = packet.trusted_packet_sequence_id();
            let names = names.entry(sequence).or_default();
            if packet.sequence_flags() == 1 {
                names.clear();
            }
            for it in &packet.interned_data.event_names {
                names.insert(it.iid(), it.name().to_owned());
            }
            if let Some(Data::TrackEvent(event)) = &packet.data {
                let path = &tracks[&event.track_uuid()];
                // The events of a sequence are of one process.
                let process = processes.entry(sequence).or_insert_with(|| path.0.clone());
                assert_eq!(*process, path.0);
                let name = match event.has_name_iid() {
                    true => names[&event.name_iid()].clone(),
                    false => event.name().to_owned(),
                };
                events.push((packet.timestamp(), event, path, name));
            }
        }
        // As Perfetto sorts them: those of one time stay as they are.
        events.sort_by_key(|(time, ..)| *time);
        let mut page = Self::default();
        let mut open: HashMap<&Path, Vec<usize>> = HashMap::new();
        for (time, event, path, name) in events {
            page.event(time, event, (path, &name), open.entry(path).or_default());
        }
        assert!(open.values().all(Vec::is_empty), "all that began has ended");
        page
    }

    fn event(
        &mut self,
        time: u64,
        event: &TrackEvent,
        (path, name): (&Path, &str),
        open: &mut Vec<usize>,
    ) {
        let here = || (path.clone(), name.to_owned(), time);
        for &flow in &event.flow_ids {
            assert!(self.arrows.insert(flow, (here(), None)).is_none());
        }
        for flow in &event.terminating_flow_ids {
            let (_, end) = self.arrows.get_mut(flow).expect("it has begun before");
            assert!(end.replace(here()).is_none());
        }
        match event.type_() {
            Type::TYPE_SLICE_BEGIN => {
                open.push(self.slices.len());
                self.slices.push(Slice {
                    path: path.clone(),
                    name: name.to_owned(),
                    begin: time,
                    end: time,
                });
            }
            Type::TYPE_SLICE_END => {
                let slice = open.pop().expect("it has begun");
                self.slices[slice].end = time;
            }
            _ => {}
        }
    }

    fn on(&self, process: &str, track: &str) -> Vec<&Slice> {
        let slices = self.slices.iter();
        slices
            .filter(|slice| slice.path.0 == process && slice.path.1 == track)
            .collect()
    }
}

/// The tracks by their numbers. A track that is described twice is the same both times.
fn tracks(trace: &Trace) -> HashMap<u64, Path> {
    let mut tracks: HashMap<u64, Path> = HashMap::new();
    let mut pids = BTreeMap::new();
    for packet in &trace.packet {
        let Some(Data::TrackDescriptor(track)) = &packet.data else {
            continue;
        };
        let path = if track.has_parent_uuid() {
            let (process, parent) = &tracks[&track.parent_uuid()];
            (process.clone(), format!("{parent}/{}", track.name()))
        } else {
            let (pid, name) = (track.process.pid(), track.process.process_name());
            let before = pids.insert(pid, name.to_owned());
            assert!(before.is_none_or(|before| before == name));
            (name.to_owned(), String::new())
        };
        let before = tracks.insert(track.uuid(), path.clone());
        assert!(before.is_none_or(|before| before == path), "{path:?}");
    }
    tracks
}

async fn server() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    loop {
        let (mut peer, _) = listener.accept().await?;
        let _span = ws::trace::span("a request");
        let mut bytes = [0; 3];
        peer.read_exact(&mut bytes).await?;
        sleep(Duration::from_millis(10)).await;
        peer.write_all(&bytes).await?;
    }
}

async fn ask() -> io::Result<()> {
    let mut server = TcpStream::connect("server:7").await?;
    server.write_all(b"ask").await?;
    server.read_exact(&mut [0; 3]).await.map(drop)
}

/// A request that is answered, one in which the server crashes, and one after its restart.
fn recorded() -> Vec<u8> {
    let sim = Sim::builder().seed(7).workers(2).recording(true).build();
    sim.host("server", server);
    sim.client("client", async {
        let mut answers = Vec::new();
        for _ in 0..3 {
            let answer = timeout(Duration::from_millis(100), ask()).await;
            answers.push(matches!(answer, Ok(Ok(()))));
        }
        assert_eq!(answers, [true, false, true]);
    });
    sim.after(Duration::from_millis(15), |sim| {
        sim.crash("server");
        sim.after(Duration::from_millis(50), |sim| sim.restart("server"));
    });
    sim.try_run().unwrap();
    let mut bytes = Vec::new();
    let recording = sim.recording().expect("it was asked for");
    recording.write_perfetto(&mut bytes).unwrap();
    bytes
}

#[test]
fn hosts_are_processes_on_one_time_line() {
    let page = Page::read(&recorded());
    let processes: BTreeSet<_> = page.slices.iter().map(|slice| &*slice.path.0).collect();
    assert_eq!(processes, ["client", "network", "server"].into());
    let faults = page.on("network", "/network");
    let texts: Vec<_> = faults.iter().map(|slice| slice.name.as_str()).collect();
    assert_eq!(
        texts,
        ["host \"server\" crashed", "host \"server\" restarted"]
    );
    let [crash, restart] = [&faults[0], &faults[1]].map(|fault| fault.begin);
    assert_eq!([crash, restart], [15_000_000, 65_000_000]);
    // Nothing of the server is between the two, and there are slices before and after.
    let of_server = page.slices.iter().filter(|slice| slice.path.0 == "server");
    let (before, after): (Vec<_>, Vec<_>) = of_server.partition(|slice| slice.begin < restart);
    assert!(before.iter().all(|slice| slice.end <= crash));
    let polls = |slices: &[&Slice]| slices.iter().filter(|it| it.name == "main").count();
    assert!(polls(&before) > 2 && polls(&after) > 2);
    // The task of the first machine and that of the second have tracks of their own.
    let named = page
        .slices
        .iter()
        .filter(|slice| slice.path.0 == "server" && slice.path.1.starts_with("/main (task "));
    let named: BTreeSet<_> = named.map(|slice| &slice.path.1).collect();
    assert_eq!(named.len(), 4, "each with its spans: {named:?}");
}

#[test]
fn messages_are_arrows_from_host_to_host() {
    let page = Page::read(&recorded());
    let of_messages = page
        .arrows
        .values()
        .filter(|((path, ..), _)| path.1 == "/network");
    let mut ways = BTreeMap::new();
    for ((from, sent, left), end) in of_messages {
        let Some((to, got, arrived)) = end else {
            assert_eq!(from.0, "client", "the server alone crashes: {sent}");
            continue;
        };
        assert_ne!(from.0, to.0);
        // A link takes 100 us. What happens at one time is drawn with 0.1 us in between, so a host
        // that does much at one time seems to send later.
        let way = arrived - left;
        assert!((80_000..101_000).contains(&way), "{sent} {got} {way}");
        *ways
            .entry((sent.split(' ').next().unwrap(), from.0.as_str()))
            .or_insert(0) += 1;
    }
    // What is sent to a host that is down arrives nowhere.
    assert_eq!(ways[&("asked", "client")], 3);
    assert!(
        ways[&("sent", "client")] >= 3 && ways[&("sent", "server")] >= 2,
        "{ways:?}"
    );
    // A message leaves in the middle of the poll that sends it.
    let sent = page.on("client", "/network");
    let sent = sent
        .iter()
        .filter(|slice| slice.name.starts_with("sent 3 bytes"));
    let polls: Vec<_> = page
        .slices
        .iter()
        .filter(|slice| slice.name == "main")
        .collect();
    for message in sent {
        let is_around = |poll: &&&Slice| {
            poll.path.0 == "client" && poll.begin < message.begin && message.end < poll.end
        };
        assert_eq!(polls.iter().filter(is_around).count(), 1, "{message:?}");
    }
}

#[test]
fn what_a_machine_did_is_in_one_order() {
    let trace = Trace::parse_from_bytes(&recorded()).unwrap();
    let time = |packet: &TracePacket| match &packet.data {
        Some(Data::TrackEvent(event)) if event.type_() != Type::TYPE_SLICE_END => {
            Some((packet.timestamp(), event.track_uuid()))
        }
        _ => None,
    };
    let mut times: Vec<_> = trace.packet.iter().filter_map(time).collect();
    times.sort_unstable();
    let hosts = |track: u64| track >> 48;
    for pair in times.windows(2) {
        let [(one, first), (other, second)] = [pair[0], pair[1]];
        assert!(
            one < other || hosts(first) == hosts(second),
            "two hosts at {one}"
        );
    }
}
