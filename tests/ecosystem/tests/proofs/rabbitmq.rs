//! Proof 7: lapin against RabbitMQ: confirmed messages, heartbeats, a broker that is restarted, or
//! stands still. And the example `jobs`, whose processes are killed, or stand still, while they
//! work.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader},
    pin::pin,
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures::{StreamExt, channel::mpsc, join, poll};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, ErrorKind,
    message::Delivery,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions,
        QueueDeclareOptions,
    },
    types::FieldTable,
};
use ws::async_rs::Kit;

use crate::harness::{
    Env, Frozen, Server, bind_to_us, bytes, free_port, freeze, output, proofs, signal, wait,
};

/// lapin has a thread for each connection, which moves bytes between its buffers.
const LAPIN: &[&str] = &["lapin-"];

/// A RabbitMQ of its own, which can be stopped and started again with what it has on disk.
struct Broker {
    epmd: Server,
    server: Option<Server>,
    command: Command,
    log: std::path::PathBuf,
    port: u16,
}

impl Broker {
    fn start(env: &Env) -> Option<Self> {
        let rabbitmq = crate::harness::find("rabbitmq-server")?;
        let epmd = crate::harness::find("epmd")?;
        let dir = env.dir.join("rabbitmq");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("plugins"), "[].").unwrap();
        // No heartbeat but what the URL asks for. lapin would take the broker's, of a minute, where
        // that asks for none.
        fs::write(dir.join("rabbitmq.conf"), "heartbeat = 0\n").unwrap();
        let (port, dist_port, epmd_port) = (free_port(), free_port(), free_port());

        // It would start a daemon of its own, which outlives it.
        let mut names = Command::new(epmd);
        names.args(["-address", "127.0.0.1", "-port", &epmd_port.to_string()]);
        let epmd =
            Server::start(&mut names, libc::SIGTERM, env.dir.join("epmd.log")).listening(epmd_port);

        let mut command = Command::new(rabbitmq);
        command
            .current_dir(&dir) // where it would leave a dump of a crash
            .env("HOME", &dir)
            .env("RABBITMQ_NODENAME", format!("ws-{port}@localhost"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", dist_port.to_string())
            .env("ERL_EPMD_PORT", epmd_port.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_MNESIA_BASE", dir.join("mnesia"))
            .env("RABBITMQ_LOGS", "-") // to stdout, instead of a file of its own
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", dir.join("plugins"))
            .env("RABBITMQ_CONFIG_FILE", dir.join("rabbitmq.conf"))
            .env("RABBITMQ_PID_FILE", dir.join("pid"))
            // One process instead of a shell and a process, so that it can be stopped by its own
            // number.
            .env("RUNNING_UNDER_SYSTEMD", "1")
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
            );
        let log = env.dir.join("rabbitmq.log");
        let mut broker = Self {
            epmd,
            server: None,
            command,
            log,
            port,
        };
        broker.run();
        Some(broker)
    }

    fn run(&mut self) {
        let server = Server::start(&mut self.command, libc::SIGTERM, self.log.clone());
        self.server = Some(server.listening(self.port));
    }

    /// Stops it in good order and starts it again.
    fn restart(&mut self) {
        self.server = None;
        self.run();
    }

    /// Stops it in good order, and gives back all that it has said.
    async fn stop(self) -> String {
        let log = self.log.clone();
        ws::spawn_blocking(|| drop(self)).await.unwrap();
        fs::read_to_string(log).unwrap()
    }

    /// Has the Erlang VM stand still, which is all of the broker. Its sockets stay open.
    fn freeze(&self) -> Frozen<'_> {
        self.server.as_ref().unwrap().freeze()
    }

    fn url(&self, options: &str) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f{options}", self.port)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.server = None; // before the daemon that knows its name
        let _last = &self.epmd;
    }
}

async fn connect(url: &str) -> lapin::Result<(Connection, Channel)> {
    let runtime = async_rs::Runtime::new(Kit::current());
    let connection =
        Connection::connect_with_runtime(url, ConnectionProperties::default(), runtime).await?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

/// Connects, also if the broker is still about to start.
async fn connect_patiently(url: &str) -> (Connection, Channel) {
    for _ in 0..300 {
        // It may also take a connection, and be too young to answer on it.
        match ws::time::timeout(Duration::from_secs(10), connect(url)).await {
            Ok(Ok(connected)) => return connected,
            Ok(Err(_)) | Err(_) => ws::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("the broker does not come back");
}

async fn declare(channel: &Channel, queue: &str) -> u32 {
    let declared = channel
        .queue_declare(
            queue.into(),
            QueueDeclareOptions::durable(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    declared.message_count()
}

/// Publishes messages, all before the first confirmation is awaited.
async fn publish(channel: &Channel, queue: &str, messages: impl Iterator<Item = Vec<u8>>) -> usize {
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .unwrap();
    let mut confirmations = Vec::new();
    for message in messages {
        let persistent = BasicProperties::default().with_delivery_mode(2);
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish("".into(), queue.into(), options, &message, persistent);
        confirmations.push(sent.await.unwrap());
    }
    let count = confirmations.len();
    for confirmation in confirmations {
        assert_eq!(confirmation.await.unwrap(), Confirmation::Ack(None));
    }
    count
}

async fn subscribe(channel: &Channel, queue: &str) -> Consumer {
    let consumer = channel.basic_consume(
        queue.into(),
        "".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    consumer.await.unwrap()
}

/// Takes the next message, and does not acknowledge it.
async fn take(consumer: &mut Consumer) -> Delivery {
    consumer.next().await.unwrap().unwrap()
}

/// Takes and acknowledges so many messages.
async fn consume(consumer: &mut Consumer, count: usize) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let delivery = take(consumer).await;
        delivery
            .acker
            .ack(BasicAckOptions::default())
            .await
            .unwrap();
        messages.push(delivery.data);
    }
    messages
}

/// How many jobs the broker gives to a worker before it acknowledges one.
fn in_hand() -> usize {
    2 * std::thread::available_parallelism().unwrap().get()
}

/// A process of the example `jobs`. What it says goes to `said` line by line, with its number.
struct Worker {
    child: Child,
}

impl Worker {
    fn start(number: usize, url: &str, said: &mpsc::UnboundedSender<(usize, String)>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobs"));
        command
            .args(["work", url])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = bind_to_us(&mut command).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let said = said.clone();
        crate::harness::thread(move || {
            stdout
                .lines()
                .for_each(|line| drop(said.unbounded_send((number, line.unwrap()))))
        });
        Self { child }
    }

    fn kill(mut self) {
        signal(&self.child, libc::SIGKILL);
        assert!(!self.child.wait().unwrap().success());
    }

    /// Asks it to end, which it does when its jobs are done.
    fn stop(mut self) {
        signal(&self.child, libc::SIGTERM);
        let status = wait(&mut self.child, Duration::from_secs(60));
        assert!(status.expect("the worker ends").success());
    }
}

proofs! {
    /// 1,000 messages are published, each is confirmed, and each comes once and in order.
    async fn a_thousand_confirmed_messages(env) {
        env.allow_threads(LAPIN);
        let Some(broker) = Broker::start(&env) else { return };
        let (connection, channel) = connect_patiently(&broker.url("")).await;
        declare(&channel, "numbers").await;
        let message = |n: u64| bytes(n as usize % 5_000, n);
        assert_eq!(publish(&channel, "numbers", (0..1_000).map(message)).await, 1_000);
        let messages = consume(&mut subscribe(&channel, "numbers").await, 1_000).await;
        assert!(messages.into_iter().eq((0..1_000).map(message)));
        assert_eq!(declare(&channel, "numbers").await, 0);
        connection.close(200, "done".into()).await.unwrap();
    }

    /// With a heartbeat of three seconds, a connection on which nothing is said for 15 lives on:
    /// the broker closes one that it has not heard of for about two.
    async fn heartbeats_keep_an_idle_connection(env) {
        env.allow_threads(LAPIN);
        let Some(broker) = Broker::start(&env) else { return };
        let (connection, channel) = connect_patiently(&broker.url("?heartbeat=3")).await;
        assert_eq!(connection.configuration().heartbeat(), 3);
        ws::time::sleep(Duration::from_secs(15)).await;
        declare(&channel, "still there").await;
        connection.close(200, "done".into()).await.unwrap();
        let log = broker.stop().await;
        assert!(log.contains("accepting AMQP connection"), "{log}");
        assert!(!log.contains("missed heartbeats"), "{log}");
    }

    /// The broker stands still: its connections are open, and nothing comes. On the one with a
    /// heartbeat, lapin notices, and all that waits there ends with that error. The same question
    /// on one without waits until the broker goes on, and is answered. A new connection gets the
    /// message that was not acknowledged on the first.
    async fn a_heartbeat_ends_the_wait_for_a_frozen_broker(env) {
        env.allow_threads(LAPIN);
        let Some(broker) = Broker::start(&env) else { return };
        let (patient, patient_channel) = connect_patiently(&broker.url("")).await;
        assert_eq!(patient.configuration().heartbeat(), 0);
        let url = broker.url("?heartbeat=3");
        let (connection, channel) = connect_patiently(&url).await;
        assert_eq!(connection.configuration().heartbeat(), 3);
        declare(&channel, "numbers").await;
        let message = |n: u64| bytes(1_000, n);
        publish(&channel, "numbers", (0..1).map(message)).await;
        let mut consumer = subscribe(&channel, "numbers").await;
        let taken = take(&mut consumer).await;
        assert!(!taken.redelivered && taken.data == message(0));

        let frozen = broker.freeze();
        let mut waits_on = pin!(declare(&patient_channel, "numbers"));
        assert!(poll!(waits_on.as_mut()).is_pending());
        // To a queue that is not there, so that it is the same whether it comes to the broker in
        // the end.
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        let sent = channel.basic_publish("".into(), "nowhere".into(), options, b"", properties);
        let confirmation = sent.await.unwrap();
        let options = QueueDeclareOptions::durable();
        let question = channel.queue_declare("numbers".into(), options, FieldTable::default());
        let (next, answer, confirmed) = join!(consumer.next(), question, confirmation);
        for error in [next.unwrap().unwrap_err(), answer.unwrap_err(), confirmed.unwrap_err()] {
            assert!(matches!(error.kind(), ErrorKind::MissingHeartbeatError), "{error:?}");
        }
        assert!(connection.status().errored());
        assert!(patient.status().connected() && poll!(waits_on.as_mut()).is_pending());

        drop(frozen);
        waits_on.await;
        let (connection, channel) = connect_patiently(&url).await;
        let mut consumer = subscribe(&channel, "numbers").await;
        let again = take(&mut consumer).await;
        assert!(again.redelivered && again.data == message(0));
        again.acker.ack(BasicAckOptions::default()).await.unwrap();
        publish(&channel, "numbers", (1..100).map(message)).await;
        assert!(consume(&mut consumer, 99).await.into_iter().eq((1..100).map(message)));
        assert_eq!(declare(&channel, "numbers").await, 0);
        for connection in [patient, connection] {
            connection.close(200, "done".into()).await.unwrap();
        }
    }

    /// The broker stops: channel and consumer are told. It starts again: what was confirmed before
    /// is there, once and in order.
    async fn messages_survive_a_restart_of_the_broker(env) {
        env.allow_threads(LAPIN);
        let Some(mut broker) = Broker::start(&env) else { return };
        let url = broker.url("");
        let (_connection, channel) = connect_patiently(&url).await;
        declare(&channel, "numbers").await;
        let message = |n: u64| bytes(1_000, n);
        publish(&channel, "numbers", (0..500).map(message)).await;
        let mut consumer = subscribe(&channel, "numbers").await;
        let first = consume(&mut consumer, 100).await;
        assert!(first.into_iter().eq((0..100).map(message)));

        // The consumer above took more than it acknowledged. Those go back to the queue.
        broker = ws::spawn_blocking(move || {
            broker.restart();
            broker
        })
        .await
        .unwrap();
        assert!(!channel.status().connected(), "the channel was told");
        let told = loop {
            match consumer.next().await {
                Some(Ok(_taken_before)) => {}
                other => break other,
            }
        };
        assert!(matches!(told, Some(Err(_))), "{told:?}");
        let (connection, channel) = connect_patiently(&url).await;
        let rest = consume(&mut subscribe(&channel, "numbers").await, 400).await;
        assert!(rest.into_iter().eq((100..500).map(message)));
        assert_eq!(declare(&channel, "numbers").await, 0);
        connection.close(200, "done".into()).await.unwrap();
        drop(broker);
    }

    /// A broker that takes a connection and says nothing is not waited for for ever.
    async fn publishing_to_a_silent_broker_ends(env) {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("amqp://guest:guest@{}/%2f", silent.local_addr().unwrap());
        let mut publish = Command::new(env!("CARGO_BIN_EXE_jobs"));
        publish.args(["publish", &url, "1"]);
        let output = output(publish).await;
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "jobs: deadline has elapsed\n");
    }

    /// Three workers share the jobs. One is killed while it works, and replaced; the broker is
    /// restarted. What they had in their hands is given out again. In the end each job has its
    /// result, none that a worker has reported as acknowledged was done again, and none is left.
    async fn jobs_survive_a_killed_worker_and_a_restarted_broker(env) {
        env.allow_threads(LAPIN);
        let in_hand = in_hand();
        let jobs = 20 * in_hand;
        let Some(mut broker) = Broker::start(&env) else { return };
        let url = broker.url("");
        let (connection, channel) = connect_patiently(&url).await;
        let mut publish = Command::new(env!("CARGO_BIN_EXE_jobs"));
        publish.args(["publish", &url, &jobs.to_string()]);
        assert_eq!(crate::harness::stdout(publish).await, format!("published {jobs} jobs\n"));

        let (said, mut lines) = mpsc::unbounded();
        let mut workers = vec![Worker::start(0, &url, &said)];
        let mut acknowledged = BTreeSet::new();
        // Whether a job was acknowledged, or else one was given out that had been before.
        let mut note = |line: &str| match line.split_once(' ') {
            Some(("acknowledged", job)) => {
                assert!(acknowledged.insert(job.to_owned()), "job {job} was acknowledged twice");
                true
            }
            Some(("again", _)) => false,
            _ => panic!("a worker said {line:?}"),
        };
        // The others come when it is at work: on a busy machine they could have done all before it
        // begins.
        while !note(&lines.next().await.unwrap().1) {}
        workers.extend((1..3).map(|n| Worker::start(n, &url, &said)));
        // It has acknowledged one, and more are waiting: so it has others in its hands.
        assert!(declare(&channel, "jobs").await > 0, "all jobs are given out before the kill");
        workers.remove(0).kill();
        workers.push(Worker::start(3, &url, &said));
        // Those are the only ones that were given out before.
        while note(&lines.next().await.unwrap().1) {
            assert!(declare(&channel, "jobs").await > 0, "all jobs are given out before the restart");
        }
        connection.close(200, "done".into()).await.unwrap();
        broker = ws::spawn_blocking(move || {
            broker.restart();
            broker
        })
        .await
        .unwrap();

        let (connection, channel) = connect_patiently(&url).await;
        // All jobs are done when none is left in the queue and the workers have finished what they
        // had.
        while declare(&channel, "jobs").await > 0 {
            ws::time::sleep(Duration::from_millis(50)).await;
        }
        for worker in workers {
            ws::spawn_blocking(|| worker.stop()).await.unwrap();
        }
        drop(said);
        while let Some((_, line)) = lines.next().await {
            note(&line);
        }
        assert_eq!(declare(&channel, "jobs").await, 0);

        let count = declare(&channel, "results").await as usize;
        let mut results: BTreeMap<usize, usize> = BTreeMap::new();
        let mut twice = BTreeSet::new();
        for result in consume(&mut subscribe(&channel, "results").await, count).await {
            let result = String::from_utf8(result).unwrap();
            let (job, primes) = result.split_once(' ').unwrap();
            let (job, primes) = (job.parse().unwrap(), primes.parse().unwrap());
            if let Some(before) = results.insert(job, primes) {
                assert_eq!(before, primes);
                twice.insert(job);
            }
        }
        assert!(results.keys().copied().eq(0..jobs));
        let is_prime = |n: &usize| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
        let mut expected = (2..100_000).filter(is_prime).count();
        for (job, primes) in results {
            let limit = 100_000 + job;
            assert_eq!(primes, expected, "primes below {limit}");
            expected += usize::from(is_prime(&limit));
        }
        // Only what a worker had in its hands when it was killed, or when it lost the broker, may
        // have two results, or may be acknowledged without anybody hearing of it.
        assert!(twice.len() <= 4 * in_hand, "{twice:?}");
        assert!(acknowledged.len() + 4 * in_hand >= jobs, "{}", acknowledged.len());
        connection.close(200, "done".into()).await.unwrap();
        drop(broker);
    }

    /// A worker stands still while it works: its connection is open, and nothing comes. The broker
    /// misses its heartbeats, and gives what it had in its hands to another. When it goes on, it
    /// connects again, and works.
    async fn a_frozen_worker_loses_its_jobs_to_another(env) {
        env.allow_threads(LAPIN);
        let jobs = 40 * in_hand();
        let Some(broker) = Broker::start(&env) else { return };
        let url = broker.url("?heartbeat=3");
        let (connection, channel) = connect_patiently(&broker.url("")).await;
        let mut publish_jobs = Command::new(env!("CARGO_BIN_EXE_jobs"));
        publish_jobs.args(["publish", &url, &jobs.to_string()]);
        assert_eq!(crate::harness::stdout(publish_jobs).await, format!("published {jobs} jobs\n"));

        let (said, mut lines) = mpsc::unbounded();
        let first = Worker::start(1, &url, &said);
        // What each worker has said.
        let mut acknowledged = BTreeSet::new();
        let mut again = BTreeSet::new();
        let mut note = |(number, line): (usize, String)| {
            let (what, job) = line.split_once(' ').unwrap();
            let jobs = match what {
                "acknowledged" => &mut acknowledged,
                "again" => &mut again,
                _ => panic!("a worker said {line:?}"),
            };
            assert!(jobs.insert((number, job.to_owned())), "{number} said twice {line:?}");
            (number, line)
        };
        note(lines.next().await.unwrap());
        let frozen = freeze(&first.child);
        // More are waiting: so it has others in its hands.
        assert!(declare(&channel, "jobs").await > 0, "all jobs are given out before it stands still");
        let second = Worker::start(2, &url, &said);
        while !note(lines.next().await.unwrap()).1.starts_with("again ") {}
        let mut consumer = subscribe(&channel, "results").await;
        let mut results = BTreeSet::new();
        while results.len() < jobs {
            let result = String::from_utf8(consume(&mut consumer, 1).await.remove(0)).unwrap();
            results.insert(result.split_once(' ').unwrap().0.parse::<usize>().unwrap());
        }
        assert!(results.into_iter().eq(0..jobs));
        ws::spawn_blocking(|| second.stop()).await.unwrap();
        assert_eq!(declare(&channel, "jobs").await, 0);

        drop(frozen);
        let job = jobs.to_string();
        publish(&channel, "jobs", [job.clone().into_bytes()].into_iter()).await;
        while note(lines.next().await.unwrap()) != (1, format!("acknowledged {job}")) {}
        ws::spawn_blocking(|| first.stop()).await.unwrap();
        drop(said);
        while let Some(line) = lines.next().await {
            note(line);
        }
        // What the first had acknowledged was not given out again, and the second was given only
        // what was.
        for (number, job) in again {
            assert_eq!(number, 2, "job {job} came to the first worker again");
            assert!(!acknowledged.contains(&(1, job.clone())), "job {job} is done again");
        }
        connection.close(200, "done".into()).await.unwrap();
        let log = broker.stop().await;
        assert!(log.contains("missed heartbeats from client"), "{log}");
    }
}
