//! When a connection whose peer is silent is given up.
#![cfg(target_os = "linux")]

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};
use ws_sim::Sim;

const SECOND: Duration = Duration::from_secs(1);

async fn silent() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7").await?;
    let _stream = listener.accept().await?;
    std::future::pending().await
}

/// A connection to a host that is cut off after a second.
fn cut_off(client: impl AsyncFnOnce(TcpStream) -> io::Result<()> + 'static) {
    let sim = Sim::new(1);
    sim.host("server", silent);
    sim.client("client", async move {
        let stream = TcpStream::connect("server:7").await?;
        ws::time::sleep(2 * SECOND).await;
        client(stream).await
    });
    sim.after(SECOND, |sim| sim.partition(["client"], ["server"]));
    sim.try_run().unwrap();
}

#[test]
fn data_without_an_acknowledgement_is_given_up_after_the_user_timeout() {
    cut_off(async |mut stream| {
        SockRef::from(&stream).set_tcp_user_timeout(Some(5 * SECOND))?;
        let begin = Instant::now();
        stream.write_all(b"x").await?;
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begin.elapsed(), 5 * SECOND);
        Ok(())
    });
}

#[test]
fn times_of_keep_alive_have_no_effect_before_it_is_on() {
    cut_off(async |mut stream| {
        let times = TcpKeepalive::new()
            .with_time(3 * SECOND)
            .with_interval(SECOND)
            .with_retries(2);
        SockRef::from(&stream).set_tcp_keepalive(&times)?;
        SockRef::from(&stream).set_keepalive(false)?;
        let mut byte = [0];
        let read = timeout(3600 * SECOND, stream.read(&mut byte)).await;
        assert!(read.is_err(), "{read:?}");
        SockRef::from(&stream).set_keepalive(true)?;
        let begin = Instant::now();
        let error = stream.read(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() <= 3 * SECOND, "{:?}", begin.elapsed());
        Ok(())
    });
}
