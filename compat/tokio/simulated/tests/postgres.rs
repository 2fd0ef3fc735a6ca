//! tokio-postgres, and a server by pgwire.

#[path = "postgres/server.rs"]
mod server;

use std::{path::PathBuf, sync::Mutex, time::Duration};

use futures::{TryStreamExt, future::try_join_all};
use tokio::net::TcpListener;
use tokio_postgres::{
    Client, NoTls, SimpleQueryMessage,
    types::{ToSql, Type},
};
use tokio_simulated::{Error, Faults, Protocol, again, check, wrong};

const INSERT: &str = "INSERT INTO lines VALUES ($1, $2)";
const LINES: &str = "SELECT n, line FROM lines ORDER BY n";

async fn connect(server: &str) -> Result<Client, Error> {
    let url = format!("postgres://ws@{server}/db");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn lines(client: &Client) -> Result<Vec<String>, Error> {
    let rows = client.query_typed(LINES, &[]).await?;
    let line = |row: &tokio_postgres::Row| {
        let (n, line): (i64, &str) = (row.get(0), row.get(1));
        format!("{n}: {line}")
    };
    Ok(rows.iter().map(line).collect())
}

struct Postgres;

impl Protocol for Postgres {
    type Answers = Vec<String>;

    /// The names of prepared statements, `s0`, `s1`, are numbers of the whole process.
    const COUNTS_IN_THE_PROCESS: bool = true;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        server::serve(listener, None).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let mut client = connect(&server).await?;
        let row = client.query_one("SELECT $1::TEXT", &[&"hello"]).await?;
        let mut answers = vec![row.get(0)];
        let error = client.query("SELECT 1 / 0", &[]).await.unwrap_err();
        answers.push(format!("{:?}", error.code()));
        answers.push(format!(
            "{:?}",
            client.query("SELEC", &[]).await.unwrap_err().code()
        ));

        // One connection pipelines what many ask.
        let insert = client.prepare(INSERT).await?;
        let inserts = (0..30_i64).map(|n| {
            let (client, insert) = (&client, &insert);
            async move { client.execute(insert, &[&n, &format!("line {n}")]).await }
        });
        answers.push(format!("{:?}", try_join_all(inserts).await?));

        for is_kept in [true, false] {
            let transaction = client.transaction().await?;
            let n = if is_kept { 100_i64 } else { 101 };
            transaction
                .execute(&insert, &[&n, &"of a transaction"])
                .await?;
            if is_kept {
                transaction.commit().await?;
            }
        }
        answers.extend(lines(&client).await?);
        for message in client.simple_query(LINES).await? {
            if let SimpleQueryMessage::Row(row) = message {
                answers.push(format!("{:?} {:?}", row.get("n"), row.get("line")));
            }
        }
        // A row at a time: more than a window.
        let rows = client.query_raw("SELECT generate_series(1, $1)", [5_000_i64]);
        let add = |sum, row: tokio_postgres::Row| async move { Ok(sum + row.get::<_, i64>(0)) };
        answers.push(rows.await?.try_fold(0, add).await?.to_string());
        Ok(answers)
    }
}

/// The file of the server that is killed: its own one in each run of these tests on sockets.
fn table() -> PathBuf {
    // Without the number of the process, which is another one after each start of a host.
    std::env::temp_dir().join("tokio-simulated-table")
}

/// A client that connects again. What it was told to be in the table is there after each crash.
struct Durable;

impl Protocol for Durable {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        server::serve(listener, Some(table())).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let open = Mutex::new(None);
        let mut told = Vec::new();
        for n in 0..20_i64 {
            again(|| async {
                let client = connected(&open, &server).await?;
                let values = [
                    (&n as &(dyn ToSql + Sync), Type::INT8),
                    (&"durable", Type::TEXT),
                ];
                client.execute_typed(INSERT, &values).await?;
                *open.lock().unwrap() = Some(client);
                Ok(())
            })
            .await;
            told.push(format!("{n}: durable"));
            let lines = again(|| async {
                let client = connected(&open, &server).await?;
                let lines = lines(&client).await?;
                *open.lock().unwrap() = Some(client);
                Ok(lines)
            })
            .await;
            if lines != told {
                return Err(wrong(&format!("{told:?} was told, and there is {lines:?}")));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(told)
    }
}

/// The open connection, or a new one. It is taken out, so one that fails is not used again.
async fn connected(open: &Mutex<Option<Client>>, server: &str) -> Result<Client, Error> {
    let open = open.lock().unwrap().take();
    match open {
        Some(client) => Ok(client),
        None => connect(server).await,
    }
}

#[test]
fn postgres_is_as_on_sockets() {
    check::<Postgres>(0..100, Faults::Network);
}

#[test]
fn what_a_client_was_told_to_be_saved_outlives_crashes_of_the_server() {
    check::<Durable>(0..100, Faults::Crashes);
    std::fs::remove_file(table()).unwrap();
}
