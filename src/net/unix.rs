//! Unix sockets: streams, their listener, and datagrams.
//!
//! Addresses are those of std, by path or, on Linux, abstract. A path that begins with a zero byte
//! is an abstract name, in every function that takes a path:
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use std::os::linux::net::SocketAddrExt;
//! use ws::net::unix::{SocketAddr, UnixListener, UnixStream};
//!
//! # ws::runtime::Runtime::new()?.block_on(async {
//! # let name = format!("ws-doc-{}", std::process::id());
//! let addr = SocketAddr::from_abstract_name(name)?;
//! let listener = UnixListener::bind_addr(&addr)?;
//! let (client, server) =
//!     futures::try_join!(UnixStream::connect_addr(&addr), listener.accept())?;
//! # drop((client, server));
//! # Ok::<(), std::io::Error>(())
//! # })?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A path that was bound stays in the file system when its socket is closed, as with std, and has
//! to be removed before it can be bound again.

mod datagram;
mod listener;
mod stream;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use socket2::SockAddr;

pub use std::os::unix::net::SocketAddr;

pub use datagram::UnixDatagram;
pub use listener::{Incoming, UnixListener};
pub use stream::UnixStream;

/// The address that a path stands for: on Linux, one that begins with a zero byte is an abstract
/// name.
fn path_addr(path: &Path) -> io::Result<SocketAddr> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        #[cfg(target_os = "android")]
        use std::os::android::net::SocketAddrExt;
        #[cfg(target_os = "linux")]
        use std::os::linux::net::SocketAddrExt;

        if let Some(name) = path.as_os_str().as_bytes().strip_prefix(b"\0") {
            return SocketAddr::from_abstract_name(name);
        }
    }
    SocketAddr::from_pathname(path)
}

/// Turns an address of std's into one of `socket2`'s, which spells an abstract name as a path that
/// begins with a zero byte, and no name as an empty one.
fn sock_addr(addr: &SocketAddr) -> io::Result<SockAddr> {
    if let Some(path) = addr.as_pathname() {
        return SockAddr::unix(path);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        #[cfg(target_os = "android")]
        use std::os::android::net::SocketAddrExt;
        #[cfg(target_os = "linux")]
        use std::os::linux::net::SocketAddrExt;

        if let Some(name) = addr.as_abstract_name() {
            let spelled = [b"\0", name].concat();
            return SockAddr::unix(Path::new(OsStr::from_bytes(&spelled)));
        }
    }
    SockAddr::unix(Path::new(OsStr::from_bytes(b"")))
}
