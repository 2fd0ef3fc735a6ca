//! How long streams take: lost packets, slow links, and requests that nobody confirms.
#![cfg(target_os = "linux")]

use std::{io, net::Shutdown, time::Duration};

use socket2::SockRef;
use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};
use ws_sim::{Sim, network::Link, secs};

/// When a transfer of so many bytes is over that begins after a while.
fn transfer(link: Link, begin: Duration, user_timeout: Option<Duration>, len: usize) -> Duration {
    let sim = Sim::new(1);
    sim.set_default_link(link);
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:1").await?;
        let (mut peer, _) = listener.accept().await?;
        peer.read_to_end(&mut Vec::new()).await?;
        io::Result::Ok(())
    });
    sim.client("client", async move {
        sleep(begin).await;
        let mut stream = TcpStream::connect("server:1").await?;
        SockRef::from(&stream).set_tcp_user_timeout(user_timeout)?;
        stream.write_all(&vec![0; len]).await?;
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new()).await?;
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
    sim.elapsed()
}

#[test]
fn a_user_timeout_that_is_not_reached_changes_nothing() {
    let link = Link {
        bandwidth: Some(100_000),
        ..Link::default()
    };
    let took = |user_timeout| transfer(link, secs(100), user_timeout, 1_000_000);
    assert_eq!(took(Some(secs(50))), took(None));
}

#[test]
fn one_lost_packet_of_many_is_sent_again_before_its_timer() {
    let link = Link {
        loss_ppm: 10_000,
        ..Link::default()
    };
    let took = transfer(link, Duration::ZERO, None, 4_000_000);
    assert!(took < secs(2), "{took:?}");
}

#[test]
fn a_request_without_its_last_acknowledgement_is_given_up_after_five_tries() {
    let sim = Sim::builder().recording(true).build();
    sim.host("server", || async {
        let listener = TcpListener::bind("0.0.0.0:1").await?;
        listener.accept().await.map(drop)
    });
    sim.host("asks", || async {
        TcpStream::connect("server:1").await.map(drop)
    });
    sim.client("clock", async { sleep(secs(300)).await });
    sim.after(Duration::from_micros(150), |sim| sim.crash("asks"));
    sim.try_run().unwrap();
    let text = sim.recording().unwrap().to_string();
    assert!(text.contains("31.000100 s"), "{text}");
    let more = text.contains("63.000100 s");
    assert!(!more, "the first and five more: {text}");
}
