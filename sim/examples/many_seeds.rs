//! What 10,000 seeds in one process leave in memory: `cargo xtask deep many-seeds`. The
//! example panics if the memory of the process grows.
#![allow(clippy::print_stdout, reason = "it is a program")]

#[cfg(target_os = "linux")]
fn main() {
    use std::{fs, io, time::Duration};

    use ws::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        time::{sleep, timeout},
    };
    use ws_sim::{FaultKind, Plan, secs};

    const SEEDS: u64 = 1_000;

    async fn server() -> io::Result<()> {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        loop {
            let (mut peer, _) = listener.accept().await?;
            ws::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(len @ 1..) = peer.read(&mut buffer).await {
                    let _ = ws::fs::write("last", &buffer[..len]).await;
                    let _ = peer.write_all(&buffer[..len]).await;
                }
            });
        }
    }

    async fn ask(of: &str) -> io::Result<()> {
        let mut stream = TcpStream::connect((of, 7)).await?;
        stream.write_all(b"hello").await?;
        stream.read_exact(&mut [0; 5]).await
    }

    /// Kilobytes of this process that are in memory.
    fn resident() -> u64 {
        let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
        number
            .and_then(|number| number.parse().ok())
            .expect("a number of kB")
    }

    let mut after = Vec::new();
    for part in 0..10 {
        ws_sim::check(part * SEEDS..(part + 1) * SEEDS, |sim| {
            for name in ["n0", "n1", "n2"] {
                sim.host(name, server);
            }
            sim.client("client", async {
                for round in 0..30 {
                    let of = ["n0", "n1", "n2"][round % 3];
                    let _ = timeout(secs(1), ask(of)).await;
                    sleep(Duration::from_millis(100)).await;
                }
            });
            let plan = Plan::new().weight(FaultKind::FailingDisk, 1).swarm();
            sim.faults(plan.every(secs(1)).quiet_after(secs(5)));
        });
        after.push(resident());
        println!("{} seeds: {} kB", (part + 1) * SEEDS, after[part as usize]);
    }
    // The allocator keeps some pages for each thread.
    assert!(after[9] < after[0] + 4_000, "it grows");
}

#[cfg(not(target_os = "linux"))]
fn main() {}
