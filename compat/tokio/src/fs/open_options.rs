//! How a file is opened.

use std::{io, path::Path};

use ws_net::fs as ws;

use super::{File, run};

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/fs/struct.OpenOptions.html).
#[derive(Clone, Debug)]
pub struct OpenOptions(ws::OpenOptions);

macro_rules! options {
    ($($(#[$meta:meta])* fn $name:ident($value:ty);)+) => {$(
        $(#[$meta])*
        pub fn $name(&mut self, $name: $value) -> &mut Self {
            self.0.$name($name);
            self
        }
    )+};
}

impl OpenOptions {
    /// Nothing is asked for.
    pub fn new() -> Self {
        Self(ws::OpenOptions::new())
    }

    options! {
        /// For reading.
        fn read(bool);
        /// For writing.
        fn write(bool);
        /// For writing at the end.
        fn append(bool);
        /// The file becomes empty.
        fn truncate(bool);
        /// A file that is not there is made.
        fn create(bool);
        /// The file is made, and is an error if it is there.
        fn create_new(bool);
        /// The permissions of a file that is made.
        fn mode(u32);
        /// Flags of the system's `open`.
        fn custom_flags(i32);
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// As std's function.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        run(self
            .0
            .open_std("tokio::fs::File", path.as_ref(), File::from_std))
        .await
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> Self {
        Self(options.into())
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}
