//! Bytes that are sent only once: a copy of them waits here until the kernel has taken them.
//!
//! The bytes of a queued send must keep their address until they are sent. Prepared requests do. Frames of HTTP/2 have another
//! stream number each time, and pipelined requests are put together for each call: these are copied into memory that is used
//! again after the call that submits them. The kernel sends at once or not at all (`MSG_DONTWAIT`), and as many bytes as it
//! can (`MSG_WAITALL`), so it needs the copy only during that call. A send of all bytes has no completion. Any other has one
//! with the number of sent bytes, and the rest is kept until the connection has room.

use super::{Completion, KIND, LONG_REQUEST, SEND, TOGETHER, Uring, slot};
use crate::sys;
use io_uring::opcode;
use io_uring::squeue::Flags;
use socket2::Socket;
use std::io;

/// A queued send: its connection, and where its bytes are.
#[derive(Clone, Copy)]
struct Staged {
    token: u64,
    at: usize,
    length: usize,
}

/// Queued bytes, and bytes for which sockets had no room.
#[derive(Default)]
pub(super) struct Staging {
    /// Empty until something is queued; then its address stays the same.
    memory: Box<[u8]>,
    taken: usize,
    staged: Vec<Staged>,
    /// By token, bytes that are to be sent first.
    kept: Vec<(u64, Vec<u8>)>,
}

impl Staging {
    /// Whether anything is queued.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Whether a connection's socket had no room for earlier bytes.
    #[inline]
    pub(super) fn keeps(&self, token: u64) -> bool {
        self.kept.iter().any(|(kept, _)| *kept == token)
    }

    /// How many bytes of a connection are to be sent first.
    #[inline]
    pub(super) fn kept_bytes(&self, token: u64) -> usize {
        self.kept.iter().find(|(kept, _)| *kept == token).map_or(0, |(_, bytes)| bytes.len())
    }

    /// Discards the bytes of a connection.
    pub(super) fn forget(&mut self, token: u64) {
        self.kept.retain(|(kept, _)| *kept != token);
    }

    #[inline]
    fn queues(&self, token: u64) -> bool {
        self.staged.iter().any(|staged| staged.token == token)
    }

    /// Copies bytes; returns where they are.
    #[inline]
    fn take(&mut self, token: u64, bytes: &[u8]) -> *const u8 {
        if self.memory.is_empty() {
            self.memory = vec![0; TOGETHER * LONG_REQUEST].into();
        }
        let at = self.taken;
        self.taken += bytes.len();
        self.staged.push(Staged { token, at, length: bytes.len() });
        let copy = &mut self.memory[at..self.taken];
        copy.copy_from_slice(bytes);
        copy.as_ptr()
    }

    /// Keeps the unsent bytes of a send that failed for lack of room; false: it failed for another reason.
    #[cold]
    fn keep(&mut self, done: &Completion) -> bool {
        let token = done.user_data & !KIND;
        let Some(staged) = self.staged.iter().find(|staged| staged.token == token) else { return false };
        let sent = match done.result {
            sent @ 0.. => sent as usize,
            error if error == -libc::EAGAIN => 0,
            _ => return false,
        };
        self.kept.push((token, self.memory[staged.at..][..staged.length][sent.min(staged.length)..].to_vec()));
        true
    }
}

impl Uring {
    /// Queues bytes that the next call sends; sends them directly if they are long.
    ///
    /// # Errors
    /// WouldBlock: earlier bytes have to be sent first; otherwise the kernel's error.
    #[inline]
    pub(super) fn stage(&mut self, token: u64, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        // One call never has two sends of one connection: the second would overtake the rest of the first.
        let long = bytes.len() > LONG_REQUEST;
        if self.staging.waits() && (long || self.staging.queues(token)) || self.ring.submission().is_full() {
            self.submit();
        }
        if self.staging.keeps(token) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if long {
            let sent_ns = sys::now_ns();
            let sent = super::super::send(socket, bytes)?;
            self.departed.push((token, sent_ns));
            return Ok(sent);
        }
        let at = self.staging.take(token, bytes);
        let entry = opcode::Send::new(slot(token), at, bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | libc::MSG_DONTWAIT)
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(token | SEND);
        self.push(&entry);
        self.queued.push(token);
        if self.queued.len() == TOGETHER {
            self.submit();
        }
        Ok(bytes.len())
    }

    /// After the call that submitted the queued bytes: keeps what was not sent, and frees the memory.
    #[inline]
    pub(super) fn staged_left(&mut self) {
        if !self.ring.submission().is_empty() {
            return; // the kernel was short of memory; the next call submits the rest
        }
        if !self.ring.completion().is_empty() {
            self.look_early();
        }
        self.staging.staged.clear();
        self.staging.taken = 0;
    }

    fn look_early(&mut self) {
        let from = self.early.len();
        self.early.extend(self.ring.completion().map(|entry| Completion {
            user_data: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        }));
        for index in from..self.early.len() {
            let done = &self.early[index];
            if done.user_data & KIND == SEND && self.staging.keep(done) {
                let token = done.user_data & !KIND;
                self.early[index].result = 0; // not an error
                self.await_room(token);
            }
        }
    }

    /// There is room: sends the kept bytes, as far as the socket accepts them.
    #[cold]
    pub(super) fn send_kept(&mut self, token: u64, socket: &Socket) {
        let Some(index) = self.staging.kept.iter().position(|(kept, _)| *kept == token) else { return };
        let (_, mut rest) = self.staging.kept.swap_remove(index);
        // Ends: each turn sends some of the bytes.
        while !rest.is_empty() {
            match super::super::send(socket, &rest) {
                Ok(sent) => drop(rest.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.staging.kept.push((token, rest));
                    return self.await_room(token);
                }
                Err(_) => return, // the next read fails the requests
            }
        }
    }
}
