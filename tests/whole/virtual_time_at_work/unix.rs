//! With Unix sockets, whose bytes are there as soon as they are written.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream as StdStream,
    sync::{Arc, Mutex},
    time::Duration,
};

use ws::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::{Instant, timeout},
};

use super::HOUR;
use crate::net_support::Limit;

#[test]
fn a_socket_that_is_ready_comes_before_a_timer() {
    let _limit = Limit::new(1);
    for seed in 0..20 {
        let runtime = ws::runtime::Builder::new()
            .clock(ws::runtime::Clock::Paused)
            .seed(seed)
            .build();
        let answer = runtime.unwrap().run(async {
            let start = Instant::now();
            let (mut one, mut other) = UnixStream::pair()?;
            let echo = ws::spawn(async move {
                let mut byte = [0];
                for _ in 0..100 {
                    other.read_exact(&mut byte).await?;
                    other.write_all(&byte).await?;
                }
                io::Result::Ok(())
            });
            for n in 0..100 {
                let mut byte = [n];
                one.write_all(&byte).await?;
                timeout(Duration::from_nanos(1), one.read_exact(&mut byte)).await??;
                assert_eq!(byte, [n]);
            }
            echo.await.unwrap()?;
            assert_eq!(start.elapsed(), Duration::ZERO);
            io::Result::Ok(())
        });
        answer.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// The socket becomes ready when the last thread has looked for work, and before it sleeps.
#[test]
fn a_socket_that_is_ready_at_the_last_moment_comes_before_a_timer() {
    let _limit = Limit::new(1);
    let far = Arc::new(Mutex::new(None::<StdStream>));
    let writes = far.clone();
    let writes = move || {
        if let Some(mut far) = writes.lock().unwrap().take() {
            far.write_all(b"7").unwrap();
        }
    };
    let builder = ws::runtime::Builder::new()
        .clock(ws::runtime::Clock::Paused)
        .seed(0);
    let runtime = builder.on_thread_park(writes).build().unwrap();
    let answer = runtime.run(async move {
        let start = Instant::now();
        let (near, other) = StdStream::pair()?;
        let mut near = UnixStream::from_std(near)?;
        *far.lock().unwrap() = Some(other);
        let mut byte = [0];
        timeout(HOUR, near.read_exact(&mut byte)).await??;
        assert_eq!(byte, *b"7");
        assert_eq!(start.elapsed(), Duration::ZERO);
        io::Result::Ok(())
    });
    answer.unwrap();
}
