//! sqlx with SQLite, which it runs on threads of its own, on a file.

use std::{path::Path, time::Duration};

use futures_util::TryStreamExt;
use sqlx::{
    ConnectOptions, Connection, Row, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::task::JoinSet;

fn options(folder: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(folder.join("data.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Off)
        .busy_timeout(Duration::from_secs(600))
}

async fn pool(folder: &Path) -> Result<SqlitePool, sqlx::Error> {
    SqlitePoolOptions::new()
        .max_connections(4)
        .acquire_timeout(Duration::from_secs(600))
        .connect_with(options(folder))
        .await
}

#[tokio::test]
async fn what_is_written_stays_in_the_file() -> Result<(), sqlx::Error> {
    let folder = tempfile::tempdir()?;
    let mut connection = options(folder.path()).connect().await?;
    sqlx::query("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        .execute(&mut connection)
        .await?;
    let id = sqlx::query("INSERT INTO users (name) VALUES (?)")
        .bind("Alice")
        .execute(&mut connection)
        .await?
        .last_insert_rowid();
    let error = sqlx::query("INSERT INTO users (name) VALUES (NULL)")
        .execute(&mut connection)
        .await
        .unwrap_err();
    let kind = error.as_database_error().unwrap().kind();
    assert!(kind == sqlx::error::ErrorKind::NotNullViolation, "{error}");
    connection.close().await?;

    let mut connection = options(folder.path())
        .create_if_missing(false)
        .connect()
        .await?;
    let user = sqlx::query("SELECT id, name FROM users")
        .fetch_one(&mut connection)
        .await?;
    assert_eq!((user.get(0), user.get(1)), (id, "Alice"));
    connection.close().await
}

/// Counts in a transaction that reads and writes apart.
async fn count(pool: &SqlitePool, task: u32) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    let n: i64 = sqlx::query_scalar("SELECT n FROM counter")
        .fetch_one(&mut *transaction)
        .await?;
    sqlx::query("UPDATE counter SET n = ?")
        .bind(n + 1)
        .execute(&mut *transaction)
        .await?;
    match task % 3 {
        0 => transaction.commit().await?,
        1 => transaction.rollback().await?,
        // A drop rolls back too.
        _ => drop(transaction),
    }
    Ok(())
}

async fn many_tasks_count() -> Result<(), sqlx::Error> {
    let folder = tempfile::tempdir()?;
    let pool = pool(folder.path()).await?;
    sqlx::raw_sql("CREATE TABLE counter (n INTEGER); INSERT INTO counter VALUES (0)")
        .execute(&pool)
        .await?;
    let mut tasks = JoinSet::new();
    for task in 0..200 {
        let pool = pool.clone();
        tasks.spawn(async move { count(&pool, task).await });
    }
    for done in tasks.join_all().await {
        done?;
    }
    let n: i64 = sqlx::query_scalar("SELECT n FROM counter")
        .fetch_one(&pool)
        .await?;
    assert_eq!(n, 67);
    assert!(pool.size() <= 4);
    pool.close().await;
    Ok(())
}

#[tokio::test]
async fn many_tasks_count_on_one_thread() -> Result<(), sqlx::Error> {
    many_tasks_count().await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_count_on_several_threads() -> Result<(), sqlx::Error> {
    many_tasks_count().await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_as_a_stream() -> Result<(), sqlx::Error> {
    let folder = tempfile::tempdir()?;
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(options(folder.path()))
        .await?;
    let numbers = "WITH RECURSIVE all_of (n) AS
        (SELECT 1 UNION ALL SELECT n + 1 FROM all_of WHERE n < ?) SELECT n FROM all_of";
    let mut rows = sqlx::query_scalar::<_, i64>(numbers)
        .bind(20_000)
        .fetch(&pool);
    let mut expected = 0;
    while let Some(n) = rows.try_next().await? {
        expected += 1;
        assert_eq!(n, expected);
    }
    assert_eq!(expected, 20_000);
    drop(rows);

    // A stream that is dropped ends its query, which itself never ends, and gives the only
    // connection back.
    let mut rows = sqlx::query_scalar::<_, i64>(numbers)
        .bind(i64::MAX)
        .fetch(&pool);
    assert_eq!(rows.try_next().await?, Some(1));
    drop(rows);
    let one: i64 = sqlx::query_scalar("SELECT 1").fetch_one(&pool).await?;
    assert_eq!(one, 1);
    pool.close().await;
    Ok(())
}
