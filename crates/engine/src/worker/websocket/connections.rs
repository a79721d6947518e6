//! How connections are opened and upgraded, lost and closed.

use super::super::link::State;
use super::super::{LOOK_LIMIT, Worker};
use super::{WebSocket, WebSocketLink, push};
use crate::block_run::{BlockRun, LoadModel};
use crate::failure::Failure;
use crate::io::{self, Transport};
use crate::patience::Patience;
use crate::sys;
use crate::websocket::Upgrade;
use std::io::{Error, ErrorKind};
use std::time::Duration;

/// Length of the buffer for reads before the first block.
const OPENING_BYTES: usize = 16 * 1024;

impl<T: Transport> Worker<T, WebSocket> {
    /// Opens all connections, and waits for the response to the upgrade of each.
    ///
    /// # Errors
    /// The number of the first connection that can't be opened, and the reason.
    pub(super) fn upgrade_all(&mut self, limit: Duration) -> Result<(), (usize, Error)> {
        let mut buffer = vec![0; OPENING_BYTES];
        for index in 0..self.links.len() {
            self.open_one(index, limit, &mut buffer).map_err(|error| (index, error))?;
        }
        let upgrading = |link: &WebSocketLink| link.upgrade.is_some();
        self.await_all(limit, &mut buffer, upgrading, "WebSocket: no response to the upgrade in time", Self::listen)?;
        self.links.iter_mut().for_each(|link| link.proto.place.fresh = false);
        Ok(())
    }

    fn open_one(&mut self, index: usize, limit: Duration, buffer: &mut [u8]) -> Result<(), Error> {
        let began_ns = sys::now_ns();
        let socket =
            io::connect_wait(&self.core.plan.target, self.core.plan.source(index), &self.core.patience(limit))?;
        self.attach(index, socket.into(), State::Connecting);
        self.links[index].proto.place.since_ns = began_ns;
        self.shake_hands(index, limit)?;
        self.request_upgrade(index)?;
        // Bytes that came with the end of the handshake are not reported by an event.
        self.io.turn_to(self.links[index].token(index));
        self.listen(index, &self.core.patience(LOOK_LIMIT), buffer)
    }

    /// Returns how many bytes were sent.
    pub(super) fn request_upgrade(&mut self, index: usize) -> Result<usize, Error> {
        let Self { core, io, links, .. } = self;
        let seed = sys::now_ns() ^ (index as u64) << 48;
        let (upgrade, request) = Upgrade::request(core.plan.exchanges[0].parts().0, seed);
        links[index].proto.upgrade = Some(Box::new(upgrade));
        push(io, index, &mut links[index], &request)
    }

    /// The connection has ended, and with it the message in flight or the upgrade. `freed`: its place has just become free.
    #[cold]
    pub(super) fn ended(
        &mut self,
        index: usize,
        failure: Failure,
        why: &str,
        freed: bool,
        now_ns: u64,
        block_run: &mut BlockRun<impl LoadModel>,
    ) {
        match self.place(index).state {
            State::Connecting => {
                let error = Error::new(ErrorKind::Unsupported, format!("no response to the upgrade: {why}"));
                self.unconnected(index, &error, now_ns, block_run);
            }
            State::Waiting => self.lost(index, failure, why, now_ns, block_run),
            _ => {
                if failure == Failure::BadResponse {
                    block_run.count_error(failure);
                    self.core.judge.sample.note(failure, why.as_bytes());
                }
                self.discard(index);
                if freed {
                    self.send_next(index, now_ns, block_run);
                }
            }
        }
    }

    /// Handles an event before or after a block: the server closes the connection, or sends a ping.
    pub(super) fn idle_event(
        &mut self,
        index: usize,
        patience: &Patience,
        block_run: &mut BlockRun<impl LoadModel>,
        buffer: &mut [u8],
    ) {
        self.go_on(index);
        if let Err(error) = self.listen(index, patience, buffer) {
            if error.kind() == ErrorKind::Unsupported {
                block_run.count_error(Failure::BadResponse);
                self.core.judge.sample.note(Failure::BadResponse, error.to_string().as_bytes());
            }
            self.discard(index);
        }
    }
}
