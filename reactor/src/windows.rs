//! Windows, where it is not as Unix. `unix.rs` is its counterpart.
//!
//! | file | has |
//! | --- | --- |
//! | `windows/socket.rs` | a socket in the netpoll, and why each "would block" asks for the next event |
//! | `windows/console.rs` | Ctrl-C and the other events of a console |
//! | `windows/exit.rs` | the end of a process |
//! | `windows/pipe.rs` | named pipes |
//! | `windows/pipe_of_sockets.rs` | a pipe of two sockets, for tests |

mod console;
mod exit;
mod pipe;
pub mod pipe_of_sockets;
mod socket;

use std::{
    fs::File,
    io,
    os::windows::io::{AsHandle, AsRawHandle},
};

pub(crate) use self::socket::Watch;
pub use self::{
    console::{ConsoleEvent, ConsoleListener},
    exit::ExitWatch,
    pipe::{PipeEnd, PipeInfo, PipeServer, open_client},
    socket::keep_from_children,
};

/// A named pipe of mio's, for [`Registration::new`](crate::Registration::new).
pub use mio::windows::NamedPipe;

/// The standard error of this process, as a file of its own. None if the process has none.
///
/// A write to the file goes round the lock of [`std::io::Stderr`]. Windows does not tell whether a
/// write to a pipe would wait.
#[must_use]
pub fn stderr_now() -> Option<File> {
    let stderr = io::stderr();
    // A program without a console has none. std makes a duplicate of that as well, to which every
    // write is an error.
    if stderr.as_raw_handle().is_null() {
        return None;
    }
    let own = stderr.as_handle().try_clone_to_owned();
    own.ok().map(File::from)
}
