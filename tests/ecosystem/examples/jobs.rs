//! A job worker on RabbitMQ. Any number of these processes, on any number of machines, share a
//! queue of jobs.
//!
//! ```text
//! jobs publish amqp://guest:guest@127.0.0.1:5672/%2f 1000
//! jobs work    amqp://guest:guest@127.0.0.1:5672/%2f
//! ```
//!
//! A job is a number; its result is how many primes there are below a hundred thousand more than
//! it. That stands for any work that keeps a CPU busy.
//!
//! # What holds it together
//!
//! 1. The broker keeps a job until it is acknowledged. A worker that dies, by `kill -9` or with its
//!    machine, has not acknowledged its jobs, so the broker gives them to others. So it does with
//!    those of a worker that it does not hear for two heartbeats (`?heartbeat=10` in the URL).
//! 2. A job is acknowledged after the broker has confirmed that it has the result. So no job is
//!    lost: it has a result, or it is still there.
//! 3. `acknowledged N` is printed after the queue has answered a question that was asked behind the
//!    acknowledgement. Such a job is never given out again.
//! 4. A broker that goes away is waited for. What was not acknowledged comes again, and a worker
//!    that gets such a job prints `again N`.
//! 5. Every answer of the broker is waited for for a limited time. A worker that gets none connects
//!    again.
//!
//! Between 2 and 3 a worker may die with a result that is there and a job that is not acknowledged.
//! That job is done again, and has two results. A result carries the number of its job, and whoever
//! collects results drops the second. (Rejected: result and acknowledgement as one transaction of
//! the broker's. RabbitMQ promises that one is all or nothing within one queue, and these are two.)
//!
//! # Where `ws` comes in
//!
//! Connections, heartbeats and jobs are tasks. The computing is `spawn_blocking`, so that a
//! heartbeat is answered while all CPUs compute. The broker hands out two jobs for each CPU
//! (`basic_qos`): one computes while the other's result is on its way.

use std::{error::Error, io::Write, process::ExitCode, time::Duration};

use async_rs::Runtime;
use futures::{FutureExt, StreamExt, select};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer,
    message::Delivery,
    options::{
        BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions,
        BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions,
    },
    types::{FieldTable, ShortString},
};
use ws::{
    async_rs::Kit,
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
    time::{sleep, timeout},
};

const JOBS: &str = "jobs";
const RESULTS: &str = "results";
const CONSUMER: &str = "worker";

/// How long a worker waits before it asks again for a broker that is not there.
const RECONNECT: Duration = Duration::from_millis(250);

/// How long the broker may take until a connection is ready for work, or closed.
///
/// lapin 4.12 has a way of never answering by itself, when the broker is not there. Its thread is
/// refused, notes the error in the status of the connection, rejects the steps of the handshake
/// that are registered so far, and ends (`IoLoop::start`). `Connection::start` looks at the status
/// first and registers the step after that, and if the refusal falls between the two, nobody is
/// left to answer. So it was on one of 8,518 refused connections in a row, and on one of three with
/// a pause of 20 ms at that place of lapin's. (Each refusal also leaves two tasks behind for good.)
/// With more than one attempt, by `ConnectionProperties::with_backoff`, a refusal comes too late
/// for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the broker may take to have a message on its disk, or to answer a question. One that is
/// short of memory or disk takes no messages meanwhile.
const ANSWER: Duration = Duration::from_secs(60);

/// How long the last jobs and the goodbye may take.
const FAREWELL: Duration = Duration::from_secs(30);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[ws::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["publish", url, count] => publish(url, count).await,
        ["work", url] => work(url).await,
        _ => Err("usage: jobs publish URL COUNT | jobs work URL".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jobs: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for an answer of the broker.
async fn answer<T>(wait: impl Future<Output = lapin::Result<T>>) -> Result<T> {
    Ok(timeout(ANSWER, wait).await??)
}

/// Connects, sees that the queues are there, and asks for confirmations.
async fn connect(url: &str) -> lapin::Result<(Connection, Channel)> {
    let runtime = Runtime::new(Kit::current());
    let connection =
        Connection::connect_with_runtime(url, ConnectionProperties::default(), runtime).await?;
    let channel = connection.create_channel().await?;
    for queue in [JOBS, RESULTS] {
        let durable = QueueDeclareOptions::durable();
        channel
            .queue_declare(queue.into(), durable, FieldTable::default())
            .await?;
    }
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    Ok((connection, channel))
}

/// Publishes a message, and gives back the wait for its confirmation.
async fn send(
    channel: &Channel,
    queue: &str,
    text: String,
) -> lapin::Result<impl Future<Output = lapin::Result<Confirmation>>> {
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    let exchange = ShortString::default();
    channel
        .basic_publish(exchange, queue.into(), options, text.as_bytes(), persistent)
        .await
}

/// Publishes jobs, and ends when the broker has all of them on its disk.
pub(crate) async fn publish(url: &str, count: &str) -> Result<()> {
    let count: u64 = count.parse()?;
    let (connection, channel) = timeout(PATIENCE, connect(url)).await??;
    let mut confirmations = Vec::new();
    for job in 0..count {
        confirmations.push(answer(send(&channel, JOBS, job.to_string())).await?);
    }
    for confirmation in confirmations {
        if !answer(confirmation).await?.is_ack() {
            return Err("the broker refused a job".into());
        }
    }
    timeout(PATIENCE, connection.close(200, ShortString::default())).await??;
    writeln!(std::io::stdout(), "published {count} jobs")?;
    Ok(())
}

/// Works until SIGTERM.
pub(crate) async fn work(url: &str) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut last = String::new();
    loop {
        match work_on_a_connection(url, &mut terminate).await {
            // Nobody says so twice: whatever happens from here on, it is the end.
            Ok(at_work) => return timeout(FAREWELL, at_work.finish()).await?,
            // Once for each reason, and not once for each attempt.
            Err(error) if error.to_string() == last => {}
            Err(error) => {
                eprintln!("jobs: {error}; connecting again");
                last = error.to_string();
            }
        }
        select! {
            () = sleep(RECONNECT).fuse() => {}
            stop = terminate.recv().fuse() => return Ok(stop?),
        }
    }
}

/// Connects, and asks for jobs.
async fn subscribe(url: &str) -> Result<(Connection, Channel, Consumer)> {
    let (connection, channel) = connect(url).await?;
    let at_a_time = 2 * std::thread::available_parallelism()?.get();
    channel
        .basic_qos(at_a_time.try_into()?, BasicQosOptions::default())
        .await?;
    let options = BasicConsumeOptions::default();
    let consumer =
        channel.basic_consume(JOBS.into(), CONSUMER.into(), options, FieldTable::default());
    let consumer = consumer.await?;
    Ok((connection, channel, consumer))
}

/// A worker with its connection, and the jobs that it has begun.
struct AtWork {
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
    /// Those of a connection that is gone are aborted with the set: they could not be acknowledged.
    jobs: JoinSet<Result<()>>,
}

/// Works until SIGTERM, which is `Ok`, or until the broker is gone.
async fn work_on_a_connection(url: &str, terminate: &mut Signal) -> Result<AtWork> {
    // A broker that is about to start or to stop may take a connection and never answer on it, or
    // see above.
    let (connection, channel, consumer) = timeout(PATIENCE, subscribe(url)).await??;
    let jobs = JoinSet::new();
    let mut at_work = AtWork {
        connection,
        channel,
        consumer,
        jobs,
    };
    loop {
        select! {
            delivery = at_work.consumer.next().fuse() => match delivery {
                Some(delivery) => at_work.begin(delivery?),
                None => return Err("the broker has cancelled the consumer".into()),
            },
            done = next_of(&mut at_work.jobs).fuse() => done?,
            stop = terminate.recv().fuse() => {
                stop?;
                return Ok(at_work);
            }
        }
    }
}

impl AtWork {
    fn begin(&mut self, delivery: Delivery) {
        drop(self.jobs.spawn(job(self.channel.clone(), delivery)));
    }

    /// Takes no more jobs, and does those that the broker has given out.
    async fn finish(mut self) -> Result<()> {
        self.channel
            .basic_cancel(CONSUMER.into(), BasicCancelOptions::default())
            .await?;
        // Some may have come that nobody has read yet. The end of the stream is behind them.
        while let Some(delivery) = self.consumer.next().await {
            self.begin(delivery?);
        }
        while let Some(done) = self.jobs.join_next().await {
            done??;
        }
        self.connection.close(200, ShortString::default()).await?;
        Ok(())
    }
}

/// The next job that is done; for ever if there is none.
async fn next_of(jobs: &mut JoinSet<Result<()>>) -> Result<()> {
    match jobs.join_next().await {
        Some(done) => done?,
        None => std::future::pending().await,
    }
}

/// Does one job, and acknowledges it when its result is safe.
async fn job(channel: Channel, delivery: Delivery) -> Result<()> {
    let job: u64 = std::str::from_utf8(&delivery.data)?.parse()?;
    if delivery.redelivered {
        say(format!("again {job}\n"))?;
    }
    let primes = ws::spawn_blocking(move || primes_below(100_000 + job)).await?;
    let confirmation = answer(send(&channel, RESULTS, format!("{job} {primes}"))).await?;
    if !answer(confirmation).await?.is_ack() {
        return Err("the broker refused a result".into());
    }
    answer(delivery.acker.ack(BasicAckOptions::default())).await?;
    // Nothing answers an acknowledgement, so a question is asked behind it.
    let durable = QueueDeclareOptions::durable();
    answer(channel.queue_declare(JOBS.into(), durable, FieldTable::default())).await?;
    say(format!("acknowledged {job}\n"))?;
    Ok(())
}

/// In one write, so that no line is torn when the process is killed.
fn say(line: String) -> std::io::Result<()> {
    std::io::stdout().write_all(line.as_bytes())
}

/// Counts by trial division: the point is that it takes a while.
fn primes_below(limit: u64) -> usize {
    let is_prime = |n: &u64| {
        (2..)
            .take_while(|d| d * d <= *n)
            .all(|d| !n.is_multiple_of(d))
    };
    (2..limit).filter(is_prime).count()
}
