//! Tiny programs that depend on more than the seed, if the simulator lets them.
use std::{
    collections::HashMap,
    env, fs, io,
    net::UdpSocket,
    process,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::loads;
use crate::seam;

/// Such a program.
#[derive(Clone, Copy)]
pub enum Leak {
    HashMap,
    Instant,
    SystemTime,
    Getrandom,
    Select,
    Urandom,
    Thread,
    Sleep,
    Socket,
    Process,
    Address,
}

/// All of them, with their names and what they ask, as the table in `docs/simulation.md` has it.
pub const ALL: [(Leak, &str, &str); 11] = [
    (Leak::HashMap, "HashMap", "the order of 32 keys"),
    (
        Leak::Instant,
        "Instant",
        "how long a sleep of 7 ms took, by std",
    ),
    (Leak::SystemTime, "SystemTime", "the time of day"),
    (Leak::Getrandom, "getrandom", "8 bytes of the crate"),
    (
        Leak::Select,
        "select",
        "which branch of tokio's macro is first, 32 times",
    ),
    (Leak::Urandom, "urandom", "8 bytes of `/dev/urandom`"),
    (
        Leak::Thread,
        "thread",
        "the order in which 8 threads of std come",
    ),
    (
        Leak::Sleep,
        "sleep",
        "whether a sleep that blocks the thread takes simulated time",
    ),
    (Leak::Socket, "socket", "the port of a UDP socket of std"),
    (
        Leak::Process,
        "process",
        "the number of the process, and a variable of its environment",
    ),
    (Leak::Address, "address", "where a `Box` is in memory"),
];

/// What the program saw on a host, or that it could not run.
pub fn seen(leak: Leak, seed: u64) -> String {
    let told = Arc::new(Mutex::new(String::new()));
    let tells = told.clone();
    let mut setup = loads::setup((100, 5_000));
    setup.seed = seed;
    let program = async move {
        seam::sleep(Duration::from_millis(3)).await;
        let text = one(leak).await?;
        *tells.lock().unwrap() = text;
        Ok(())
    };
    setup.clients.push(("client".to_owned(), Box::pin(program)));
    match seam::run(setup) {
        Ok(()) => told.lock().unwrap().clone(),
        Err(_) => "refused".to_owned(),
    }
}

async fn one(leak: Leak) -> io::Result<String> {
    Ok(match leak {
        Leak::HashMap => {
            let map: HashMap<u32, ()> = (0..32).map(|key| (key, ())).collect();
            format!("{:?}", map.keys())
        }
        Leak::Instant => {
            let begin = Instant::now();
            seam::sleep(Duration::from_millis(7)).await;
            format!("{:?}", begin.elapsed())
        }
        Leak::SystemTime => format!("{:?}", SystemTime::now()),
        Leak::Getrandom => {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
            format!("{bytes:?}")
        }
        Leak::Select => branches().await,
        Leak::Urandom => {
            let mut bytes = [0; 8];
            io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
            format!("{bytes:?}")
        }
        Leak::Thread => threads(),
        Leak::Sleep => {
            let begin = seam::Instant::now();
            thread::sleep(Duration::from_millis(2));
            format!("{:?}", begin.elapsed())
        }
        Leak::Socket => {
            // A real one has a port of the machine.
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            format!("{}", socket.local_addr()?)
        }
        Leak::Process => format!("{} {:?}", process::id(), env::var("WS_RUN")),
        Leak::Address => format!("{:p}", Box::new(0)),
    })
}

/// Which branch of `tokio::select!` comes first, 32 times.
async fn branches() -> String {
    let mut text = String::new();
    for _ in 0..32 {
        tokio::select! {
            () = async {} => text.push('0'),
            () = async {} => text.push('1'),
        }
    }
    text
}

/// The order in which eight threads come.
fn threads() -> String {
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let sender = sender.clone();
            thread::spawn(move || sender.send((number, Instant::now())))
        })
        .collect();
    drop(sender);
    let text = format!("{:?}", receiver.iter().collect::<Vec<_>>());
    threads.into_iter().for_each(|thread| drop(thread.join()));
    text
}
