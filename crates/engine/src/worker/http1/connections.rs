//! How connections are opened, lost and closed.

use super::super::Worker;
use super::super::link::State;
use super::{Http1, Mode};
use crate::block_run::{BlockRun, LoadModel};
use crate::error_sample::SAMPLE_BYTES;
use crate::failure::Failure;
use crate::io::{self, Received, Transport};
use crate::sys;
use std::io::{Error, ErrorKind};
use std::num::NonZeroU32;
use std::time::Duration;

/// The sample of bytes that no request was waiting for.
#[cold]
pub(super) fn without_request(bytes: &[u8]) -> String {
    format!("bytes without a request: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(SAMPLE_BYTES)]))
}

impl<T: Transport, M: Mode> Worker<T, Http1<M>> {
    pub(super) fn open_one(&mut self, index: usize, limit: Duration) -> Result<(), Error> {
        let socket =
            io::connect_wait(&self.core.plan.target, self.core.plan.source(index), &self.core.patience(limit))?;
        self.attach(index, socket.into(), State::Idle);
        self.place(index).fresh = false;
        self.renew(index);
        self.shake_hands(index, limit)
    }

    /// Resets the number of requests that the connection may carry.
    fn renew(&mut self, index: usize) {
        if let Some(left) = M::left(&mut self.links[index].proto.extra) {
            *left = self.core.plan.requests_per_connection.map_or(0, NonZeroU32::get);
        }
    }

    /// The connection is open: the request is sent.
    pub(super) fn opened(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>) {
        let now_ns = sys::now_ns();
        block_run.connected(now_ns - self.place(index).since_ns);
        self.links[index].failures = 0;
        if T::CHAINS {
            return self.chain_sent(index, block_run);
        }
        self.place(index).state = State::Idle;
        self.renew(index);
        self.send_next(index, now_ns, block_run);
    }

    /// The server closed an idle connection (not an error), or sent bytes without a request.
    #[cold]
    pub(super) fn idle_event(&mut self, index: usize, block_run: &mut BlockRun<impl LoadModel>, buffer: &mut [u8]) {
        let Some(socket) = &self.links[index].socket else { return };
        match self.io.receive(socket, buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Ok(Received { bytes: [], .. }) | Err(_) => {}
            Ok(Received { bytes, .. }) => {
                block_run.counts.bytes_in += bytes.len() as u64;
                block_run.count_error(Failure::BadResponse);
                self.core.judge.sample.note_with(Failure::BadResponse, || without_request(bytes));
            }
        }
        self.discard(index);
    }

    /// Waits for the server to close a connection after its response, unless too many others wait.
    pub(super) fn linger(&mut self, index: usize, now_ns: u64) {
        if !self.closers.has_room() {
            return self.discard(index);
        }
        let token = self.links[index].token(index);
        if let Some(socket) = self.detach(index) {
            self.closers.add(&mut self.io, token, socket, now_ns);
        }
    }
}
