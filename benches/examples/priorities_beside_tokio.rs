//! The example `priorities` of the root package, with tokio beside `ws`, which has one queue for
//! all.
//!
//! ```text
//! cargo run --release -p ws-bench --example priorities_beside_tokio
//! ```

use std::{error::Error, thread};

use tokio::{runtime::Builder, task};

use priorities::overload::{self, Class, Contender, Runtime};

#[path = "../../examples/priorities.rs"]
#[expect(dead_code, reason = "its main has no tokio")]
mod priorities;

struct Tokio(tokio::runtime::Runtime);

impl Runtime for Tokio {
    fn spawn(&self, _: Class, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(future));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        task::yield_now()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let workers = thread::available_parallelism()?.get();
    let tokio = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()?;
    let [equal, ranked] = priorities::both(workers)?;
    overload::side_by_side(vec![
        equal,
        ranked,
        Contender::new("tokio", workers, Tokio(tokio)),
    ]);
    Ok(())
}
