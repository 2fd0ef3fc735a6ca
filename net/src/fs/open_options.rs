//! How a file is opened.

use std::{future::Future, io, path::Path};

use super::File;
use crate::blocking_io::call;

/// How a file is opened: [`std::fs::OpenOptions`], with an `open` that is awaited.
///
/// # Examples
///
/// ```
/// use ws::fs::OpenOptions;
///
/// # ws::runtime::Runtime::new()?.block_on(async {
/// let file = OpenOptions::new().read(true).open("Cargo.toml").await?;
/// assert!(file.metadata().await?.is_file());
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions(pub(super) std::fs::OpenOptions);

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
    #[must_use]
    pub fn new() -> Self {
        Self(std::fs::OpenOptions::new())
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
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// As [`std::fs::OpenOptions::open`].
    ///
    /// # Panics
    ///
    /// The future panics if it is first polled outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a file may still be made or made empty. It is closed.
    #[track_caller]
    pub fn open(&self, path: impl AsRef<Path>) -> impl Future<Output = io::Result<File>> + Send {
        self.open_std("ws::fs::OpenOptions::open", path.as_ref(), File::from_std)
    }

    /// Opens a file of std, and makes another of it.
    #[doc(hidden)]
    #[track_caller]
    pub fn open_std<T: Send + 'static>(
        &self,
        what: &'static str,
        path: &Path,
        from: fn(std::fs::File) -> T,
    ) -> impl Future<Output = io::Result<T>> + Send + use<T> {
        let path = path.to_owned();
        let options = self.0.clone();
        call(what, move || options.open(path).map(from))
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> Self {
        Self(options)
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}
