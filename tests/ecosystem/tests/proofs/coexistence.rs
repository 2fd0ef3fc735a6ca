//! Proof 11: libraries that are hard-wired to tokio's runtime, reqwest and sqlx, in tasks of `ws`,
//! through async-compat: it keeps a runtime of tokio's on one thread, and makes it current for each
//! poll of a wrapped future.

use std::time::Duration;

use async_compat::{Compat, CompatExt};
use futures::TryStreamExt;
use http_body_util::Full;
use hyper::{Response, body::Bytes, server::conn::http1, service::service_fn};
use sqlx::{PgPool, Row, postgres::PgPoolOptions};
use ws::{
    hyper::{Io, Timer},
    net::TcpListener,
    task::JoinHandle,
};

use crate::harness::{bytes, proofs};

/// What async-compat starts: a thread for the runtime, and those on which tokio makes blocking
/// calls.
const TOKIO: &[&str] = &["async-compat", "tokio"];

/// What reqwest says outside of tokio's runtime, and what sqlx says.
const NO_REACTOR: &str = "there is no reactor running";
const NO_CONTEXT: &str = "this functionality requires a Tokio context";

/// What a task panics with.
async fn panic_of<T>(task: JoinHandle<T>) -> String {
    let error = task.await.err().expect("the task panics");
    let payload = error.into_panic();
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

proofs! {
    /// reqwest's client, which panics without tokio's runtime, against a server on `ws`.
    async fn reqwest(env) {
        env.allow_threads(TOKIO);
        env.expect_panics(&[NO_REACTOR]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        ws::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let answer = service_fn(async |_| {
                    Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(bytes(100_000, 7)))))
                });
                ws::spawn(http1::Builder::new().timer(Timer).serve_connection(Io::socket(stream), answer));
            }
        });

        let client = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        let bare = panic_of(ws::spawn(reqwest::get(url.clone()))).await;
        assert!(bare.contains(NO_REACTOR), "{bare}");
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (client, url) = (client.clone(), url.clone());
                ws::spawn(Compat::new(async move {
                    for _ in 0..25 {
                        let answer = client.get(&url).send().await.unwrap();
                        assert!(answer.bytes().await.unwrap() == bytes(100_000, 7));
                        // Inside the wrapper both runtimes are there.
                        ws::time::sleep(Duration::from_millis(1)).await;
                    }
                }))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }

    /// A pool of sqlx', which panics without tokio's runtime, shared by tasks of `ws`; a
    /// transaction that is dropped is rolled back.
    async fn sqlx(env) {
        env.allow_threads(TOKIO);
        env.expect_panics(&[NO_CONTEXT]);
        let Some((_postgres, port)) = crate::databases::postgres(&env).await else { return };
        let url = format!("postgres://ws@127.0.0.1:{port}/postgres");
        let connect = url.clone();
        let bare = panic_of(ws::spawn(async move { PgPool::connect(&connect).await })).await;
        assert!(bare.contains(NO_CONTEXT), "{bare}");
        let work = async move {
            let pool: PgPool = PgPoolOptions::new().max_connections(4).connect(&url).await.unwrap();
            sqlx::query("CREATE TABLE t (n BIGINT PRIMARY KEY)").execute(&pool).await.unwrap();
            let tasks: Vec<_> = (0..8_i64)
                .map(|task| {
                    let pool = pool.clone();
                    ws::spawn(
                        async move {
                            for n in 0..50 {
                                let insert = sqlx::query("INSERT INTO t VALUES ($1)").bind(task * 50 + n);
                                assert_eq!(insert.execute(&pool).await.unwrap().rows_affected(), 1);
                            }
                        }
                        .compat(),
                    )
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let mut transaction = pool.begin().await.unwrap();
            sqlx::query("DELETE FROM t").execute(&mut *transaction).await.unwrap();
            drop(transaction);
            let rows = sqlx::query("SELECT n FROM t ORDER BY n").fetch(&pool);
            let rows: Vec<i64> = rows.map_ok(|row| row.get::<i64, _>(0)).try_collect().await.unwrap();
            assert!(rows.into_iter().eq(0..400));
            pool.close().await;
        };
        work.compat().await;
    }
}
