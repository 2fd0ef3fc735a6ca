//! An echo is cut off and crashes, and answers at the end: as a test for `ws::sim` is written.
use std::{io, time::Duration};

use ws::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sim::{
        Sim,
        network::{Latency, Link},
    },
    time::{sleep, timeout},
};

async fn server() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        ws::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok(len @ 1..) = stream.read(&mut buffer).await {
                stream.write_all(&buffer[..len]).await?;
            }
            io::Result::Ok(())
        });
    }
}

async fn echo(text: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect("server:7").await?;
    stream.write_all(text).await?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await?;
    assert_eq!(answer, text);
    Ok(())
}

async fn client() -> io::Result<()> {
    for number in 0..20_u8 {
        while !matches!(
            timeout(Duration::from_millis(200), echo(&[number; 5])).await,
            Ok(Ok(()))
        ) {
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

#[ws::sim(seeds = 20)]
async fn an_echo_answers_after_a_partition_and_a_crash(sim: Sim) {
    let latency = Latency::Uniform {
        min: 100_000,
        max: 5_000_000,
    };
    sim.set_default_link(Link {
        latency,
        ..Link::default()
    });
    sim.host("server", server);
    sim.client("client", client());
    let millis = |number| Duration::from_millis(number);
    sim.after(millis(30), |sim| sim.partition(["client"], ["server"]));
    sim.after(millis(400), Sim::heal);
    sim.after(millis(450), |sim| sim.crash("server"));
    sim.after(millis(600), |sim| sim.restart("server"));
    sim.run().await
}
