//! `tokio::fs`.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    Result,
    measure::{Numbers, calls},
};

const FILES: usize = 10_000;
const TASKS: usize = 32;
const SIZE: usize = 1024;

/// Each task reads one file after another, and all of them again.
pub async fn read(length: Duration) -> Result<Numbers> {
    let folder = tempfile::tempdir()?;
    let paths: Arc<[PathBuf]> = (0..FILES)
        .map(|number| folder.path().join(number.to_string()))
        .collect();
    for path in &*paths {
        fs::write(path, [b'x'; SIZE])?;
    }
    let clients = (0..TASKS).map(|task| (paths.clone(), task * FILES / TASKS));
    calls(clients, length, async |(paths, next)| {
        let content = tokio::fs::read(&paths[next]).await?;
        assert_eq!(content.len(), SIZE);
        Ok((paths, (next + 1) % FILES))
    })
    .await
}
