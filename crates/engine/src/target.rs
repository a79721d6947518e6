//! Where a server listens: a plain value that plans and errors share.

use crate::sys::NetworkNamespace;
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
    /// An address and a port in another network namespace, as a container has.
    Inside(SocketAddr, Arc<NetworkNamespace>),
}

impl Target {
    /// The address and the port, whichever network namespace they are in; None for a socket file.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Inside(address, _) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl Display for Target {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Inside(address, namespace) => write!(out, "{address} in {}", namespace.path().display()),
        }
    }
}
