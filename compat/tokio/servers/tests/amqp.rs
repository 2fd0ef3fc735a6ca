//! lapin on its default runtime, beside a RabbitMQ that is killed and comes again.

use futures_util::StreamExt;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, Result,
    message::DeliveryResult,
    options::*,
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::FieldTable,
};
use tokio::sync::mpsc;
use ws_test_servers::Server;

async fn connect(server: &Server, properties: ConnectionProperties) -> Result<Connection> {
    Connection::connect(&format!("amqp://{}/%2f", server.address()), properties).await
}

async fn declare(channel: &Channel, queue: &str) -> Result<u32> {
    let options = QueueDeclareOptions::durable();
    let queue = channel.queue_declare(queue.into(), options, FieldTable::default());
    Ok(queue.await?.message_count())
}

async fn publish(channel: &Channel, queue: &str, payload: &str) -> Result<Confirmation> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let persistent = BasicProperties::default().with_delivery_mode(2);
    channel
        .basic_publish(
            "".into(),
            queue.into(),
            options,
            payload.as_bytes(),
            persistent,
        )
        .await?
        .await
}

async fn consume(channel: &Channel, queue: &str) -> Result<Consumer> {
    channel
        .basic_consume(
            queue.into(),
            "my_consumer".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        )
        .await
}

/// Each message is confirmed, and comes once and in order. What is not acknowledged comes again.
#[tokio::test(flavor = "multi_thread")]
async fn messages_are_confirmed_and_acknowledged() -> Result<()> {
    let server = ws_test_servers::rabbitmq();
    let connection = connect(&server, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    declare(&channel, "hello").await?;
    for n in 0..200 {
        let confirmation = publish(&channel, "hello", &n.to_string()).await?;
        assert_eq!(confirmation, Confirmation::Ack(None));
    }
    for n in 200..500 {
        // The channel waits for these confirmations, all at once.
        let confirmation = channel
            .basic_publish(
                "".into(),
                "hello".into(),
                BasicPublishOptions::default(),
                n.to_string().as_bytes(),
                BasicProperties::default(),
            )
            .await?;
        drop(confirmation);
    }
    assert!(channel.wait_for_confirms().await?.is_empty());
    assert_eq!(declare(&channel, "hello").await?, 500);

    let returned = publish(&channel, "no such queue", "?").await?;
    let error = returned.take_message().unwrap().error().unwrap();
    assert_eq!(error.kind(), &AMQPErrorKind::Soft(AMQPSoftError::NOROUTE));

    let other = connect(&server, ConnectionProperties::default()).await?;
    let mut consumer = consume(&other.create_channel().await?, "hello").await?;
    for n in 0..500 {
        let delivery = consumer.next().await.unwrap()?;
        assert_eq!(delivery.data, n.to_string().as_bytes());
        if n < 400 {
            delivery.ack(BasicAckOptions::default()).await?;
        }
    }
    other.close(200, "done".into()).await?;
    let mut consumer = consume(&channel, "hello").await?;
    for n in 400..500 {
        let delivery = consumer.next().await.unwrap()?;
        assert_eq!(delivery.data, n.to_string().as_bytes());
        assert!(delivery.redelivered);
        delivery.ack(BasicAckOptions::default()).await?;
    }
    connection.close(200, "done".into()).await?;
    drop((other, consumer));

    // A delegate runs in tasks of lapin's runtime.
    let connection = connect(&server, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    assert_eq!(declare(&channel, "hello").await?, 0);
    let (send, mut deliveries) = mpsc::unbounded_channel();
    consume(&channel, "hello")
        .await?
        .set_delegate(move |delivery: DeliveryResult| {
            let send = send.clone();
            async move {
                if let Ok(Some(delivery)) = delivery {
                    delivery.ack(BasicAckOptions::default()).await.unwrap();
                    send.send(delivery.data).unwrap();
                }
            }
        });
    publish(&channel, "hello", "to the delegate").await?;
    assert_eq!(deliveries.recv().await.unwrap(), b"to the delegate");
    connection.close(200, "done".into()).await
}

/// lapin connects again by itself, with its channels, queues and consumers.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_recovers() -> Result<()> {
    let mut server = ws_test_servers::rabbitmq();
    let properties = ConnectionProperties::default().enable_auto_recover();
    let connection = connect(&server, properties).await?;
    let publisher = connection.create_channel().await?;
    let receiver = connection.create_channel().await?;
    publisher
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    declare(&publisher, "hello").await?;
    let mut consumer = consume(&receiver, "hello").await?;
    let (send, mut received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(delivery) = consumer.next().await {
            match delivery {
                Ok(delivery) => {
                    // An acknowledgement may be too late for its connection.
                    let _ = delivery.ack(BasicAckOptions::default()).await;
                    send.send(delivery.data).unwrap();
                }
                Err(error) => receiver.wait_for_recovery(error).await?,
            }
        }
        Result::Ok(())
    });
    publish(&publisher, "hello", "before").await?;
    assert_eq!(received.recv().await.unwrap(), b"before");

    server.restart();
    while let Err(error) = publish(&publisher, "hello", "after").await {
        publisher.wait_for_recovery(error).await?;
    }
    // The first message may come again.
    while received.recv().await.unwrap() != b"after" {}
    connection.close(200, "done".into()).await
}
