//! Proof 9: tokio-postgres, by `connect_raw`, against PostgreSQL, and redis-rs against Redis.

use std::{
    future::poll_fn, os::unix::fs::chown, os::unix::process::CommandExt, path::Path,
    process::Command,
};

use futures::{StreamExt, channel::mpsc, future::try_join_all};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, Value,
    aio::MultiplexedConnection,
};
use tokio_postgres::{AsyncMessage, Config, NoTls, config::SslMode};
use ws::net::{TcpStream, UnixStream};

use crate::harness::{Env, Server, bytes, free_port, local, proofs, stdout};

/// The numbers of user and group `postgres`: PostgreSQL refuses to run as root.
fn postgres_ids() -> Option<(u32, u32)> {
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let entry = passwd.lines().find(|line| line.starts_with("postgres:"));
    let mut fields = entry
        .expect("Debian's package makes the user")
        .split(':')
        .skip(2);
    let mut id = || fields.next().unwrap().parse().unwrap();
    Some((id(), id()))
}

fn as_postgres(program: &Path, ids: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/");
    if let Some((user, group)) = ids {
        command.uid(user).gid(group);
    }
    command
}

/// A new PostgreSQL, and its port. Its socket for Unix is in the folder `data`.
pub(crate) async fn postgres(env: &Env) -> Option<(Server, u16)> {
    let postgres = crate::harness::find("postgres")?;
    let initdb = crate::harness::find("initdb")?;
    let data = env.dir.join("data");
    std::fs::create_dir(&data).unwrap();
    let ids = postgres_ids();
    if let Some((user, group)) = ids {
        chown(&data, Some(user), Some(group)).unwrap();
    }
    let mut init = as_postgres(&initdb, ids);
    init.args([
        "--no-sync",
        "--auth=trust",
        "--username=ws",
        "--encoding=UTF8",
        "--locale=C",
    ]);
    stdout({
        init.arg(&data);
        init
    })
    .await;

    let port = free_port();
    let mut command = as_postgres(&postgres, ids);
    command
        .arg("-D")
        .arg(&data)
        .arg("-p")
        .arg(port.to_string())
        .arg("-k")
        .arg(&data);
    command.args([
        "-h",
        "127.0.0.1",
        "-F",
        "-c",
        "shared_buffers=16MB",
        "-c",
        "max_connections=20",
    ]);
    let server = Server::start(&mut command, libc::SIGINT, env.dir.join("postgres.log"));
    // It listens before it lets anybody in, and says so then.
    let mut server = server.listening(port);
    let log = env.dir.join("postgres.log");
    server.ready(|| {
        std::fs::read_to_string(&log)
            .unwrap()
            .contains("ready to accept connections")
    });
    Some((server, port))
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .user("ws")
        .dbname("postgres")
        .ssl_mode(SslMode::Disable);
    config
}

proofs! {
    /// 1,000 inserts go out before the first answer is awaited; all are there, and each as it was
    /// sent.
    async fn postgres_pipelined_inserts(env) {
        let Some((_postgres, port)) = postgres(&env).await else { return };
        let stream = TcpStream::connect(local(port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (client, connection) = config().connect_raw(stream, NoTls).await.unwrap();
        let connection = ws::spawn(connection);

        client.batch_execute("CREATE TABLE t (n BIGINT PRIMARY KEY, data BYTEA)").await.unwrap();
        let insert = client.prepare("INSERT INTO t VALUES ($1, $2)").await.unwrap();
        let data = |n: i64| bytes(100, n as u64);
        let inserts = (0..1_000_i64).map(|n| {
            let (client, insert) = (&client, &insert);
            async move { client.execute(insert, &[&n, &data(n)]).await }
        });
        let changed = try_join_all(inserts).await.unwrap();
        assert_eq!(changed, [1; 1_000]);

        let rows = client.query("SELECT n, data FROM t ORDER BY n", &[]).await.unwrap();
        assert_eq!(rows.len(), 1_000);
        for (n, row) in (0..).zip(rows) {
            assert_eq!((row.get::<_, i64>(0), row.get::<_, Vec<u8>>(1)), (n, data(n)));
        }
        // The second insert of a key is an error of this one alone.
        let twice = client.execute(&insert, &[&0_i64, &data(0)]).await.unwrap_err();
        assert_eq!(twice.code(), Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION));

        drop(client);
        connection.await.unwrap().unwrap();
    }

    /// Every notification comes once and in order, over a Unix socket.
    async fn postgres_listen_notify(env) {
        let Some((_postgres, port)) = postgres(&env).await else { return };
        let path = env.dir.join("data").join(format!(".s.PGSQL.{port}"));
        let listen = UnixStream::connect(&path).await.unwrap();
        let (listener, mut connection) = config().connect_raw(listen, NoTls).await.unwrap();
        let (send, notified) = mpsc::unbounded();
        ws::spawn(async move {
            // In the end the server goes first, which is an error here.
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(notification) = message {
                    send.unbounded_send(notification.payload().to_owned()).unwrap();
                }
            }
        });
        listener.batch_execute("LISTEN news").await.unwrap();

        let notify = UnixStream::connect(&path).await.unwrap();
        let (notifier, connection) = config().connect_raw(notify, NoTls).await.unwrap();
        ws::spawn(connection);
        for n in 0..1_000 {
            notifier.batch_execute(&format!("NOTIFY news, 'number {n}'")).await.unwrap();
        }
        let payloads: Vec<String> = notified.take(1_000).collect().await;
        let expected: Vec<String> = (0..1_000).map(|n| format!("number {n}")).collect();
        assert_eq!(payloads, expected);
    }

    /// 20,000 commands, in pipelines of 100 from four tasks on one connection, each with its own
    /// answer.
    async fn redis_pipelined_commands(env) {
        let Some((_redis, port)) = redis_server(&env) else { return };
        let connection = redis_connection(port, AsyncConnectionConfig::new()).await;
        let tasks = (0..4).map(|task| {
            let mut connection = connection.clone();
            ws::spawn(async move {
                for pipeline in 0..50 {
                    let mut pipe = redis::pipe();
                    for n in 0..50 {
                        let key = format!("{task}:{pipeline}:{n}");
                        pipe.cmd("SET").arg(&key).arg(format!("value of {key}")).ignore();
                        pipe.cmd("GET").arg(&key);
                    }
                    let answers: Vec<String> = pipe.query_async(&mut connection).await.unwrap();
                    for (n, answer) in answers.iter().enumerate() {
                        assert_eq!(*answer, format!("value of {task}:{pipeline}:{n}"));
                    }
                    assert_eq!(answers.len(), 50);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let mut connection = connection;
        let keys: usize = redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap();
        assert_eq!(keys, 4 * 50 * 50);
    }

    /// Every message of a channel comes once and in order.
    async fn redis_pub_sub(env) {
        let Some((_redis, port)) = redis_server(&env) else { return };
        let (send, pushed) = mpsc::unbounded::<PushInfo>();
        let config = AsyncConnectionConfig::new().set_push_sender(move |push| send.unbounded_send(push));
        let mut subscriber = redis_connection(port, config).await;
        subscriber.subscribe("news").await.unwrap();

        let mut publisher = redis_connection(port, AsyncConnectionConfig::new()).await;
        for n in 0..1_000 {
            let receivers: usize =
                redis::cmd("PUBLISH").arg("news").arg(n).query_async(&mut publisher).await.unwrap();
            assert_eq!(receivers, 1);
        }
        let messages = pushed.filter(|push| futures::future::ready(push.kind == PushKind::Message));
        let messages: Vec<PushInfo> = messages.take(1_000).collect().await;
        let text = |text: String| Value::BulkString(text.into_bytes());
        for (n, message) in messages.into_iter().enumerate() {
            assert_eq!(message.data, [text("news".to_owned()), text(n.to_string())]);
        }
    }
}

fn redis_server(env: &Env) -> Option<(Server, u16)> {
    let redis = crate::harness::find("redis-server")?;
    let port = free_port();
    let mut command = Command::new(redis);
    command.args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--daemonize",
        "no",
    ]);
    command.arg("--dir").arg(env.dir.path());
    let server = Server::start(&mut command, libc::SIGTERM, env.dir.join("redis.log"));
    Some((server.listening(port), port))
}

/// A connection whose driver is a task of `ws`.
///
/// redis-rs asks tokio for the time only if there is a time limit on answers, so there is none
/// here: `ws::time::timeout` around the call does it.
async fn redis_connection(port: u16, config: AsyncConnectionConfig) -> MultiplexedConnection {
    let stream = TcpStream::connect(local(port)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    let config = config.set_response_timeout(None);
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
        .await
        .unwrap();
    ws::spawn(driver);
    connection
}
