//! How many steps a second a simulation makes: an echo over TCP. `cargo run --release -p ws-sim
//! --example echo_speed`.
#![allow(clippy::print_stdout, reason = "it is a program")]

#[cfg(target_os = "linux")]
fn main() {
    use std::{io, time::Instant};

    use ws::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    const ROUNDS: u32 = 200_000;

    let sim = ws_sim::Sim::new(1);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:7").await?;
        let (mut peer, _) = listener.accept().await?;
        let mut buffer = [0; 64];
        while let len @ 1.. = peer.read(&mut buffer).await? {
            peer.write_all(&buffer[..len]).await?;
        }
        io::Result::Ok(())
    });
    sim.client("client", async {
        let mut stream = TcpStream::connect("server:7").await?;
        for _ in 0..ROUNDS {
            stream.write_all(b"hello").await?;
            stream.read_exact(&mut [0; 5]).await?;
        }
        io::Result::Ok(())
    });
    let begin = Instant::now();
    sim.try_run().expect("it ends");
    let took = begin.elapsed();
    println!("digest {:x}", sim.digest());
    println!(
        "{ROUNDS} echoes and {} steps in {took:?}: {:.0} steps a second, {:.0} echoes a second; {:?} simulated",
        sim.events(),
        sim.events() as f64 / took.as_secs_f64(),
        f64::from(ROUNDS) / took.as_secs_f64(),
        sim.elapsed(),
    );
}

#[cfg(not(target_os = "linux"))]
fn main() {}
