//! tokio-postgres, sqlx, and deadpool-postgres, as their own documentation has them.

use std::{collections::HashSet, io::Cursor, str::FromStr, sync::Arc, time::Duration};

use deadpool_postgres::{
    Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use futures_util::{SinkExt, StreamExt, TryStreamExt, future::try_join_all, pin_mut, stream};
use sqlx::{
    Connection, PgPool,
    postgres::{PgListener, PgPoolOptions},
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_postgres::{AsyncMessage, Client, NoTls, error::SqlState};
use ws_test_servers::Server;

fn url(server: &Server) -> String {
    format!("postgres://ws@{}/postgres", server.address())
}

async fn connect(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&url(server), NoTls).await.unwrap();
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("connection error: {error}");
        }
    });
    client
}

/// Returns once the server is at work on a query that has `text`.
async fn until_active(client: &Client, text: &str) {
    let active = "SELECT 1 FROM pg_stat_activity
        WHERE state = 'active' AND pid <> pg_backend_pid() AND strpos(query, $1) > 0";
    while client.query(active, &[&text]).await.unwrap().is_empty() {}
}

#[tokio::test]
async fn a_client_queries() -> Result<(), tokio_postgres::Error> {
    let server = ws_test_servers::postgres();
    let client = connect(&server).await;
    let rows = client.query("SELECT $1::TEXT", &[&"hello world"]).await?;
    let value: &str = rows[0].get(0);
    assert_eq!(value, "hello world");

    let error = client.query("SELECT 1 / 0", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
    // A row at a time.
    let rows = client
        .query_raw("SELECT generate_series(1, 50000)", [0; 0])
        .await?;
    let sum = rows
        .try_fold(
            0,
            async |sum, row| Ok(sum + i64::from(row.get::<_, i32>(0))),
        )
        .await?;
    assert_eq!(sum, 50_000 * 50_001 / 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_pipelines_what_many_tasks_ask() -> Result<(), tokio_postgres::Error> {
    let server = ws_test_servers::postgres();
    let client = Arc::new(connect(&server).await);
    client
        .batch_execute("CREATE TABLE numbers (task INT NOT NULL, n INT NOT NULL)")
        .await?;
    let insert = client
        .prepare("INSERT INTO numbers (task, n) VALUES ($1, $2) RETURNING n")
        .await?;
    let mut tasks = JoinSet::new();
    for task in 0..20 {
        let (client, insert) = (client.clone(), insert.clone());
        tasks.spawn(async move {
            let inserts = (0..50).map(|n| {
                let (client, insert) = (&client, &insert);
                async move { client.query_one(insert, &[&task, &n]).await }
            });
            try_join_all(inserts).await
        });
    }
    while let Some(rows) = tasks.join_next().await {
        let got: Vec<i32> = rows.unwrap()?.iter().map(|row| row.get(0)).collect();
        assert_eq!(got, Vec::from_iter(0..50));
    }
    let row = client
        .query_one(
            "SELECT COUNT(*), COUNT(DISTINCT (task, n)) FROM numbers",
            &[],
        )
        .await?;
    assert_eq!((row.get(0), row.get(1)), (1000_i64, 1000_i64));
    Ok(())
}

#[tokio::test]
async fn a_copy_goes_in_and_comes_out() -> Result<(), tokio_postgres::Error> {
    let server = ws_test_servers::postgres();
    let client = connect(&server).await;
    client
        .batch_execute("CREATE TEMPORARY TABLE lines (n INT, line TEXT)")
        .await?;
    let line = "x".repeat(1000);
    let sink = client.copy_in("COPY lines FROM STDIN").await?;
    pin_mut!(sink);
    for n in 0..5000 {
        sink.feed(Cursor::new(format!("{n}\t{line}\n"))).await?;
    }
    assert_eq!(sink.finish().await?, 5000);

    let copied = client.copy_out("COPY lines TO STDOUT").await?;
    let length = copied
        .try_fold(0, async |length, part| Ok(length + part.len()))
        .await?;
    let expected: usize = (0..5000).map(|n: i32| n.to_string().len() + 1002).sum();
    assert_eq!(length, expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_notified() -> Result<(), tokio_postgres::Error> {
    let server = ws_test_servers::postgres();
    let (listener, mut connection) = tokio_postgres::connect(&url(&server), NoTls).await?;
    let (sender, mut messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut all = stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(message) = all.next().await {
            if let AsyncMessage::Notification(notification) = message.unwrap() {
                sender.send(notification.payload().to_owned()).unwrap();
            }
        }
    });
    listener.batch_execute("LISTEN news").await?;
    let other = connect(&server).await;
    for n in 0..100 {
        other
            .execute("SELECT pg_notify('news', $1)", &[&n.to_string()])
            .await?;
    }
    for n in 0..100 {
        assert_eq!(messages.recv().await, Some(n.to_string()));
    }
    // The connection ends with its client.
    drop(listener);
    assert_eq!(messages.recv().await, None);
    Ok(())
}

#[tokio::test]
async fn a_query_is_cancelled() -> Result<(), tokio_postgres::Error> {
    let server = ws_test_servers::postgres();
    let (client, other) = (Arc::new(connect(&server).await), connect(&server).await);
    let token = client.cancel_token();
    let long = tokio::spawn({
        let client = client.clone();
        async move { client.batch_execute("SELECT pg_sleep(600)").await }
    });
    until_active(&other, "pg_sleep").await;
    token.cancel_query(NoTls).await?;
    let error = long.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
    // The connection itself goes on.
    let one: i32 = client.query_one("SELECT 1", &[]).await?.get(0);
    assert_eq!(one, 1);
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_killed_ends_the_query() {
    let mut server = ws_test_servers::postgres();
    let (client, other) = (Arc::new(connect(&server).await), connect(&server).await);
    let long = tokio::spawn({
        let client = client.clone();
        async move { client.batch_execute("SELECT pg_sleep(600)").await }
    });
    until_active(&other, "pg_sleep").await;
    // The server's own processes end when they see that the first one has.
    server.kill();
    assert!(long.await.unwrap().is_err());
    assert!(client.query("SELECT 1", &[]).await.is_err());
    assert!(tokio_postgres::connect(&url(&server), NoTls).await.is_err());
}

#[tokio::test]
async fn sqlx_queries() -> Result<(), sqlx::Error> {
    let server = ws_test_servers::postgres();
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect(&url(&server))
        .await?;
    let row: (i64,) = sqlx::query_as("SELECT $1")
        .bind(150_i64)
        .fetch_one(&pool)
        .await?;
    assert_eq!(row.0, 150);

    let mut rows = sqlx::query_scalar::<_, i32>("SELECT generate_series(1, $1)")
        .bind(50_000)
        .fetch(&pool);
    let mut expected = 0;
    while let Some(n) = rows.try_next().await? {
        expected += 1;
        assert_eq!(n, expected);
    }
    assert_eq!(expected, 50_000);
    drop(rows);

    // A stream that is dropped in its middle leaves the only connection of use.
    let mut rows = sqlx::query("SELECT generate_series(1, 50000)").fetch(&pool);
    assert!(rows.try_next().await?.is_some());
    drop(rows);
    let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(&pool).await?;
    assert_eq!(one, 1);
    pool.close().await;
    assert!(matches!(pool.acquire().await, Err(sqlx::Error::PoolClosed)));
    Ok(())
}

async fn total(pool: &PgPool) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT SUM(amount)::BIGINT FROM accounts")
        .fetch_one(pool)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlx_transactions_of_many_tasks_share_few_connections() -> Result<(), sqlx::Error> {
    let server = ws_test_servers::postgres();
    let pool = PgPoolOptions::new()
        .max_connections(5)
        .acquire_timeout(Duration::from_secs(600))
        .connect(&url(&server))
        .await?;
    sqlx::raw_sql("CREATE TABLE accounts AS SELECT id, 0 AS amount FROM generate_series(0, 3) id")
        .execute(&pool)
        .await?;
    let mut tasks = JoinSet::new();
    for task in 0..200 {
        let pool = pool.clone();
        tasks.spawn(async move {
            let mut transaction = pool.begin().await?;
            let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
                .fetch_one(&mut *transaction)
                .await?;
            // Read and written apart: without its lock the sum would be less.
            let amount: i32 =
                sqlx::query_scalar("SELECT amount FROM accounts WHERE id = $1 FOR UPDATE")
                    .bind(task % 4)
                    .fetch_one(&mut *transaction)
                    .await?;
            sqlx::query("UPDATE accounts SET amount = $1 WHERE id = $2")
                .bind(amount + 1)
                .bind(task % 4)
                .execute(&mut *transaction)
                .await?;
            match task % 3 {
                0 => transaction.commit().await?,
                1 => transaction.rollback().await?,
                // A drop rolls back too.
                _ => drop(transaction),
            }
            Ok::<_, sqlx::Error>(pid)
        });
    }
    let mut pids = HashSet::new();
    while let Some(pid) = tasks.join_next().await {
        pids.insert(pid.unwrap()?);
    }
    assert!((1..=5).contains(&pids.len()), "{pids:?}");
    assert_eq!(total(&pool).await?, 67);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlx_waits_for_a_connection_and_gives_up() -> Result<(), sqlx::Error> {
    let server = ws_test_servers::postgres();
    let options = PgPoolOptions::new().max_connections(1);
    let pool = options
        .clone()
        .acquire_timeout(Duration::from_millis(50))
        .connect_lazy(&url(&server))?;
    // To connect may take longer than that.
    let only = loop {
        match pool.acquire().await {
            Ok(only) => break only,
            Err(error) => assert!(matches!(error, sqlx::Error::PoolTimedOut), "{error}"),
        }
    };
    assert!(matches!(
        pool.acquire().await,
        Err(sqlx::Error::PoolTimedOut)
    ));
    drop(only);

    let pool = options
        .acquire_timeout(Duration::from_secs(600))
        .connect(&url(&server))
        .await?;
    let only = pool.acquire().await?;
    let mut waits = std::pin::pin!(pool.acquire());
    assert!(futures_util::poll!(waits.as_mut()).is_pending());
    drop(only);
    waits.await?.ping().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlx_connects_again() -> Result<(), sqlx::Error> {
    let server = ws_test_servers::postgres();
    let pool = PgPoolOptions::new()
        .max_connections(3)
        .connect(&url(&server))
        .await?;
    let held = [
        pool.acquire().await?,
        pool.acquire().await?,
        pool.acquire().await?,
    ];
    drop(held);
    let other = connect(&server).await;
    // Returns once they have ended.
    let ended = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    let ended = other.query(ended, &[]).await.unwrap();
    assert_eq!(ended.len(), 3);
    assert!(ended.iter().all(|row| row.get(0)));
    for _ in 0..3 {
        let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(&pool).await?;
        assert_eq!(one, 1);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlx_is_notified() -> Result<(), sqlx::Error> {
    let server = ws_test_servers::postgres();
    let pool = PgPool::connect(&url(&server)).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen_all(["one", "two"]).await?;
    let mut tasks = JoinSet::new();
    for n in 0..100 {
        let pool = pool.clone();
        tasks.spawn(async move {
            sqlx::query("SELECT pg_notify($1, $2)")
                .bind(["one", "two"][n % 2])
                .bind(n.to_string())
                .execute(&pool)
                .await
        });
    }
    let mut got = HashSet::new();
    for _ in 0..100 {
        let notification = listener.recv().await?;
        let n = usize::from_str(notification.payload()).unwrap();
        assert_eq!(notification.channel(), ["one", "two"][n % 2]);
        got.insert(n);
    }
    assert_eq!(got, HashSet::from_iter(0..100));
    for done in tasks.join_all().await {
        done?;
    }
    Ok(())
}

fn deadpool(server: &Server, wait: Option<Duration>) -> Pool {
    let config = tokio_postgres::Config::from_str(&url(server)).unwrap();
    let manager_config = ManagerConfig {
        recycling_method: RecyclingMethod::Verified,
    };
    Pool::builder(Manager::from_config(config, NoTls, manager_config))
        .max_size(2)
        .wait_timeout(wait)
        .runtime(Runtime::Tokio1)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn deadpool_keeps_to_its_limit() {
    let server = ws_test_servers::postgres();
    let pool = deadpool(&server, None);
    let mut tasks = JoinSet::new();
    for i in 0..100_i32 {
        let pool = pool.clone();
        tasks.spawn(async move {
            let client = pool.get().await.unwrap();
            let statement = client
                .prepare_cached("SELECT 1 + $1, pg_backend_pid()")
                .await
                .unwrap();
            let row = client.query_one(&statement, &[&i]).await.unwrap();
            assert_eq!(row.get::<_, i32>(0), i + 1);
            row.get::<_, i32>(1)
        });
    }
    let pids = HashSet::<i32>::from_iter(tasks.join_all().await);
    assert!((1..=2).contains(&pids.len()), "{pids:?}");
    assert!(pool.status().size <= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn deadpool_gives_up() {
    let server = ws_test_servers::postgres();
    let pool = deadpool(&server, Some(Duration::from_millis(50)));
    let (first, _second) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    assert!(matches!(
        pool.get().await,
        Err(PoolError::Timeout(TimeoutType::Wait))
    ));
    drop(first);
    pool.get()
        .await
        .unwrap()
        .query("SELECT 1", &[])
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn deadpool_connects_again() {
    let server = ws_test_servers::postgres();
    let pool = deadpool(&server, None);
    let pid = async || {
        let client = pool.get().await.unwrap();
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
        row.unwrap().get::<_, i32>(0)
    };
    let before = pid().await;
    assert_eq!(pid().await, before);
    let other = connect(&server).await;
    let terminate = "SELECT pg_terminate_backend($1, 60000)";
    let ended = other.query_one(terminate, &[&before]).await.unwrap();
    assert!(ended.get::<_, bool>(0));
    assert_ne!(pid().await, before);
}
