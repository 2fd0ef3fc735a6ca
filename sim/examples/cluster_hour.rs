//! How long an hour of a cluster takes: five hosts that send each other heartbeats each 50 ms over
//! TCP. `cargo run --release -p ws-sim --example cluster_hour`.
#![allow(clippy::print_stdout, reason = "it is a program")]

#[cfg(target_os = "linux")]
fn main() {
    use std::{
        io,
        time::{Duration, Instant},
    };

    use ws::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        time::sleep,
    };

    async fn node() -> io::Result<()> {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        for peer in 0..5 {
            ws::spawn(async move {
                sleep(Duration::from_millis(10)).await;
                let mut stream = TcpStream::connect(format!("n{peer}:7")).await?;
                loop {
                    stream.write_all(b"heartbeat").await?;
                    stream.read_exact(&mut [0; 2]).await?;
                    sleep(Duration::from_millis(50)).await;
                }
                #[allow(unreachable_code)]
                io::Result::Ok(())
            });
        }
        loop {
            let (mut peer, _) = listener.accept().await?;
            ws::spawn(async move {
                loop {
                    peer.read_exact(&mut [0; 9]).await?;
                    peer.write_all(b"ok").await?;
                }
                #[allow(unreachable_code)]
                io::Result::Ok(())
            });
        }
    }

    let sim = ws_sim::Sim::new(1);
    for n in 0..5 {
        sim.host(format!("n{n}"), node);
    }
    sim.client("watch", async { sleep(Duration::from_secs(3600)).await });
    let begin = Instant::now();
    sim.try_run().expect("it ends");
    let took = begin.elapsed();
    println!(
        "{:?} simulated in {took:?}: {} steps, {:.0} a second",
        sim.elapsed(),
        sim.events(),
        sim.events() as f64 / took.as_secs_f64(),
    );
}

#[cfg(not(target_os = "linux"))]
fn main() {}
