//! MQTT: the client rumqttc, and a small broker.

#[path = "mqtt/broker.rs"]
mod broker;

use std::time::Duration;

use rumqttc::{AsyncClient, Event, EventLoop, MqttOptions, Packet, Publish, QoS};
use tokio::{net::TcpListener, sync::mpsc, time::sleep};
use tokio_simulated::{Error, Faults, Protocol, again, check, wrong};

fn options(server: &str, id: &str) -> Result<MqttOptions, Error> {
    let (host, port) = server.split_once(':').ok_or_else(|| wrong("no port"))?;
    let mut options = MqttOptions::new(id, host, port.parse()?);
    options.set_keep_alive(Duration::from_secs(60));
    Ok(options)
}

/// The next packet that comes, of those that `select` takes.
async fn next<T>(events: &mut EventLoop, select: impl Fn(Packet) -> Option<T>) -> Result<T, Error> {
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

fn told(publish: &Publish) -> String {
    let payload = String::from_utf8_lossy(&publish.payload);
    format!("{} {payload} {:?}", publish.topic, publish.qos)
}

/// A subscriber and a publisher: each message comes once, and in order. The last one is
/// acknowledged, so all others are sent before the publisher ends.
struct Mqtt;

impl Protocol for Mqtt {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        broker::serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let (subscriber, mut events) = AsyncClient::new(options(&server, "subscriber")?, 10);
        subscriber.subscribe("hello/#", QoS::AtLeastOnce).await?;
        next(&mut events, |packet| {
            matches!(packet, Packet::SubAck(_)).then_some(())
        })
        .await?;
        let (publisher, mut sent) = AsyncClient::new(options(&server, "publisher")?, 10);
        let publishes = tokio::spawn(async move {
            for n in 0..99 {
                let qos = [QoS::AtLeastOnce, QoS::AtMostOnce][n % 2];
                publisher
                    .publish("hello/world", qos, false, n.to_string())
                    .await?;
            }
            Ok::<_, Error>(publisher)
        });
        let acknowledged = tokio::spawn(async move {
            for _ in 0..50 {
                let ack = |packet| matches!(packet, Packet::PubAck(_)).then_some(());
                next(&mut sent, ack).await?;
            }
            Ok::<_, Error>(())
        });
        let mut answers = Vec::new();
        for _ in 0..99 {
            answers.push(told(&next(&mut events, publish).await?));
        }
        acknowledged.await??;
        publishes.await??;
        Ok(answers)
    }
}

/// What is not acknowledged comes again on the next connection of the session.
struct Session;

impl Protocol for Session {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        broker::serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let mut answers = Vec::new();
        let (client, mut events) = session(&server)?;
        client.subscribe("jobs", QoS::AtLeastOnce).await?;
        for n in 0..5 {
            client
                .publish("jobs", QoS::AtLeastOnce, false, n.to_string())
                .await?;
        }
        for _ in 0..5 {
            answers.push(told(&next(&mut events, publish).await?));
        }
        drop((client, events));
        let (client, mut events) = session(&server)?;
        for _ in 0..5 {
            let message = next(&mut events, publish).await?;
            answers.push(format!("{} again: {}", told(&message), message.dup));
            client.ack(&message).await?;
        }
        client.disconnect().await?;
        while events.poll().await.is_ok() {}
        Ok(answers)
    }
}

fn session(server: &str) -> Result<(AsyncClient, EventLoop), Error> {
    let mut options = options(server, "session")?;
    options.set_clean_session(false).set_manual_acks(true);
    Ok(AsyncClient::new(options, 10))
}

/// A client whose event loop connects again, and which publishes until its message comes back.
struct Stubborn;

impl Protocol for Stubborn {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        broker::serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let mut options = options(&server, "stubborn")?;
        options.set_keep_alive(Duration::from_secs(1));
        let (client, mut events) = AsyncClient::new(options, 100);
        let (came, mut messages) = mpsc::unbounded_channel();
        let subscriber = client.clone();
        tokio::spawn(async move {
            loop {
                match events.poll().await {
                    Ok(Event::Incoming(Packet::ConnAck(_))) => {
                        subscriber.try_subscribe("echo", QoS::AtLeastOnce)?;
                    }
                    Ok(Event::Incoming(Packet::Publish(publish))) => came.send(told(&publish))?,
                    Ok(_) => {}
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
            #[expect(unreachable_code, reason = "it gives the type")]
            Ok::<_, Error>(())
        });
        let messages = &tokio::sync::Mutex::new(&mut messages);
        let mut answers = Vec::new();
        for n in 0..20 {
            let client = &client;
            let answer = again(|| async move {
                client
                    .publish("echo", QoS::AtLeastOnce, false, n.to_string())
                    .await?;
                let wanted = format!("echo {n} AtLeastOnce");
                loop {
                    // One that was published twice may come twice.
                    let message = messages.lock().await.recv().await;
                    if message.ok_or_else(|| wrong("the end"))? == wanted {
                        return Ok(wanted);
                    }
                }
            });
            answers.push(answer.await);
            sleep(Duration::from_millis(100)).await;
        }
        Ok(answers)
    }
}

#[test]
fn mqtt_is_as_on_sockets() {
    check::<Mqtt>(0..100, Faults::Network);
}

#[test]
fn what_is_not_acknowledged_comes_again() {
    check::<Session>(0..100, Faults::Network);
}

#[test]
fn an_event_loop_connects_again_to_a_broker_that_crashes() {
    check::<Stubborn>(0..100, Faults::Crashes);
}
