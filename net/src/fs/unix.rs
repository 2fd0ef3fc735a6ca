//! What files have on Unix alone.

use std::{
    future::Future,
    io,
    os::unix::fs::{DirBuilderExt, DirEntryExt, OpenOptionsExt},
    path::Path,
};

use super::{DirBuilder, DirEntry, OpenOptions};
use crate::blocking_io::call;

/// Makes a symbolic link.
///
/// # Errors
///
/// As [`std::os::unix::fs::symlink`].
///
/// # Panics
///
/// The future panics if it is first polled outside of a runtime.
#[track_caller]
pub fn symlink(
    original: impl AsRef<Path>,
    link: impl AsRef<Path>,
) -> impl Future<Output = io::Result<()>> + Send {
    let original = original.as_ref().to_owned();
    let link = link.as_ref().to_owned();
    call("ws::fs::symlink", move || {
        std::os::unix::fs::symlink(original, link)
    })
}

impl OpenOptions {
    /// The permissions of a file that is made.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.0.mode(mode);
        self
    }

    /// Flags of the system's `open`.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.0.custom_flags(flags);
        self
    }
}

impl DirBuilder {
    /// The permissions.
    ///
    /// ```
    /// use ws::fs::DirBuilder;
    ///
    /// # let path = std::env::temp_dir().join(format!("ws-dir-mode-doc-{}", std::process::id()));
    /// # ws::runtime::Runtime::new()?.block_on(async {
    /// DirBuilder::new().mode(0o700).create(&path).await?;
    /// # ws::fs::remove_dir(&path).await
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }
}

/// Puts the permissions where std looks for them.
pub(super) fn set_mode(std: &mut std::fs::DirBuilder, mode: Option<u32>) {
    if let Some(mode) = mode {
        std.mode(mode);
    }
}

impl DirEntry {
    /// The number of the inode.
    #[must_use]
    pub fn ino(&self) -> u64 {
        self.std.ino()
    }
}
