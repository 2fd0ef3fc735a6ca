//! A line echo on tokio: a limit to silence, a limit to speed, and a graceful end.

use std::io;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    select,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::Limits;

pub(super) async fn serve(
    listener: TcpListener,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let connections = TaskTracker::new();
    loop {
        select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                connections.spawn(connection(stream, limits, stop.clone()));
            }
            () = stop.cancelled() => break,
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
    Ok(())
}

async fn connection(stream: TcpStream, limits: Limits, stop: CancellationToken) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut speed = interval(limits.per_line);
    speed.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let line = select! {
            line = timeout(limits.silence, lines.next_line()) => line,
            () = stop.cancelled() => break,
        };
        match line {
            Ok(Ok(Some(line))) => {
                speed.tick().await;
                write.write_all(format!("{line}\n").as_bytes()).await?;
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_elapsed) => {
                write.write_all(b"too slow\n").await?;
                return write.shutdown().await;
            }
        }
    }
    write.write_all(b"bye\n").await?;
    write.shutdown().await
}
