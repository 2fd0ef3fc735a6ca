//! Proof 12: what of tokio itself works as it is, since it only polls: its macros, and its traits
//! of I/O with all that stands on them. The streams are those of `ws`, with the feature `tokio-io`.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use ws::net::UnixStream;

use crate::harness::proofs;

proofs! {
    /// `join!`, `select!` with an arm that never ends, `read_buf`, `read_u32`, lines, and
    /// `copy_bidirectional`, which passes the end of each direction on.
    async fn macros_and_io(env) {
        let (mut client, mut near) = UnixStream::pair().unwrap();
        let (mut far, mut server) = UnixStream::pair().unwrap();
        let proxy =
            ws::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });

        let (sent, ()) = tokio::join!(client.write_all(b"ask\n\0\0\x01\0"), ws::task::yield_now());
        sent.unwrap();
        let mut question = Vec::new();
        while question.len() < 8 {
            tokio::select! {
                read = server.read_buf(&mut question) => assert_ne!(read.unwrap(), 0),
                () = std::future::pending() => unreachable!(),
            }
        }
        let mut rest = &question[..];
        let mut line = String::new();
        BufReader::new(&mut rest).read_line(&mut line).await.unwrap();
        assert_eq!(line, "ask\n");
        assert_eq!((&question[4..]).read_u32().await.unwrap(), 256);

        server.write_all(b"answer").await.unwrap();
        AsyncWriteExt::shutdown(&mut server).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        AsyncWriteExt::shutdown(&mut client).await.unwrap();
        assert_eq!(proxy.await.unwrap().unwrap(), (8, 6));
    }

    /// A timeout of `ws` around what of tokio's waits, in a task of `ws`.
    async fn a_timeout_around_a_wait(env) {
        let (mut client, _server) = UnixStream::pair().unwrap();
        let read = client.read_u8();
        let waited = ws::time::timeout(Duration::from_millis(20), read).await;
        assert!(waited.is_err(), "nobody writes");
    }
}
