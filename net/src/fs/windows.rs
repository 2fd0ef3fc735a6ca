//! What files have on Windows alone.

use std::{future::Future, io, os::windows::fs::OpenOptionsExt, path::Path};

use super::OpenOptions;
use crate::blocking_io::call;

macro_rules! symlinks {
    ($($(#[$meta:meta])* fn $name:ident = $std:path;)+) => {$(
        $(#[$meta])*
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($std), "`]: most users may make none.")]
        ///
        /// # Panics
        ///
        /// The future panics if it is first polled outside of a runtime.
        #[track_caller]
        pub fn $name(
            original: impl AsRef<Path>,
            link: impl AsRef<Path>,
        ) -> impl Future<Output = io::Result<()>> + Send {
            let original = original.as_ref().to_owned();
            let link = link.as_ref().to_owned();
            call(concat!("ws::fs::", stringify!($name)), move || $std(original, link))
        }
    )+};
}

symlinks! {
    /// Makes a symbolic link to a directory.
    fn symlink_dir = std::os::windows::fs::symlink_dir;
    /// Makes a symbolic link to a file.
    fn symlink_file = std::os::windows::fs::symlink_file;
}

macro_rules! options {
    ($($(#[$meta:meta])* fn $name:ident;)+) => {
        impl OpenOptions {$(
            $(#[$meta])*
            pub fn $name(&mut self, $name: u32) -> &mut Self {
                self.0.$name($name);
                self
            }
        )+}
    };
}

options! {
    /// What the handle may be used for, in the place of `read`, `write` and `append`.
    fn access_mode;
    /// What others may do with the file meanwhile.
    fn share_mode;
    /// Flags of the system's `CreateFile`.
    fn custom_flags;
    /// Attributes of a file that is made.
    fn attributes;
    /// What a server of a named pipe may do in the name of this process.
    fn security_qos_flags;
}
