//! `tokio::process`.

use std::time::Duration;

use tokio::process::Command;

use crate::{
    Result,
    measure::{Numbers, calls},
};

const AT_A_TIME: usize = 8;

/// Each task starts one process after another, and waits for its end.
pub async fn spawn(length: Duration) -> Result<Numbers> {
    calls([(); AT_A_TIME], length, async |()| {
        let ended = Command::new("/bin/true").status().await?;
        assert!(ended.success());
        Ok(())
    })
    .await
}
