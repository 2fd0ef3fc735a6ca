//! The loads on `ws`, with its recorder.

use std::{
    error::Error,
    fs::File,
    io::{self, BufWriter},
    net::SocketAddr,
};

use futures::{AsyncReadExt, AsyncWriteExt};
use ws::{
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    trace::Level,
};

use crate::{
    BATCH, CONNECTIONS, Load, MESSAGE,
    measure::{Began, Figures},
};

/// Bytes of a record in a ring: see the documentation of `Builder::recorder`.
const RECORD: u64 = 16;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

pub(crate) fn off(load: Load, size: usize) -> Result<Figures> {
    in_memory(Level::Off, load, size)
}

pub(crate) fn sparse(load: Load, size: usize) -> Result<Figures> {
    in_memory(Level::Sparse, load, size)
}

pub(crate) fn full(load: Load, size: usize) -> Result<Figures> {
    in_memory(Level::Full, load, size)
}

/// All is recorded, and what the rings have at the end is written to a file.
pub(crate) fn full_and_file(load: Load, size: usize) -> Result<Figures> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.pftrace");
    let runtime = runtime(Level::Full)?;
    run(&runtime, load, size, || {
        let file = BufWriter::new(File::create(&path)?);
        runtime.handle().write_snapshot(file)?;
        Ok(path.metadata()?.len())
    })
}

fn in_memory(level: Level, load: Load, size: usize) -> Result<Figures> {
    let runtime = runtime(level)?;
    let mut figures = run(&runtime, load, size, || Ok(0))?;
    // The ring holds the newest ones: these are all that were written.
    let recording = runtime.handle().recording();
    figures.bytes = (recording.overwritten + recording.events.len() as u64) * RECORD;
    Ok(figures)
}

fn runtime(level: Level) -> Result<Runtime> {
    Ok(Builder::new().record(level).build()?)
}

fn run(
    runtime: &Runtime,
    load: Load,
    size: usize,
    finish: impl FnOnce() -> Result<u64>,
) -> Result<Figures> {
    let began = Began::now();
    match load {
        Load::Spawn => runtime.block_on(runtime.spawn(spawn(size)))?,
        Load::Echo => runtime.block_on(runtime.spawn(echo(size)))??,
    }
    began.over(finish)
}

async fn spawn(tasks: usize) {
    let mut sum = 0;
    let mut batch = Vec::with_capacity(BATCH);
    for first in (0..tasks).step_by(BATCH) {
        let numbers = first..tasks.min(first + BATCH);
        batch.extend(numbers.map(|number| ws::spawn(async move { number })));
        for task in batch.drain(..) {
            sum += task.await.expect("it does not panic");
        }
    }
    assert_eq!(sum, tasks * tasks.saturating_sub(1) / 2);
}

async fn echo(messages: usize) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = ws::spawn(async move {
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept().await?;
            ws::spawn(serve(stream));
        }
        io::Result::Ok(())
    });
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| ws::spawn(client(address, messages)))
        .collect();
    for client in clients {
        client.await.map_err(io::Error::other)??;
    }
    server.await.map_err(io::Error::other)?
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE];
    while stream.read_exact(&mut message).await.is_ok() {
        stream.write_all(&message).await?;
    }
    Ok(())
}

async fn client(address: SocketAddr, messages: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut message = [7; MESSAGE];
    for _ in 0..messages {
        stream.write_all(&message).await?;
        stream.read_exact(&mut message).await?;
    }
    Ok(())
}
