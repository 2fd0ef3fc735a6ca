//! The job worker of docs/scaling-out.md on simulated hosts, with a broker that crashes.

#[path = "jobs/broker.rs"]
mod broker;
#[path = "../../../../tests/ecosystem/examples/jobs.rs"]
mod jobs;

use std::{collections::BTreeSet, time::Duration};

use futures::StreamExt;
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio_simulated::{Error, again, slow_network};
use ws_sim::Sim;

use broker::{Disk, SharedDisk};

const JOBS: usize = 8;
const URL: &str = "amqp://guest:guest@broker:5672/%2f";

/// The first words of texts, as numbers.
fn numbers<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> BTreeSet<usize> {
    let number = |text: &[u8]| {
        let text = std::str::from_utf8(text).unwrap();
        let first = text.split(' ').next().unwrap();
        first.parse().unwrap()
    };
    texts.into_iter().map(number).collect()
}

/// The jobs that have a result.
fn with_result(disk: &Disk) -> BTreeSet<usize> {
    let results = disk.queues.get("results").into_iter();
    numbers(results.flat_map(|all| all.values().map(|one| &one.body[..])))
}

/// Publishes until the broker has all jobs, and waits until each has a result and is acknowledged.
async fn all_are_done(disk: SharedDisk) -> Result<(), Error> {
    again(|| jobs::publish(URL, "8")).await;
    loop {
        sleep(Duration::from_millis(100)).await;
        let disk = disk.lock().unwrap();
        let acknowledged = numbers(disk.acknowledged.iter().map(|body| &body[..]));
        let results = with_result(&disk);
        if let Some(lost) = acknowledged.difference(&results).next() {
            return Err(format!("job {lost} is acknowledged, and has no result").into());
        }
        if disk.queues["jobs"].is_empty() {
            assert_eq!(results, (0..JOBS).collect(), "a job is lost");
            return Ok(());
        }
    }
}

fn cluster(sim: &Sim) {
    slow_network(sim);
    let disk = SharedDisk::default();
    sim.host("broker", {
        let disk = disk.clone();
        move || {
            let disk = disk.clone();
            async { broker::serve(TcpListener::bind("0.0.0.0:5672").await?, disk).await }
        }
    });
    let workers = ["worker-1", "worker-2"];
    for name in workers {
        sim.host(name, || jobs::work(URL));
    }
    sim.client("client", async {
        timeout(Duration::from_secs(600), all_are_done(disk)).await?
    });
    for _ in 0..4 {
        let down = Duration::from_millis(1 + sim.below(500));
        let host = [workers[0], workers[1], "broker"][sim.below(3) as usize];
        sim.after(Duration::from_millis(sim.below(2000)), move |sim| {
            sim.crash(host);
            sim.after(down, move |sim| sim.restart(host));
        });
    }
    let worker = workers[sim.below(2) as usize];
    sim.after(Duration::from_millis(sim.below(1000)), move |sim| {
        sim.partition([worker], ["broker"]);
        sim.after(Duration::from_secs(2), Sim::heal);
    });
}

/// Its broker crashes, its workers crash, and one of them is out of reach for a while.
#[test]
fn no_job_is_lost() {
    // Not `twice`: two runs of one seed may differ in their digest, since `futures::select!` in the
    // worker counts in the whole process.
    ws_sim::check(0..100, cluster);
}

/// A program on lapin: publishes, takes what it has published, and acknowledges it.
macro_rules! program {
    ($name:ident, $lapin:ident) => {
        async fn $name(address: String) -> Result<Vec<String>, Error> {
            use $lapin::{BasicProperties, Connection, ConnectionProperties, options::*};

            let runtime = async_rs::Runtime::new(ws::async_rs::Kit::current());
            let url = format!("amqp://guest:guest@{address}/%2f");
            let properties = ConnectionProperties::default();
            let connection = Connection::connect_with_runtime(&url, properties, runtime).await?;
            let channel = connection.create_channel().await?;
            let queue = |options| channel.queue_declare("jobs".into(), options, Default::default());
            queue(QueueDeclareOptions::durable()).await?;
            channel.confirm_select(Default::default()).await?;
            channel.basic_qos(2, Default::default()).await?;
            let mut confirmed = Vec::new();
            for n in 0..5 {
                let (text, properties) = (n.to_string(), BasicProperties::default());
                let to = ("".into(), "jobs".into());
                let options = BasicPublishOptions::default();
                let sent = channel.basic_publish(to.0, to.1, options, text.as_bytes(), properties);
                confirmed.push(sent.await?);
            }
            let mut said = Vec::new();
            for confirmation in confirmed {
                said.push(format!("{}", confirmation.await?.is_ack()));
            }
            let (tag, options) = ("worker", BasicConsumeOptions::default());
            let consumer =
                channel.basic_consume("jobs".into(), tag.into(), options, Default::default());
            let mut consumer = consumer.await?;
            for _ in 0..5 {
                let delivery = consumer.next().await.ok_or("the end")??;
                let text = String::from_utf8(delivery.data)?;
                said.push(format!("{text} {}", delivery.redelivered));
                delivery.acker.ack(BasicAckOptions::default()).await?;
            }
            queue(QueueDeclareOptions::durable()).await?;
            channel
                .basic_cancel("worker".into(), Default::default())
                .await?;
            said.push(format!("{}", consumer.next().await.is_none()));
            connection.close(200, "".into()).await?;
            Ok(said)
        }
    };
}

program!(by_lapin, real_lapin);
program!(by_the_stand_in, lapin);

/// lapin itself, and what takes its place on simulated hosts, have the same answers of the broker.
#[test]
fn the_broker_serves_lapin() {
    let run = |program: fn(String) -> _| {
        let disk = SharedDisk::default();
        let runtime = ws::runtime::Runtime::new().unwrap();
        let served = disk.clone();
        let said = runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            drop(ws::spawn(broker::serve(listener, served)));
            let said: Result<_, Error> = timeout(Duration::from_secs(60), program(address)).await?;
            said
        });
        (said.unwrap(), disk.lock().unwrap().acknowledged.clone())
    };
    let (real, acknowledged) = run(|address| Box::pin(by_lapin(address)) as Program);
    let (stand_in, _) = run(|address| Box::pin(by_the_stand_in(address)) as Program);
    assert_eq!(acknowledged.len(), 5);
    assert_eq!(real, stand_in);
}

type Program = std::pin::Pin<Box<dyn Future<Output = Result<Vec<String>, Error>> + Send>>;
