//! Where a server listens: a plain value that plans and errors share.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

impl Display for Target {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}
