//! Proof 8: zbus against dbus-daemon: calls, errors, properties and signals.

use std::process::Command;

use futures::StreamExt;
use ws::zbus::Runtime;
use zbus::{Connection, connection::Builder, fdo, object_server::SignalEmitter};

use crate::harness::{Env, Server, bytes, proofs};

struct Service {
    calls: u32,
}

#[zbus::interface(name = "org.example.Proof")]
impl Service {
    async fn add(&mut self, a: u64, b: u64) -> fdo::Result<u64> {
        self.calls += 1;
        let sum = a.checked_add(b);
        sum.ok_or_else(|| fdo::Error::InvalidArgs("too much".to_owned()))
    }

    async fn echo(&mut self, data: Vec<u8>) -> Vec<u8> {
        self.calls += 1;
        data
    }

    async fn count_to(
        &self,
        end: u32,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
    ) -> fdo::Result<()> {
        for n in 0..end {
            emitter.counted(n).await?;
        }
        Ok(())
    }

    #[zbus(property)]
    async fn calls(&self) -> u32 {
        self.calls
    }

    #[zbus(signal)]
    async fn counted(emitter: &SignalEmitter<'_>, n: u32) -> zbus::Result<()>;
}

#[zbus::proxy(
    interface = "org.example.Proof",
    default_service = "org.example.Proof",
    default_path = "/org/example/Proof"
)]
trait Proof {
    async fn add(&self, a: u64, b: u64) -> fdo::Result<u64>;
    async fn echo(&self, data: &[u8]) -> fdo::Result<Vec<u8>>;
    async fn count_to(&self, end: u32) -> fdo::Result<()>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn calls(&self) -> fdo::Result<u32>;

    #[zbus(signal)]
    fn counted(&self, n: u32) -> zbus::Result<()>;
}

/// A bus of its own, and its address.
fn bus(env: &Env) -> Option<(Server, String)> {
    let daemon = crate::harness::find("dbus-daemon")?;
    let path = env.dir.join("bus");
    let address = format!("unix:path={}", path.display());
    let mut command = Command::new(daemon);
    command.args([
        "--session",
        "--nofork",
        "--nopidfile",
        "--address",
        &address,
    ]);
    let mut server = Server::start(&mut command, libc::SIGTERM, env.dir.join("dbus.log"));
    server.ready(|| std::os::unix::net::UnixStream::connect(&path).is_ok());
    Some((server, address))
}

fn builder(address: &str) -> Builder<'static> {
    Builder::address(address).runtime(Runtime::current())
}

async fn service(address: &str) -> Connection {
    let builder = builder(address).serve_at("/org/example/Proof", Service { calls: 0 });
    builder.name("org.example.Proof").build().await.unwrap()
}

async fn client(address: &str) -> ProofProxy<'static> {
    let connection = builder(address).build().await.unwrap();
    ProofProxy::new(&connection).await.unwrap()
}

proofs! {
    /// 1,000 calls from eight tasks on one connection, each with its own answer; an error comes as
    /// it was meant; the service has counted them all.
    async fn a_thousand_calls(env) {
        let Some((_bus, address)) = bus(&env) else { return };
        let _service = service(&address).await;
        let client = client(&address).await;
        let tasks: Vec<_> = (0..8_u64)
            .map(|task| {
                let client = client.clone();
                ws::spawn(async move {
                    for n in 0..125 {
                        if n % 25 == 0 {
                            let data = bytes(100_000, task * 125 + n);
                            assert!(client.echo(&data).await.unwrap() == data);
                        } else {
                            assert_eq!(client.add(task, n).await.unwrap(), task + n);
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(client.calls().await.unwrap(), 1_000);
        let error = client.add(u64::MAX, 1).await.unwrap_err();
        assert_eq!(error, fdo::Error::InvalidArgs("too much".to_owned()));
    }

    /// 1,000 signals come once each and in order.
    async fn a_thousand_signals(env) {
        let Some((_bus, address)) = bus(&env) else { return };
        let _service = service(&address).await;
        let client = client(&address).await;
        let signals = client.receive_counted().await.unwrap();
        let counting = client.clone();
        let call = ws::spawn(async move { counting.count_to(1_000).await });
        let numbers: Vec<u32> = signals
            .take(1_000)
            .map(|signal| signal.args().unwrap().n)
            .collect()
            .await;
        assert!(numbers.into_iter().eq(0..1_000));
        call.await.unwrap().unwrap();
    }
}
