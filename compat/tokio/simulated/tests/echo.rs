//! A server and a client on `tokio::net`, on simulated hosts.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

async fn server() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await
        });
    }
}

#[test]
fn an_echo_comes_back() {
    ws_sim::check(0..20, |sim| {
        sim.host("server", server);
        sim.client("client", async {
            let mut stream = TcpStream::connect("server:7").await?;
            stream.write_all(b"hello").await?;
            let mut text = [0; 5];
            timeout(Duration::from_secs(1), stream.read_exact(&mut text)).await??;
            sleep(Duration::from_secs(3600)).await;
            assert_eq!(&text, b"hello");
            io::Result::Ok(())
        });
    });
}
