//! Datagrams in a network with partitions, held links and little room.
#![cfg(target_os = "linux")]

use std::io;

use ws::{net::UdpSocket, time::sleep};
use ws_sim::{
    Sim, millis,
    network::{Latency, Link},
    secs,
};

#[test]
fn what_is_sent_into_a_partition_is_lost_even_if_it_heals_before_the_arrival() {
    let sim = Sim::new(1);
    sim.set_default_link(Link {
        latency: Latency::Constant(1_000_000_000),
        ..Link::default()
    });
    sim.host("server", || async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        let mut text = [0; 4];
        socket.recv_from(&mut text).await?;
        assert_eq!(&text, b"came");
        io::Result::Ok(())
    });
    sim.client("client", async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        sleep(millis(500)).await;
        socket.send_to(b"lost", "server:1").await?;
        sleep(secs(2)).await;
        socket.send_to(b"came", "server:1").await?;
        sleep(secs(2)).await;
        io::Result::Ok(())
    });
    sim.partition(["client"], ["server"]);
    sim.after(secs(1), |sim| sim.heal());
    sim.try_run().unwrap();
}

#[test]
fn what_was_held_arrives_in_its_order() {
    let sim = Sim::new(1);
    sim.host("a", || async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        sleep(secs(2)).await;
        for number in 0..9 {
            socket.send_to(&[number], "b:1").await?;
        }
        io::Result::Ok(())
    });
    sim.client("b", async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        let mut byte = [0];
        for number in 0..9 {
            socket.recv_from(&mut byte).await?;
            assert_eq!(byte, [number]);
        }
        io::Result::Ok(())
    });
    sim.hold(["a"], ["b"]);
    sim.after(secs(3), |sim| sim.release(["a"], ["b"]));
    sim.try_run().unwrap();
}

#[test]
fn what_is_read_makes_room_for_more() {
    let sim = Sim::new(1);
    sim.client("host", async {
        let socket = UdpSocket::bind("127.0.0.1:1").await?;
        for _ in 0..2_000 {
            socket.send_to(&[0; 1_000], "127.0.0.1:1").await?;
            socket.recv_from(&mut [0; 1_000]).await?;
        }
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

/// Fails if what was sent in the hold goes before what was under way when it began.
#[test]
fn what_was_under_way_comes_before_what_was_sent_in_a_hold() {
    let sim = Sim::new(1);
    sim.set_default_link(Link {
        latency: Latency::Constant(5_000_000),
        ..Link::default()
    });
    sim.host("a", || async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        for number in 0..6 {
            sleep(millis(2)).await;
            socket.send_to(&[number], "b:1").await?;
        }
        io::Result::Ok(())
    });
    sim.client("b", async {
        let socket = UdpSocket::bind("0.0.0.0:1").await?;
        let mut came = Vec::new();
        for _ in 0..6 {
            let mut byte = [0];
            socket.recv_from(&mut byte).await?;
            came.extend(byte);
        }
        assert_eq!(came, [0, 1, 2, 3, 4, 5]);
        io::Result::Ok(())
    });
    sim.after(millis(7), |sim| sim.hold(["a"], ["b"]));
    sim.after(millis(50), |sim| sim.release(["a"], ["b"]));
    sim.try_run().unwrap();
}
