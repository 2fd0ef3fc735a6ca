//! Addresses of Unix sockets.

#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::{
    ffi::OsStr,
    fmt, io,
    os::unix::{ffi::OsStrExt, net},
    path::Path,
};

use socket2::SockAddr;

/// See [tokio's](https://docs.rs/tokio/1.54.1/tokio/net/unix/struct.SocketAddr.html).
#[derive(Clone)]
pub struct SocketAddr(pub(super) net::SocketAddr);

impl SocketAddr {
    /// Whether it has no name.
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    /// The path, if it is one.
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_pathname()
    }

    /// The abstract name without the zero byte, if it is one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.as_abstract_name()
    }

    /// The address that a path stands for: on Linux, one that begins with a zero byte is an
    /// abstract name.
    pub(super) fn of_path(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(name) = path.as_os_str().as_bytes().strip_prefix(b"\0") {
            return net::SocketAddr::from_abstract_name(name).map(Self);
        }
        net::SocketAddr::from_pathname(path).map(Self)
    }

    /// An address of socket2's.
    pub(super) fn of(addr: &SockAddr) -> io::Result<Self> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(name) = addr.as_abstract_namespace() {
            return net::SocketAddr::from_abstract_name(name).map(Self);
        }
        let path = addr.as_pathname().unwrap_or(Path::new(""));
        net::SocketAddr::from_pathname(path).map(Self)
    }

    /// As an address of socket2's, which spells an abstract name as a path that begins with a zero
    /// byte, and no name as an empty one.
    pub(super) fn to_socket2(&self) -> io::Result<SockAddr> {
        if let Some(path) = self.0.as_pathname() {
            return SockAddr::unix(path);
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(name) = self.0.as_abstract_name() {
            let spelled = [b"\0", name].concat();
            return SockAddr::unix(OsStr::from_bytes(&spelled));
        }
        SockAddr::unix("")
    }
}

impl fmt::Debug for SocketAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<net::SocketAddr> for SocketAddr {
    fn from(addr: net::SocketAddr) -> Self {
        Self(addr)
    }
}

impl From<SocketAddr> for net::SocketAddr {
    fn from(addr: SocketAddr) -> Self {
        addr.0
    }
}
