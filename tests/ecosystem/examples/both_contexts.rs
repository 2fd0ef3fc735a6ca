//! Two runtimes in one program, without a wrapper around each task: tokio's context on every thread
//! of `ws`, and that of `ws` on tokio's one thread. See *What needs tokio's runtime* in
//! `docs/porting.md`.

use std::{cell::RefCell, future::pending, io, thread, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, EnterGuard, Handle},
};

thread_local! {
    static ENTERED: RefCell<Option<EnterGuard<'static>>> = const { RefCell::new(None) };
}

fn main() -> io::Result<()> {
    let tokio = Builder::new_current_thread().enable_all().build()?;
    let there: &'static Handle = Box::leak(Box::new(tokio.handle().clone()));
    let runtime = ws::runtime::Builder::new()
        .on_thread_start(|| ENTERED.set(Some(there.enter())))
        .on_thread_stop(|| drop(ENTERED.take()))
        .build()
        .map_err(io::Error::other)?;
    let here = runtime.handle().clone();
    thread::Builder::new().name("tokio".into()).spawn(move || {
        let _entered = here.enter(); // `ws::spawn` works in what libraries spawn
        tokio.block_on(pending::<()>());
    })?;
    runtime.run(program())
}

/// A server as a library on tokio writes it, and clients in tasks of `ws`.
async fn program() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await?;
            // On tokio's thread, where `ws` is entered.
            drop(ws::spawn(async move {
                let n = stream.read_u32().await?;
                ws::time::sleep(Duration::from_millis(1)).await;
                stream.write_u32(n + 1).await
            }));
        }
        #[expect(unreachable_code, reason = "it says which errors there are")]
        Ok::<(), io::Error>(())
    });

    let clients: Vec<_> = (0..100)
        .map(|n| {
            ws::spawn(async move {
                let mut stream = TcpStream::connect(addr).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
                stream.write_u32(n).await?;
                stream.read_u32().await
            })
        })
        .collect();
    for (n, client) in (0..).zip(clients) {
        assert_eq!(client.await??, n + 1);
    }
    Ok(())
}
