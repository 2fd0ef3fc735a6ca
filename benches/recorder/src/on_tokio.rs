//! The loads on tokio, with and without dial9.

use std::{error::Error, fs, io, net::SocketAddr};

use ::dial9::{Dial9HandleTokioExt, DiskBuffer, Recorder, TokioAttachOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

use crate::{
    BATCH, CONNECTIONS, Load, MESSAGE,
    measure::{Began, Figures},
};

/// The most bytes of a trace on disk. More than a run writes.
const DISK_MAX: u64 = 4 << 30;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// How a task is spawned.
#[derive(Clone, Copy, Debug)]
enum How {
    Tokio,
    /// dial9 puts a future of its own around it, which records wakes.
    Dial9,
}

impl How {
    fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        match self {
            Self::Tokio => tokio::spawn(future),
            Self::Dial9 => ::dial9::spawn(future),
        }
    }
}

pub(crate) fn without(load: Load, size: usize) -> Result<Figures> {
    let runtime = builder().build()?;
    let began = Began::now();
    run(&runtime, How::Tokio, load, size)?;
    began.over(|| Ok(0))
}

/// dial9 with the hooks that tokio has: polls, spawns, sleeps of threads, lengths of queues.
pub(crate) fn hooks(load: Load, size: usize) -> Result<Figures> {
    recorded(How::Tokio, load, size)
}

/// Besides, wakes: what `ws` records at its level `full`.
pub(crate) fn dial9(load: Load, size: usize) -> Result<Figures> {
    recorded(How::Dial9, load, size)
}

fn recorded(how: How, load: Load, size: usize) -> Result<Figures> {
    let folder = tempfile::tempdir()?;
    let writer = DiskBuffer::builder()
        .base_path(folder.path().join("trace"))
        .max_total_size(DISK_MAX)
        .build()?;
    let recorder: Recorder = ::dial9::recorder(writer).build();
    let options = TokioAttachOptions::builder()
        .task_tracking_enabled(true)
        .build();
    let runtime = recorder.handle().attach_tokio_runtime(builder(), options)?;
    let began = Began::now();
    run(&runtime, how, load, size)?;
    began.over(|| {
        // They write what is left.
        drop(runtime);
        drop(recorder);
        bytes_in(folder.path())
    })
}

fn builder() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.enable_io();
    builder
}

/// The bytes of all files below a folder.
fn bytes_in(folder: &std::path::Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => bytes_in(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(bytes)
}

fn run(runtime: &Runtime, how: How, load: Load, size: usize) -> Result<()> {
    match (how, load) {
        (How::Tokio, Load::Spawn) => runtime.block_on(runtime.spawn(spawn(how, size)))?,
        (How::Tokio, Load::Echo) => runtime.block_on(runtime.spawn(echo(how, size)))??,
        (How::Dial9, Load::Spawn) => ::dial9::block_on(runtime, spawn(how, size)),
        (How::Dial9, Load::Echo) => ::dial9::block_on(runtime, echo(how, size))?,
    }
    Ok(())
}

async fn spawn(how: How, tasks: usize) {
    let mut sum = 0;
    let mut batch = Vec::with_capacity(BATCH);
    for first in (0..tasks).step_by(BATCH) {
        let numbers = first..tasks.min(first + BATCH);
        batch.extend(numbers.map(|number| how.spawn(async move { number })));
        for task in batch.drain(..) {
            sum += task.await.expect("it does not panic");
        }
    }
    assert_eq!(sum, tasks * tasks.saturating_sub(1) / 2);
}

async fn echo(how: How, messages: usize) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = how.spawn(async move {
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept().await?;
            how.spawn(serve(stream));
        }
        io::Result::Ok(())
    });
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| how.spawn(client(address, messages)))
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
