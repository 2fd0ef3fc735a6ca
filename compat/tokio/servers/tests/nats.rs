//! async-nats as its own documentation has it, beside a NATS that is killed and comes again.

use std::time::Duration;

use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, RequestErrorKind,
    jetstream::{self, consumer::PullConsumer},
};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use ws_test_servers::Server;

type Result<T = ()> = std::result::Result<T, async_nats::Error>;

async fn connect(server: &Server) -> Result<Client> {
    Ok(async_nats::connect(format!("nats://{}", server.address())).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_get_what_is_published() -> Result {
    let server = ws_test_servers::nats();
    let (publisher, receiver) = (connect(&server).await?, connect(&server).await?);
    let mut one = receiver.subscribe("numbers.one").await?;
    let mut all = receiver.subscribe("numbers.*").await?;
    // The server answers that nobody is there, once it has both subscriptions.
    let nobody = receiver.request("nobody", "".into()).await.unwrap_err();
    assert_eq!(nobody.kind(), RequestErrorKind::NoResponders);

    let publish = tokio::spawn(async move {
        for n in 0..1_000 {
            let subject = ["numbers.one", "numbers.two"][n % 2];
            publisher.publish(subject, n.to_string().into()).await?;
        }
        Result::Ok(publisher.flush().await?)
    });
    for n in 0..1_000 {
        let message = all.next().await.unwrap();
        assert_eq!(message.payload, n.to_string());
        if n % 2 == 0 {
            let message = one.next().await.unwrap();
            assert_eq!(message.payload, n.to_string());
        }
    }
    publish.await??;

    // One message comes after it is asked for no more.
    one.unsubscribe_after(501).await?;
    receiver.publish("numbers.one", "last".into()).await?;
    receiver.publish("numbers.one", "beyond".into()).await?;
    assert_eq!(one.next().await.unwrap().payload, "last");
    assert!(one.next().await.is_none());
    Ok(())
}

#[tokio::test]
async fn requests_are_answered() -> Result {
    let server = ws_test_servers::nats();
    let url = format!("nats://{}", server.address());
    let limit = Some(Duration::from_millis(100));
    let client = ConnectOptions::new().request_timeout(None);
    let client = client.connect(&url).await?;
    let hasty = ConnectOptions::new().request_timeout(limit);
    let hasty = hasty.connect(&url).await?;

    let mut requests = client.queue_subscribe("double", "workers".into()).await?;
    let service = client.clone();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let n: u64 = std::str::from_utf8(&request.payload)?.parse()?;
            let reply = request.reply.unwrap();
            let headers = request.headers.unwrap_or_default();
            let answer = (2 * n).to_string();
            service
                .publish_with_headers(reply, headers, answer.into())
                .await?;
        }
        Result::Ok(())
    });
    let calls = (0..200).map(|n| {
        let client = client.clone();
        tokio::spawn(async move { client.request("double", n.to_string().into()).await })
    });
    for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(call.await??.payload, (2 * n).to_string());
    }

    let mut headers = HeaderMap::new();
    headers.insert("X-Request-ID", "123");
    let answer = client
        .request_with_headers("double", headers.clone(), "4".into())
        .await?;
    assert_eq!(
        (answer.headers, &answer.payload[..]),
        (Some(headers), &b"8"[..])
    );

    let none = hasty.request("nobody", "".into()).await.unwrap_err();
    assert_eq!(none.kind(), RequestErrorKind::NoResponders);
    let mut silent = client.subscribe("silent").await?;
    // The server has the subscription before it answers this.
    client.request("double", "1".into()).await?;
    let late = hasty.request("silent", "".into()).await.unwrap_err();
    assert_eq!(late.kind(), RequestErrorKind::TimedOut);
    assert!(silent.next().await.is_some());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_connects_again() -> Result {
    let mut server = ws_test_servers::nats();
    let (send, mut events) = mpsc::channel(16);
    let client = ConnectOptions::new()
        .event_callback(move |event| {
            let send = send.clone();
            async move {
                let _ = send.send(event).await;
            }
        })
        .connect(format!("nats://{}", server.address()))
        .await?;
    assert_eq!(events.recv().await, Some(Event::Connected));
    let mut subscriber = client.subscribe("subject").await?;
    client.publish("subject", "before".into()).await?;
    assert_eq!(subscriber.next().await.unwrap().payload, "before");

    for round in ["first", "second"] {
        server.kill();
        while events.recv().await != Some(Event::Disconnected) {}
        // It is kept until there is a connection.
        client.publish("subject", round.into()).await?;
        server.restart();
        while events.recv().await != Some(Event::Connected) {}
        assert_eq!(subscriber.next().await.unwrap().payload, round);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_its_server() -> Result {
    let mut server = ws_test_servers::nats();
    let context = jetstream::new(connect(&server).await?);
    let stream = context
        .create_stream(jetstream::stream::Config {
            name: "ORDERS".into(),
            subjects: vec!["orders.>".into()],
            ..Default::default()
        })
        .await?;
    for n in 0..10 {
        let stored = context.publish("orders.new", format!("order {n}").into());
        assert_eq!(stored.await?.await?.sequence, n + 1);
    }
    let consumer: PullConsumer = stream
        .create_consumer(jetstream::consumer::pull::Config {
            durable_name: Some("processor".into()),
            ..Default::default()
        })
        .await?;
    let mut messages = consumer.fetch().max_messages(4).messages().await?;
    for n in 0..4 {
        let message = messages.next().await.unwrap()?;
        assert_eq!(message.payload, format!("order {n}"));
        message.double_ack().await?;
    }

    server.restart();
    let context = jetstream::new(connect(&server).await?);
    let stream = context.get_stream("ORDERS").await?;
    let consumer: PullConsumer = stream.get_consumer("processor").await?;
    let mut messages = consumer.messages().await?;
    for n in 4..10 {
        let message = messages.next().await.unwrap()?;
        assert_eq!(message.payload, format!("order {n}"));
        message.ack().await?;
    }
    Ok(())
}
