//! The halves of a Unix stream.

use super::SocketAddr;
use crate::net::{UnixStream, common::halves};

halves!(UnixStream, SocketAddr, "unix");
