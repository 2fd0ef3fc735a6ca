//! The same on `ws`.

use std::io;

use futures::{FutureExt, StreamExt, select};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use ws::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval, timeout},
};

use super::Limits;

pub(super) async fn serve(
    listener: TcpListener,
    limits: Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let connections = TaskTracker::new();
    loop {
        select! {
            accepted = listener.accept().fuse() => {
                let (stream, _) = accepted?;
                ws::spawn(connections.track_future(connection(stream, limits, stop.clone())));
            }
            () = stop.cancelled().fuse() => break,
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
            line = timeout(limits.silence, lines.next()).fuse() => line,
            () = stop.cancelled().fuse() => break,
        };
        match line {
            Ok(Some(Ok(line))) => {
                speed.tick().await;
                write.write_all(format!("{line}\n").as_bytes()).await?;
            }
            Ok(None) => return Ok(()),
            Ok(Some(Err(error))) => return Err(error),
            Err(_elapsed) => {
                write.write_all(b"too slow\n").await?;
                return write.close().await;
            }
        }
    }
    write.write_all(b"bye\n").await?;
    write.close().await
}
