//! An echo is cut off and crashes, and answers at the end: as a test for madsim is written.
use std::{io, time::Duration};

use madsim::{Config, net::NetSim, runtime::Handle, runtime::Runtime};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

async fn server() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok(len @ 1..) = stream.read(&mut buffer).await {
                stream.write_all(&buffer[..len]).await?;
                stream.flush().await?;
            }
            io::Result::Ok(())
        });
    }
}

async fn echo(text: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect("10.0.0.1:7").await?;
    stream.write_all(text).await?;
    stream.flush().await?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await?;
    assert_eq!(answer, text);
    Ok(())
}

async fn client() {
    for number in 0..20_u8 {
        while !matches!(
            timeout(Duration::from_millis(200), echo(&[number; 5])).await,
            Ok(Ok(()))
        ) {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[test]
fn an_echo_answers_after_a_partition_and_a_crash() {
    for seed in 0..20 {
        let mut config = Config::default();
        config.net.send_latency = Duration::from_micros(100)..Duration::from_millis(5);
        let mut runtime = Runtime::with_seed_and_config(seed, config);
        runtime.set_time_limit(Duration::from_secs(60));
        runtime.block_on(async {
            let (handle, net) = (Handle::current(), NetSim::current());
            let server = handle
                .create_node()
                .name("server")
                .ip([10, 0, 0, 1].into())
                .init(server)
                .build();
            let node = handle.create_node().name("client");
            let node = node.ip([10, 0, 0, 2].into()).build();
            let client_task = node.spawn(client());
            sleep(Duration::from_millis(30)).await;
            net.clog_node(server.id());
            sleep(Duration::from_millis(370)).await;
            net.unclog_node(server.id());
            sleep(Duration::from_millis(50)).await;
            handle.kill(server.id());
            sleep(Duration::from_millis(150)).await;
            handle.restart(server.id());
            client_task.await.unwrap();
        });
    }
}
