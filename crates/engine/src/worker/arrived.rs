//! One read from a connection: bytes in the worker's buffer, or a buffer that the transport lends.

use super::Worker;
use super::protocol::Protocol;
use crate::io::{Loan, Transport};
use std::io::{Error, ErrorKind};

/// What a read brought.
pub(super) enum Arrived {
    /// This many bytes in the worker's buffer; 0: the end of the connection.
    Read(usize),
    /// A buffer of the transport.
    Lent(Loan),
}

impl Arrived {
    /// The bytes; `buffer` is the worker's.
    #[inline]
    pub(super) fn bytes<'a>(&'a self, buffer: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Read(got) => &buffer[..*got],
            Self::Lent(loan) => loan,
        }
    }
}

impl<T: Transport, C: Protocol> Worker<T, C> {
    /// One read, and its timestamp. Bytes that the transport has already read are lent, not copied: return them by
    /// [`Worker::take_back`].
    ///
    /// # Errors
    /// The kernel's error; WouldBlock: nothing is there.
    #[inline]
    pub(super) fn take_arrived(&mut self, link: usize, buffer: &mut [u8]) -> Result<(Arrived, u64), Error> {
        let socket = self.links[link].socket.as_ref().ok_or(ErrorKind::NotConnected)?;
        if T::LENDS {
            let lent = self.io.lend(socket)?;
            return Ok(lent.map_or((Arrived::Read(0), 0), |(loan, stamp_ns)| (Arrived::Lent(loan), stamp_ns)));
        }
        self.io.receive(socket, buffer).map(|received| (Arrived::Read(received.bytes.len()), received.stamp_ns))
    }

    /// Returns what a read brought.
    #[inline]
    pub(super) fn take_back(&mut self, arrived: Arrived) {
        if let Arrived::Lent(loan) = arrived {
            self.io.take_back(loan);
        }
    }
}
