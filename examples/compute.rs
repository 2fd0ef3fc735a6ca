//! Compute and I/O on the same workers: a service that sorts and hashes what it is sent, and a
//! clock that ticks beside it.
//!
//! `cargo run --release --example compute`
//!
//! Three clients each send a batch of numbers over TCP, and the service answers with their sorted
//! digest. It computes with `ws::join` and `ws::scope` inside `ws::compute`, on all workers that
//! have nothing else to do; the sockets and the clock go on meanwhile. There is no second pool, and
//! no channel to one.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{AsyncReadExt, AsyncWriteExt};
use ws::net::{TcpListener, TcpStream};

/// Numbers in a batch.
const BATCH: usize = 500_000;
const CLIENTS: u64 = 3;

#[ws::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = ws::spawn(serve(listener));
    let clock = ws::spawn(async {
        let mut ticks = ws::time::interval(Duration::from_millis(10));
        loop {
            ticks.tick().await;
        }
    });

    let clients: Vec<_> = (1..=CLIENTS)
        .map(|seed| ws::spawn(ask(address, seed)))
        .collect();
    for client in clients {
        let (seed, digest) = client.await.expect("no client panics")?;
        println!("batch {seed}: {digest:016x}");
    }

    clock.abort();
    server.abort();
    Ok(())
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        ws::spawn(async move {
            if let Err(error) = answer(stream).await {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}

/// Reads a batch, computes, and sends eight bytes back.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut bytes = vec![0; BATCH * 8];
    stream.read_exact(&mut bytes).await?;
    // If the client hangs up while this is awaited elsewhere in a `select!`, the drop cancels the
    // computation.
    let digest = ws::compute(move || digest(&bytes)).await;
    let digest = digest.map_err(io::Error::other)?;
    stream.write_all(&digest.to_le_bytes()).await
}

async fn ask(address: SocketAddr, seed: u64) -> io::Result<(u64, u64)> {
    let mut stream = TcpStream::connect(address).await?;
    let mut state = seed;
    let bytes: Vec<u8> = (0..BATCH)
        .flat_map(|_| {
            state = mix(state);
            state.to_le_bytes()
        })
        .collect();
    stream.write_all(&bytes).await?;
    let mut digest = [0; 8];
    stream.read_exact(&mut digest).await?;
    Ok((seed, u64::from_le_bytes(digest)))
}

/// Sorts the batch with `join`, then hashes its parts in a `scope`. Both borrow.
fn digest(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    let mut numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    sort(&mut numbers);

    let mut hashes = [0; 8];
    let part = numbers.len().div_ceil(hashes.len());
    ws::scope(|scope| {
        for (numbers, hash) in numbers.chunks(part).zip(&mut hashes) {
            scope.spawn(move |_| *hash = numbers.iter().fold(0, |hash, number| mix(hash ^ number)));
        }
    });
    hashes.into_iter().fold(0, |hash, part| mix(hash ^ part))
}

fn sort(numbers: &mut [u64]) {
    if numbers.len() < 5_000 {
        return numbers.sort_unstable();
    }
    let middle = numbers.len() / 2;
    let (small, _, large) = numbers.select_nth_unstable(middle);
    ws::join(|| sort(small), || sort(large));
}

fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}
