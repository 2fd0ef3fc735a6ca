//! Programs of `ws` on simulated hosts, unmodified.
#![cfg(target_os = "linux")]

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{self, ErrorKind},
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    time::{sleep, timeout},
};
use ws_sim::{
    Sim,
    network::{Latency, Link},
};

const MS: u64 = 1_000_000;

fn link(ms: u64) -> Link {
    Link {
        latency: Latency::Constant(ms * MS),
        ..Link::default()
    }
}

/// Sends back what comes, to each peer.
async fn echo() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    loop {
        let (mut peer, _) = listener.accept().await?;
        ws::spawn(async move {
            let mut buffer = [0; 1024];
            loop {
                match peer.read(&mut buffer).await? {
                    0 => return peer.close().await,
                    len => peer.write_all(&buffer[..len]).await?,
                }
            }
        });
    }
}

async fn ask(to: &str, text: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((to, 7)).await?;
    stream.write_all(text.as_bytes()).await?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn an_echo_takes_two_round_trips() {
    let sim = Sim::new(1);
    sim.set_default_link(link(10));
    sim.host("server", echo);
    sim.client("client", async {
        let start = (Instant::now(), ws::time::Instant::now());
        assert_eq!(ask("server", "hello").await?, "hello");
        assert_eq!(start.0.elapsed(), Duration::from_millis(40));
        assert_eq!(start.1.elapsed(), Duration::from_millis(40));
        io::Result::Ok(())
    });
    sim.run().unwrap();
    assert_eq!(sim.elapsed(), Duration::from_millis(40));
}
