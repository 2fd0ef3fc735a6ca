//! The part of the crate `lapin` that the job worker in `tests/ecosystem/examples/jobs.rs` uses,
//! for simulated hosts.
//!
//! lapin reads and writes its socket on a thread of its own, which a simulated host does not have.
//! This package has lapin's names, and does the same in two tasks. Its names and answers are
//! lapin's, its frames as well: they are of the same crate. `tests/jobs.rs` has a program that runs
//! with both.
//!
//! # How it works
//!
//! A task reads frames, and a task writes them. Answers come in the order of the questions on the
//! one channel that there is. A connection on which nothing came for two heartbeats is gone. When
//! it is gone, all that wait are told.
//!
//! Left out: TLS, more than one channel, and whatever else the worker does not use.

pub mod frames;
mod link;
pub mod options;

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection, queue};
use async_rs::{Runtime, traits::RuntimeKit};
use futures::{Stream, StreamExt, channel::mpsc};

use link::Link;
use options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions,
};

pub use amq_protocol::protocol::BasicProperties;

/// Types of the protocol.
pub mod types {
    pub use amq_protocol::types::*;
}

use types::{FieldTable, ShortString};

/// What was delivered.
pub mod message {
    pub use crate::Delivery;
}

/// An error of a connection.
#[derive(Clone, Debug)]
pub struct Error(Arc<io::Error>);

impl Error {
    fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Arc::new(io::Error::other(error)))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

/// The result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

/// There are no properties here.
#[derive(Clone, Debug, Default)]
pub struct ConnectionProperties {}

/// A connection. Dropped, it is closed.
#[derive(Debug)]
pub struct Connection(Link);

impl Connection {
    /// Connects to `amqp://USER:PASSWORD@HOST:PORT/…`, on the current runtime.
    ///
    /// # Errors
    ///
    /// If the broker is not there, or answers something else.
    pub async fn connect_with_runtime<RK: RuntimeKit>(
        url: &str,
        _properties: ConnectionProperties,
        _runtime: Runtime<RK>,
    ) -> Result<Self> {
        let address = url.rsplit('@').next().unwrap_or(url);
        let address = address.split('/').next().unwrap_or(address);
        Ok(Self(Link::connect(address).await?))
    }

    /// Opens the one channel that there is.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub async fn create_channel(&self) -> Result<Channel> {
        let open = channel::AMQPMethod::Open(channel::Open {});
        self.0.ask(AMQPClass::Channel(open)).await?;
        Ok(Channel(self.0.clone()))
    }

    /// Closes it.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub async fn close(&self, reply_code: u16, reply_text: ShortString) -> Result<()> {
        let close = connection::AMQPMethod::Close(connection::Close {
            reply_code,
            reply_text,
            class_id: 0,
            method_id: 0,
        });
        self.0.ask_connection(AMQPClass::Connection(close)).await?;
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.fail(&Error::new("the connection is dropped"));
    }
}

/// A channel.
#[derive(Clone, Debug)]
pub struct Channel(Link);

impl Channel {
    /// Makes a queue, or sees that it is there.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub async fn queue_declare(
        &self,
        queue: ShortString,
        options: QueueDeclareOptions,
        arguments: FieldTable,
    ) -> Result<()> {
        let declare = queue::AMQPMethod::Declare(queue::Declare {
            queue,
            passive: false,
            durable: options.durable,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments,
        });
        self.0.ask(AMQPClass::Queue(declare)).await?;
        Ok(())
    }

    /// Asks for confirmations.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub async fn confirm_select(&self, _options: ConfirmSelectOptions) -> Result<()> {
        let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
        self.0.ask(AMQPClass::Confirm(select)).await?;
        Ok(())
    }

    /// How many deliveries may be without an acknowledgement.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub async fn basic_qos(&self, prefetch_count: u16, options: BasicQosOptions) -> Result<()> {
        let qos = basic::AMQPMethod::Qos(basic::Qos {
            prefetch_count,
            global: options.global,
        });
        self.0.ask(AMQPClass::Basic(qos)).await?;
        Ok(())
    }

    /// Publishes, and gives back the wait for the confirmation.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub async fn basic_publish(
        &self,
        exchange: ShortString,
        routing_key: ShortString,
        _options: BasicPublishOptions,
        payload: &[u8],
        properties: BasicProperties,
    ) -> Result<impl Future<Output = Result<Confirmation>> + use<>> {
        let publish = basic::Publish {
            exchange,
            routing_key,
            mandatory: false,
            immediate: false,
        };
        let confirmed = self.0.publish(publish, payload, properties)?;
        Ok(async move { confirmed.await.map_err(|_| Error::new("no answer"))? })
    }

    /// Asks for deliveries.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub async fn basic_consume(
        &self,
        queue: ShortString,
        consumer_tag: ShortString,
        options: BasicConsumeOptions,
        arguments: FieldTable,
    ) -> Result<Consumer> {
        let deliveries = self.0.deliveries();
        let consume = basic::AMQPMethod::Consume(basic::Consume {
            queue,
            consumer_tag,
            no_local: false,
            no_ack: options.no_ack,
            exclusive: false,
            nowait: false,
            arguments,
        });
        self.0.ask(AMQPClass::Basic(consume)).await?;
        Ok(Consumer(deliveries))
    }

    /// Asks for no more of them: what has come is still read, and then the stream ends.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub async fn basic_cancel(
        &self,
        consumer_tag: ShortString,
        _options: BasicCancelOptions,
    ) -> Result<()> {
        let nowait = false;
        let cancel = basic::AMQPMethod::Cancel(basic::Cancel {
            consumer_tag,
            nowait,
        });
        self.0.ask(AMQPClass::Basic(cancel)).await?;
        self.0.no_more_deliveries();
        Ok(())
    }
}

/// The broker's answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// It has the message.
    Ack(Option<()>),
    /// It has not.
    Nack(Option<()>),
}

impl Confirmation {
    /// Whether the broker has the message.
    pub fn is_ack(&self) -> bool {
        matches!(self, Self::Ack(_))
    }
}

/// Deliveries.
#[derive(Debug)]
pub struct Consumer(mpsc::UnboundedReceiver<Result<Delivery>>);

impl Stream for Consumer {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

/// A message that was delivered.
#[derive(Debug)]
pub struct Delivery {
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// The message.
    pub data: Vec<u8>,
    /// Its acknowledgement.
    pub acker: Acker,
}

/// Acknowledges a delivery.
#[derive(Debug)]
pub struct Acker {
    tag: u64,
    link: Link,
}

impl Acker {
    /// Sends the acknowledgement. Nothing answers it.
    ///
    /// # Errors
    ///
    /// If the connection is gone.
    pub async fn ack(&self, options: BasicAckOptions) -> Result<bool> {
        let ack = basic::AMQPMethod::Ack(basic::Ack {
            delivery_tag: self.tag,
            multiple: options.multiple,
        });
        self.link.tell(AMQPClass::Basic(ack))?;
        Ok(true)
    }
}
