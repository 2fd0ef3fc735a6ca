//! A small SQL server by pgwire: a table of numbered lines, transactions, and some more statements.
//!
//! A connection is a [`Session`]. What a transaction inserts is its own until `COMMIT`.
//!
//! With a path, a commit is in a file before it is answered, so a server that starts again has it.
//! The new table goes to a file of its own and is synced. Then it takes the name of the old one,
//! and the folder is synced.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::stream;
use pgwire::{
    api::{
        ClientInfo, PgWireServerHandlers, PidSecretKeyGenerator, RandomPidSecretKeyGenerator, Type,
        auth::{StartupHandler, noop::NoopStartupHandler},
        portal::{Format, Portal},
        query::{ExtendedQueryHandler, SimpleQueryHandler},
        results::{DataRowEncoder, FieldInfo, QueryResponse, Response, Tag},
        stmt::QueryParser,
    },
    error::{ErrorInfo, PgWireError, PgWireResult},
    tokio::process_socket,
};
use tokio::{fs::File, io::AsyncWriteExt, net::TcpListener};
use tokio_simulated::Error;

type Lines = BTreeMap<i64, String>;

/// Serves for ever.
pub async fn serve(listener: TcpListener, path: Option<PathBuf>) -> Result<(), Error> {
    let table = Arc::new(Table::load(path).await?);
    loop {
        let (stream, _) = listener.accept().await?;
        let session = Arc::new(Session {
            table: table.clone(),
            transaction: Mutex::default(),
            keys: RandomPidSecretKeyGenerator::default(),
        });
        tokio::spawn(process_socket(stream, None, Handlers(session)));
    }
}

struct Table {
    lines: tokio::sync::Mutex<Lines>,
    path: Option<PathBuf>,
}

impl Table {
    async fn load(path: Option<PathBuf>) -> io::Result<Self> {
        let text = match &path {
            Some(path) => match tokio::fs::read_to_string(path).await {
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                text => text?,
            },
            None => String::new(),
        };
        let line = |line: &str| {
            let (n, text) = line.split_once(' ')?;
            Some((n.parse().ok()?, text.to_owned()))
        };
        let lines: Option<Lines> = text.lines().map(line).collect();
        let lines = lines.ok_or_else(|| io::Error::other("a line of the table is torn"))?;
        Ok(Self {
            lines: lines.into(),
            path,
        })
    }

    /// Inserts lines, and gives how many were new.
    async fn insert(&self, new: Lines) -> io::Result<usize> {
        let mut lines = self.lines.lock().await;
        let mut both = new;
        both.extend(lines.clone());
        if let Some(path) = &self.path {
            save(path, &both).await?;
        }
        let count = both.len() - lines.len();
        *lines = both;
        Ok(count)
    }
}

async fn save(path: &Path, lines: &Lines) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).await?;
    for (n, line) in lines {
        file.write_all(format!("{n} {line}\n").as_bytes()).await?;
    }
    file.sync_all().await?;
    tokio::fs::rename(&new, path).await?;
    let folder = path.parent().expect("the path has a folder");
    File::open(folder).await?.sync_all().await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Statement {
    Begin,
    Commit,
    Rollback,
    Insert,
    Lines,
    Echo,
    Series,
    Divide,
}

impl Statement {
    fn parse(sql: &str) -> PgWireResult<Self> {
        Ok(match sql {
            "BEGIN" | "START TRANSACTION" => Self::Begin,
            "COMMIT" => Self::Commit,
            "ROLLBACK" => Self::Rollback,
            "INSERT INTO lines VALUES ($1, $2)" => Self::Insert,
            "SELECT n, line FROM lines ORDER BY n" => Self::Lines,
            "SELECT $1::TEXT" => Self::Echo,
            "SELECT generate_series(1, $1)" => Self::Series,
            "SELECT 1 / 0" => Self::Divide,
            _ => {
                return Err(error(
                    "42601",
                    &format!("this server does not know {sql:?}"),
                ));
            }
        })
    }

    fn parameters(self) -> Vec<Type> {
        match self {
            Self::Insert => vec![Type::INT8, Type::TEXT],
            Self::Echo => vec![Type::TEXT],
            Self::Series => vec![Type::INT8],
            _ => Vec::new(),
        }
    }

    fn columns(self, format: &Format) -> Vec<FieldInfo> {
        let columns: &[_] = match self {
            Self::Lines => &[("n", Type::INT8), ("line", Type::TEXT)],
            Self::Echo => &[("text", Type::TEXT)],
            Self::Series => &[("generate_series", Type::INT8)],
            Self::Divide => &[("?column?", Type::INT8)],
            _ => &[],
        };
        let columns = columns.iter().enumerate();
        columns
            .map(|(at, (name, of))| {
                FieldInfo::new(
                    (*name).to_owned(),
                    None,
                    None,
                    of.clone(),
                    format.format_for(at),
                )
            })
            .collect()
    }
}

fn error(code: &str, message: &str) -> PgWireError {
    let info = ErrorInfo::new("ERROR".to_owned(), code.to_owned(), message.to_owned());
    PgWireError::UserError(Box::new(info))
}

enum Value {
    Number(i64),
    Text(String),
}

struct Session {
    table: Arc<Table>,
    /// What the open transaction has inserted.
    transaction: Mutex<Option<Lines>>,
    keys: RandomPidSecretKeyGenerator,
}

impl Session {
    async fn run(
        &self,
        statement: Statement,
        format: &Format,
        mut arguments: impl Iterator<Item = Value>,
    ) -> PgWireResult<Response> {
        let mut next = || {
            arguments
                .next()
                .ok_or_else(|| error("08P01", "a parameter is missing"))
        };
        let rows = match statement {
            Statement::Begin => {
                *self.transaction.lock().unwrap() = Some(Lines::new());
                return Ok(Response::TransactionStart(Tag::new("BEGIN")));
            }
            Statement::Commit => {
                let new = self.transaction.lock().unwrap().take();
                self.table.insert(new.unwrap_or_default()).await?;
                return Ok(Response::TransactionEnd(Tag::new("COMMIT")));
            }
            Statement::Rollback => {
                *self.transaction.lock().unwrap() = None;
                return Ok(Response::TransactionEnd(Tag::new("ROLLBACK")));
            }
            Statement::Insert => {
                let (Value::Number(n), Value::Text(line)) = (next()?, next()?) else {
                    return Err(error("42804", "a number and a text are wanted"));
                };
                let count = self.insert(n, line).await?;
                let tag = Tag::new("INSERT").with_oid(0).with_rows(count);
                return Ok(Response::Execution(tag));
            }
            Statement::Lines => {
                let lines = self.table.lines.lock().await;
                let row =
                    |(n, line): (&i64, &String)| vec![Value::Number(*n), Value::Text(line.clone())];
                lines.iter().map(row).collect()
            }
            Statement::Echo => vec![vec![next()?]],
            Statement::Series => {
                let Value::Number(last) = next()? else {
                    return Err(error("42804", "a number is wanted"));
                };
                (1..=last).map(|n| vec![Value::Number(n)]).collect()
            }
            Statement::Divide => return Err(error("22012", "division by zero")),
        };
        encode(statement.columns(format), rows)
    }

    async fn insert(&self, n: i64, line: String) -> PgWireResult<usize> {
        if let Some(transaction) = &mut *self.transaction.lock().unwrap() {
            transaction.insert(n, line);
            return Ok(1);
        }
        Ok(self.table.insert(Lines::from([(n, line)])).await?)
    }
}

fn encode(columns: Vec<FieldInfo>, rows: Vec<Vec<Value>>) -> PgWireResult<Response> {
    let columns = Arc::new(columns);
    let mut encoder = DataRowEncoder::new(columns.clone());
    let mut encoded = Vec::new();
    for row in rows {
        for value in row {
            match value {
                Value::Number(n) => encoder.encode_field(&n)?,
                Value::Text(text) => encoder.encode_field(&text)?,
            }
        }
        encoded.push(Ok(encoder.take_row()));
    }
    Ok(Response::Query(QueryResponse::new(
        columns,
        stream::iter(encoded),
    )))
}

struct Parser;

#[async_trait]
impl QueryParser for Parser {
    type Statement = Statement;

    async fn parse_sql<C>(
        &self,
        _client: &C,
        sql: &str,
        _types: &[Option<Type>],
    ) -> PgWireResult<Option<Statement>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        Statement::parse(sql).map(Some)
    }

    fn get_parameter_types(&self, statement: &Statement) -> PgWireResult<Vec<Type>> {
        Ok(statement.parameters())
    }

    fn get_result_schema(
        &self,
        statement: &Statement,
        format: Option<&Format>,
    ) -> PgWireResult<Vec<FieldInfo>> {
        Ok(statement.columns(format.unwrap_or(&Format::UnifiedBinary)))
    }
}

#[async_trait]
impl ExtendedQueryHandler for Session {
    type Statement = Statement;
    type QueryParser = Parser;

    fn query_parser(&self) -> Arc<Parser> {
        Arc::new(Parser)
    }

    async fn do_query<C>(
        &self,
        _client: &mut C,
        portal: &Portal<Statement>,
        _max_rows: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        let statement = portal.statement.statement;
        let types = statement.parameters();
        let mut arguments = Vec::new();
        for (at, of) in types.iter().enumerate() {
            let missing = || error("22004", "a parameter is null");
            arguments.push(if *of == Type::INT8 {
                Value::Number(portal.parameter(at, of)?.ok_or_else(missing)?)
            } else {
                Value::Text(portal.parameter(at, of)?.ok_or_else(missing)?)
            });
        }
        let format = &portal.result_column_format;
        self.run(statement, format, arguments.into_iter()).await
    }
}

#[async_trait]
impl SimpleQueryHandler for Session {
    async fn do_query<C>(&self, _client: &mut C, sql: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        let statement = Statement::parse(sql.trim_end_matches(';'))?;
        let response = self.run(statement, &Format::UnifiedText, std::iter::empty());
        Ok(vec![response.await?])
    }
}

impl NoopStartupHandler for Session {
    // That of pgwire counts in the whole process, and so not by the seed.
    fn pid_secret_key_generator(&self) -> &dyn PidSecretKeyGenerator {
        &self.keys
    }
}

struct Handlers(Arc<Session>);

impl PgWireServerHandlers for Handlers {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        self.0.clone()
    }

    fn extended_query_handler(&self) -> Arc<impl ExtendedQueryHandler> {
        self.0.clone()
    }

    fn startup_handler(&self) -> Arc<impl StartupHandler> {
        self.0.clone()
    }
}
