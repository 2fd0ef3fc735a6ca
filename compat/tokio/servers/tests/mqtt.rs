//! rumqttc as its own documentation has it, beside a Mosquitto that is killed and comes again.

use std::time::Duration;

use rumqttc::{AsyncClient, ConnectionError, Event, EventLoop, MqttOptions, Packet, Publish, QoS};
use tokio::task;
use ws_test_servers::Server;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn options(server: &Server, id: &str) -> MqttOptions {
    let mut options = MqttOptions::new(id, "127.0.0.1", server.port());
    options.set_keep_alive(Duration::from_secs(5));
    options
}

/// The next packet that comes, of those that `select` takes.
async fn next<T>(
    events: &mut EventLoop,
    select: impl Fn(Packet) -> Option<T>,
) -> std::result::Result<T, ConnectionError> {
    loop {
        if let Event::Incoming(packet) = events.poll().await?
            && let Some(selected) = select(packet)
        {
            return Ok(selected);
        }
    }
}

fn publish(packet: Packet) -> Option<Publish> {
    match packet {
        Packet::Publish(publish) => Some(publish),
        _ => None,
    }
}

fn sub_ack(packet: Packet) -> Option<()> {
    matches!(packet, Packet::SubAck(_)).then_some(())
}

fn pub_ack(packet: Packet) -> Option<()> {
    matches!(packet, Packet::PubAck(_)).then_some(())
}

/// Each message is acknowledged to its publisher, and comes once and in order.
#[tokio::test(flavor = "multi_thread")]
async fn messages_go_both_ways_at_least_once() -> Result {
    let server = ws_test_servers::mosquitto();
    let (subscriber, mut events) = AsyncClient::new(options(&server, "subscriber"), 10);
    subscriber.subscribe("hello/#", QoS::AtLeastOnce).await?;
    next(&mut events, sub_ack).await?;

    let (publisher, mut sent) = AsyncClient::new(options(&server, "publisher"), 10);
    publisher.subscribe("answer", QoS::AtLeastOnce).await?;
    let answers = publisher.clone();
    task::spawn(async move {
        for n in 0..500 {
            let message = n.to_string();
            publisher
                .publish("hello/world", QoS::AtLeastOnce, false, message)
                .await?;
        }
        Result::Ok(())
    });
    let acknowledged = task::spawn(async move {
        // The event loop ends with its last client.
        let _answers = answers;
        let (mut acks, mut answer) = (0, None);
        while acks < 500 || answer.is_none() {
            match next(&mut sent, Some).await? {
                Packet::PubAck(_) => acks += 1,
                Packet::Publish(publish) => answer = Some(publish),
                _ => {}
            }
        }
        Result::Ok(answer)
    });

    for n in 0..500 {
        let message = next(&mut events, publish).await?;
        assert_eq!((message.qos, message.dup), (QoS::AtLeastOnce, false));
        assert_eq!(message.topic, "hello/world");
        assert_eq!(message.payload, n.to_string());
    }
    // The broker keeps it for later subscribers.
    subscriber
        .publish("answer", QoS::AtLeastOnce, true, "all")
        .await?;
    next(&mut events, pub_ack).await?;
    let answer = acknowledged.await??.unwrap();
    assert_eq!(answer.payload, "all");
    Ok(())
}

/// The broker would close a connection on which nothing comes for a second and a half.
#[tokio::test]
async fn pings_keep_an_idle_connection() -> Result {
    let server = ws_test_servers::mosquitto();
    let mut options = options(&server, "idle");
    options.set_keep_alive(Duration::from_secs(1));
    let (_client, mut events) = AsyncClient::new(options, 10);
    for _ in 0..3 {
        let answer = |packet| matches!(packet, Packet::PingResp).then_some(());
        next(&mut events, answer).await?;
    }
    Ok(())
}

/// What is not acknowledged comes again on the next connection of the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_ack_comes_again() -> Result {
    let server = ws_test_servers::mosquitto();
    let connect = || {
        let mut options = options(&server, "session");
        options.set_clean_session(false).set_manual_acks(true);
        AsyncClient::new(options, 10)
    };
    let (client, mut events) = connect();
    client.subscribe("hello/world", QoS::AtLeastOnce).await?;
    next(&mut events, sub_ack).await?;
    let requests = task::spawn(async move {
        for n in 0..10 {
            let message = vec![1; n];
            client
                .publish("hello/world", QoS::AtLeastOnce, false, message)
                .await?;
        }
        Result::Ok(client)
    });
    for n in 0..10 {
        let message = next(&mut events, publish).await?;
        assert_eq!((message.payload.len(), message.dup), (n, false));
    }
    drop((requests.await??, events));

    let (client, mut events) = connect();
    let mut acks = task::JoinSet::new();
    for n in 0..10 {
        let message = next(&mut events, publish).await?;
        assert_eq!((message.payload.len(), message.dup), (n, true));
        let client = client.clone();
        // The event loop must not wait for this.
        acks.spawn(async move { client.ack(&message).await });
    }
    let disconnect = task::spawn(async move {
        while let Some(ack) = acks.join_next().await {
            ack??;
        }
        Result::Ok(client.disconnect().await?)
    });
    // The broker has it all when it closes the connection.
    while events.poll().await.is_ok() {}
    disconnect.await??;

    let (client, mut events) = connect();
    client
        .publish("hello/world", QoS::AtLeastOnce, false, "new")
        .await?;
    let message = next(&mut events, publish).await?;
    assert_eq!((&message.payload[..], message.dup), (&b"new"[..], false));
    Ok(())
}

/// Polls of the event loop connect again. It sends what is not acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn the_event_loop_connects_again() -> Result {
    let mut server = ws_test_servers::mosquitto();
    let (client, mut events) = AsyncClient::new(options(&server, "patient"), 10);
    for round in ["first", "second"] {
        client.subscribe("hello/world", QoS::AtLeastOnce).await?;
        next(&mut events, sub_ack).await?;
        server.kill();
        next(&mut events, |_| None::<()>).await.unwrap_err();
        events.poll().await.unwrap_err();
        client.subscribe("hello/world", QoS::AtLeastOnce).await?;
        client
            .publish("hello/world", QoS::AtLeastOnce, false, round)
            .await?;
        server.restart();
        let message = next(&mut events, publish).await?;
        assert_eq!(message.payload, round);
    }
    Ok(())
}
