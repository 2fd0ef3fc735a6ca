//! See [tokio's](https://docs.rs/tokio/1.54.1/tokio/signal/).

use std::io;

pub mod unix;

/// Waits for the next Ctrl-C.
///
/// # Errors
///
/// What the system says.
pub async fn ctrl_c() -> io::Result<()> {
    unix::signal(unix::SignalKind::interrupt())?.recv().await;
    Ok(())
}
