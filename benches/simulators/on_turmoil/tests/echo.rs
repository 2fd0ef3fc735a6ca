//! An echo is cut off and crashes, and answers at the end: as a test for turmoil is written.
use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{sleep, timeout},
};
use turmoil::{
    Builder,
    net::{TcpListener, TcpStream},
};

async fn server() -> turmoil::Result {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
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

async fn client() -> turmoil::Result {
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

#[test]
fn an_echo_answers_after_a_partition_and_a_crash() {
    for seed in 0..20 {
        let mut sim = Builder::new()
            .rng_seed(seed)
            .min_message_latency(Duration::from_micros(100))
            .max_message_latency(Duration::from_millis(5))
            .build();
        sim.host("server", server);
        sim.client("client", client());
        loop {
            match sim.elapsed().as_millis() {
                30 => sim.partition("client", "server"),
                400 => sim.repair("client", "server"),
                450 => sim.crash("server"),
                600 => sim.bounce("server"),
                _ => {}
            }
            if sim
                .step()
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"))
            {
                break;
            }
        }
    }
}
