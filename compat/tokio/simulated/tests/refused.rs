//! What a host may not do is an error: threads, which runtimes and some libraries start, and child
//! processes. What the message says of the place: `sim/tests/failures.rs`.

use std::{io, time::Duration};

use tokio::{process::Command, runtime, time::sleep};
use ws_sim::Sim;

fn in_host<F>(main: F)
where
    F: Future<Output = ()> + 'static,
{
    let sim = Sim::new(1);
    sim.client("client", main);
    sim.try_run().unwrap();
}

#[test]
fn a_child_process_is_an_error() {
    in_host(async {
        let error = Command::new("true").spawn().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error:?}");
        let error = Command::new("true").output().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        let error = Command::new("true").status().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    });
}

#[test]
fn a_runtime_with_threads_is_an_error() {
    in_host(async {
        let error = runtime::Runtime::new().unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("the system refused a thread"), "{text}");
        sleep(Duration::from_secs(1)).await;
    });
}

/// lapin starts a thread for its own I/O.
#[test]
fn a_library_that_starts_a_thread_gets_an_error() {
    in_host(async {
        let properties = real_lapin::ConnectionProperties::default();
        let connect = real_lapin::Connection::connect("amqp://broker/", properties);
        assert!(connect.await.is_err());
    });
}
