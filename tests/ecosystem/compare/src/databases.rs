//! Pipelined inserts by tokio-postgres, pipelined commands by redis-rs.

use std::net::{Ipv4Addr, SocketAddr};

use futures::future::{join_all, try_join_all};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection};
use tokio_postgres::{Config, NoTls, config::SslMode};

use crate::{
    median,
    rt::{Rt, measured, on},
};

const INSERTS: i64 = 1_000;
const PASSES: usize = 10;

fn server(arguments: &[String]) -> SocketAddr {
    let port = arguments.first().and_then(|port| port.parse().ok());
    (
        Ipv4Addr::LOCALHOST,
        port.expect("the parent gives the port"),
    )
        .into()
}

/// The median over the passes, for one of `count` operations.
fn each(passes: &[[f64; 2]], count: usize) -> Vec<f64> {
    let of = |at: usize| median(passes.iter().map(|pass| pass[at] / count as f64).collect());
    vec![of(0), of(1)]
}

pub(crate) fn postgres(runtime: &str, arguments: &[String]) -> Vec<f64> {
    on!(runtime, inserts(server(arguments)))
}

fn inserts<R: Rt>(server: SocketAddr) -> Vec<f64> {
    R::run(async move {
        let mut config = Config::new();
        config
            .user("ws")
            .dbname("postgres")
            .ssl_mode(SslMode::Disable);
        let stream = R::connect(server).await;
        let (client, connection) = config
            .connect_raw(stream, NoTls)
            .await
            .expect("it lets us in");
        drop(R::spawn(async { drop(connection.await) }));
        client
            .batch_execute("CREATE TEMPORARY TABLE t (n BIGINT, data BYTEA)")
            .await
            .expect("a new name");
        let insert = client
            .prepare("INSERT INTO t VALUES ($1, $2)")
            .await
            .expect("good SQL");
        let data = vec![b'x'; 100];
        let pass = async || {
            let inserts = (0..INSERTS).map(|n| {
                let (client, insert, data) = (&client, &insert, &data);
                async move { client.execute(insert, &[&n, data]).await }
            });
            let changed = try_join_all(inserts).await.expect("each is done");
            assert_eq!(changed.len(), INSERTS as usize);
        };
        pass().await;
        let mut passes = Vec::new();
        for _ in 0..PASSES {
            passes.push(measured(pass()).await);
        }
        each(&passes, INSERTS as usize)
    })
}

pub(crate) fn redis(runtime: &str, arguments: &[String]) -> Vec<f64> {
    on!(runtime, commands(server(arguments)))
}

/// 20,000 commands, in pipelines of 100 from four tasks on one connection.
fn commands<R: Rt>(server: SocketAddr) -> Vec<f64> {
    R::run(async move {
        let stream = R::connect(server).await;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let info = RedisConnectionInfo::default();
        let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (connection, driver) = made.expect("it lets us in");
        drop(R::spawn(driver));
        let pass = async || {
            let tasks = (0..4).map(|task| {
                let mut connection = connection.clone();
                R::spawn(async move {
                    for _ in 0..50 {
                        let mut pipe = redis::pipe();
                        for n in 0..50 {
                            let key = format!("{task}:{n}");
                            pipe.cmd("SET").arg(&key).arg("a value").ignore();
                            pipe.cmd("GET").arg(&key);
                        }
                        let answers: Vec<String> = pipe
                            .query_async(&mut connection)
                            .await
                            .expect("an answer each");
                        assert_eq!(answers.len(), 50);
                    }
                })
            });
            join_all(tasks.collect::<Vec<_>>()).await;
        };
        pass().await;
        let mut passes = Vec::new();
        for _ in 0..PASSES {
            passes.push(measured(pass()).await);
        }
        each(&passes, 20_000)
    })
}
