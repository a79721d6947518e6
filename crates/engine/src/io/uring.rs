//! Completions by io_uring: one ring per session and worker, created and used on the worker's thread.
//!
//! There is one ring per session, not per worker: its buffers and its table of files are as large as the session needs, and
//! idle connections of another session can't wake or delay a block. Successful sends have no completion. Each connection has
//! one multishot receive, into buffers that the kernel chooses. COOP_TASKRUN would add nothing, because DEFER_TASKRUN
//! implies it. Bytes that are sent only once are in `staging`.

mod staging;

use super::buffers::{Buffers, Loan};
use super::timestamps::{self, CONTROL_BYTES, Received};
use super::{Coalescing, Event, Needs, Transport};
use crate::schedule::NEVER_NS;
use crate::sys;
use io_uring::squeue::{self, Flags};
use io_uring::types::{CancelBuilder, Fixed, SubmitArgs, TimeoutFlags, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use socket2::Socket;
use staging::Staging;
use std::cmp::Ordering;
use std::io;
use std::os::fd::AsRawFd;

/// Completions per batch; the requests that result from them are sent before the next batch.
const BATCH: usize = 256;
/// Memory is prefetched this many completions ahead: handling one takes about as long as a fetch.
const AHEAD: usize = 4;
/// Prefetched bytes of what arrived, at most; the processor fetches the rest by itself.
const MAX_FETCHED: i32 = 256;
/// Maximum number of entries of the submission queue; a full queue is submitted early.
const MAX_ENTRIES: usize = 512;
/// Maximum number of requests per call, if latencies are short. A recorded send time is early by as much as the requests
/// before it in its call took longer than assumed. This error grows with each request, and is 0 again after each reading of
/// the clock. With eight, recorded latencies at 100 connections are 5 µs too long, as with one; with sixteen, 8 µs. With
/// four, a request costs a thirtieth more than with eight.
const TOGETHER: usize = 8;
/// Maximum number of requests per call, however long latencies are. With 10,000 connections, 8 per call cost a tenth more
/// than 64.
const MAX_TOGETHER: usize = 64;
/// One more request per call for each such part of the latency: sending one takes about a thousandth of this longer than at
/// best, and a thousandth is the histogram's precision.
const LATENCY_FOR_ONE_NS: u64 = 1_000_000;
/// Fewer requests than these are submitted by the next wait, which saves a call; all have its begin as send time.
const APART: usize = 3;
/// Minimum number of requests in a call for its duration to count for a quick call's share.
const TELLING: u64 = 4;
/// Each such call that took longer raises a quick call's share by this much, and each other one lowers it by
/// [`FALL_NS`], so that it approaches the quickest 32nd of the calls. Beside other work the median holds interruptions:
/// send times would come out too late, and latencies too short.
const RISE_NS: u64 = 1;
const FALL_NS: u64 = 31;
/// Receives that are cancelled together at the end.
const CANCELS: usize = 128;
/// Longer requests are sent by a system call of their own: they may not fit into the socket's buffer.
pub(super) const LONG_REQUEST: usize = 4096;
/// Room for a head, and for what the kernel writes before each read's bytes.
const HEAD_BYTES: usize = 1024;
/// Maximum size of all buffers of a session on one worker.
const MAX_BUFFER_BYTES: usize = 4 << 20;
/// The beginning of a receive (`io_uring_recvmsg_out`): four u32, the lengths of name, control data and payload, and flags.
const LAYOUT_BYTES: usize = 16;
/// The result of a receive at the end of a connection: the layout, and nothing in it.
const EMPTY_BYTES: i32 = (LAYOUT_BYTES + CONTROL_BYTES) as i32;
/// The number of the only buffer ring.
const GROUP: u16 = 0;

/// The kind of a completion, in bits of a token that no link's number uses.
pub(super) const KIND: u64 = 0xf << 28;
pub(super) const RECEIVE: u64 = 0;
pub(super) const SEND: u64 = 1 << 28;
const ROOM: u64 = 2 << 28;
const CANCEL: u64 = 3 << 28;
const ALARM: u64 = 4 << 28;

#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub(super) user_data: u64,
    pub(super) result: i32,
    flags: u32,
}

/// The connection of a link.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) token: u64,
    /// Its socket is in the table of files.
    pub(super) held: bool,
}

/// One ring with its buffers and its table of files. Fields are dropped in this order: the ring before what it uses.
pub struct Uring {
    ring: IoUring,
    buffers: Buffers,
    /// Short requests, by number; their addresses stay the same as long as the ring exists.
    pub(super) requests: Box<[Box<[u8]>]>,
    pub(super) places: Box<[Place]>,
    pub(super) batch: Vec<Completion>,
    /// The result of the latest event's receive, until it is taken.
    arrived: Option<i32>,
    /// The buffer with the latest event's bytes.
    lent: Option<u16>,
    /// Bytes that are sent only once, until the kernel has taken them.
    staging: Staging,
    /// Completions that were taken before their turn.
    early: Vec<Completion>,
    /// Tokens of requests that are queued and not submitted.
    pub(super) queued: Vec<u64>,
    /// Tokens and send times of submitted requests.
    departed: Vec<(u64, u64)>,
    /// The time to send one of several requests in the quickest 32nd of the calls.
    quick_share_ns: u64,
    /// Maximum number of requests per call, at present.
    together: usize,
    /// When the alarm goes off; [`NEVER_NS`]: it is not set.
    alarm_ns: u64,
    /// The same for the kernel; the queue points to it, so its address stays the same.
    alarm: Box<Timespec>,
    /// The form of each receive: no name, and room for a timestamp. The queue points to it, so its address stays the same.
    pub(super) shape: Box<libc::msghdr>,
    /// Sockets deliver timestamps.
    pub(super) stamps: bool,
    /// The kernel can wait for several completions for some time, and then for one (Linux 6.12).
    minimum_wait: bool,
    /// Alarms are set as a duration from now; see [`sys::clock_is_shifted`].
    shifted: bool,
}

fn build(entries: u32, completions: u32) -> io::Result<IoUring> {
    let build = |no_array: bool| {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_clamp();
        builder.setup_cqsize(completions);
        if no_array {
            builder.setup_no_sqarray();
        }
        builder.build(entries)
    };
    // Linux 6.6 has it. An older one returns EINVAL, and so does one that lacks the other flags (before 6.1).
    build(true).or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { build(false) } else { Err(error) })
}

impl Uring {
    /// Flags and features, for the report.
    pub fn describe(&self) -> String {
        let several = if self.minimum_wait { "minimum wait" } else { "count and time-out" };
        format!("single issuer, deferred task run, multishot receive, provided buffers, registered files, {several}")
    }

    /// Queues entries that belong together; submits the queue first if it is full.
    #[inline]
    pub(super) fn push_all(&mut self, entries: &[squeue::Entry]) {
        // SAFETY: as in `push`; the caller keeps what a linked entry points to as long as the ring.
        if unsafe { self.ring.submission().push_multiple(entries) }.is_err() {
            self.submit();
            // SAFETY: as above.
            let _ = unsafe { self.ring.submission().push_multiple(entries) };
        }
    }

    /// Queues an entry; submits the queue first if it is full.
    #[inline]
    pub(super) fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: entries point to nothing, or to fields of this ring that keep their address.
        if unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit();
            // SAFETY: as above. If there is still no room, the request times out.
            let _ = unsafe { self.ring.submission().push(entry) };
        }
    }

    /// A multishot receive.
    pub(super) fn receive_entry(&self, token: u64) -> squeue::Entry {
        opcode::RecvMsgMulti::new(slot(token), &raw const *self.shape, GROUP).build().user_data(token | RECEIVE)
    }

    /// The sending of a request.
    #[inline]
    pub(super) fn send_entry(&self, token: u64, number: usize) -> squeue::Entry {
        let request = &self.requests[number];
        opcode::Send::new(slot(token), request.as_ptr(), request.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(token | SEND)
    }

    fn await_room(&mut self, token: u64) {
        let entry = opcode::PollAdd::new(slot(token), libc::POLLOUT as u32).build().user_data(token | ROOM);
        self.push(&entry);
    }

    fn arm(&mut self, token: u64) {
        let entry = self.receive_entry(token);
        self.push(&entry);
    }

    /// Cancels operations of a token. By number and not by file, because the kernel would then search all operations.
    pub(super) fn cancel(&mut self, token: u64, kinds: &[u64]) {
        for kind in kinds {
            let operation = CancelBuilder::user_data(token | kind);
            self.push(&opcode::AsyncCancel2::new(operation).build().user_data(CANCEL));
        }
    }

    /// Submits what is queued without waiting, and records a send time for each request that is not later than the true one.
    /// No request is sent before the call, and each one waits for those before it. Each of those is assumed to have taken
    /// seven eighths of its share of the call, or of a quick call's share if that is less, because an interruption may have
    /// lengthened the call. If they were faster still, the way of a request to its device makes up for that: it takes 2 µs
    /// and more, which are not counted.
    fn submit(&mut self) {
        let (before_ns, count) = (sys::now_ns(), self.queued.len() as u64);
        let waiting = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed.
        let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(waiting, 0, 0, None) };
        let share_ns = if count > 1 { self.share_ns((sys::now_ns() - before_ns) / count, count) } else { 0 };
        let departure = |(turn, token)| (token, before_ns + share_ns * turn as u64);
        self.departed.extend(self.queued.drain(..).enumerate().map(departure));
        if self.staging.waits() {
            self.staged_left();
        }
    }

    /// The time that each request of a call is assumed to have taken, from its share of the call.
    #[inline]
    fn share_ns(&mut self, share_ns: u64, count: u64) -> u64 {
        let quick_ns = self.quick_share_ns;
        if count >= TELLING {
            self.quick_share_ns = match share_ns.cmp(&quick_ns) {
                Ordering::Greater => quick_ns + RISE_NS,
                Ordering::Equal => quick_ns,
                Ordering::Less => quick_ns.saturating_sub(FALL_NS),
            };
        }
        share_ns.min(quick_ns) / 8 * 7
    }

    /// Queued requests are submitted by the next call, so they are not sent before now.
    #[inline]
    fn note_departures(&mut self) {
        if !self.queued.is_empty() {
            let sent_ns = sys::now_ns();
            self.departed.extend(self.queued.drain(..).map(|token| (token, sent_ns)));
        }
    }

    /// Makes waits end by then. A timer per wait would cost a tenth of a request with one connection, so the alarm is kept
    /// across waits, and set again only if it would come too late.
    fn set_alarm(&mut self, due_ns: u64) {
        if self.alarm_ns <= due_ns {
            return;
        }
        self.alarm_ns = due_ns;
        // A point in time is more precise than a duration, which begins only when the kernel reads it.
        let (when_ns, flags) = if self.shifted {
            (due_ns.saturating_sub(sys::now_ns()), TimeoutFlags::empty())
        } else {
            (due_ns, TimeoutFlags::ABS)
        };
        *self.alarm = timespec(when_ns);
        let entry = opcode::Timeout::new(&*self.alarm).flags(flags).build().user_data(ALARM);
        self.push(&entry);
    }

    /// Submits what is queued and waits.
    fn enter(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) {
        let (mut wanted, mut limit) = (usize::from(limit_ns > 0), None);
        let mut arguments = SubmitArgs::new();
        match coalescing {
            _ if limit_ns == 0 => {}
            None => self.set_alarm(now_ns + limit_ns),
            Some(coalescing) => {
                wanted = coalescing.answers.max(1);
                if coalescing.most_ns >= limit_ns {
                    // Something is due at the limit. Time has passed since the clock was read: requests were sent.
                    limit = Some(timespec((now_ns + limit_ns).saturating_sub(sys::now_ns())));
                } else if self.minimum_wait {
                    arguments = arguments.min_wait_usec((coalescing.most_ns / 1000).max(1) as u32);
                    limit = Some(timespec(limit_ns));
                } else {
                    limit = Some(timespec(limit_ns.min(coalescing.most_ns)));
                }
            }
        }
        let arguments = match &limit {
            Some(limit) => arguments.timespec(limit),
            None => arguments,
        };
        let waiting = self.ring.submission().len() as u32;
        self.note_departures();
        // GETEVENTS even without waiting: it runs the deferred work.
        let flags = (EnterFlags::GETEVENTS | EnterFlags::EXT_ARG).bits();
        // SAFETY: arguments and time outlive the call, the alarm's time outlives the ring. Errors are a signal, the limit, or
        // completions to be taken first: in each case the completions are taken next.
        let _ = unsafe { self.ring.submitter().enter(waiting, wanted as u32, flags, Some(&arguments)) };
        if self.staging.waits() {
            self.staged_left();
        }
    }

    fn collect(&mut self) {
        self.batch.extend(self.ring.completion().take(BATCH).map(|entry| Completion {
            user_data: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        }));
    }

    /// Returns the latest event's buffer.
    #[inline]
    pub(super) fn give_back(&mut self) {
        self.arrived = None;
        if let Some(id) = self.lent.take() {
            self.buffers.give(id);
        }
    }

    pub(super) fn current(&self, token: u64) -> bool {
        let place = self.places[token as u32 as usize];
        place.held && place.token == token
    }

    /// Whether the end of the connection follows the receive at `index` in the same batch.
    #[cold]
    fn end_follows(&self, index: usize) -> bool {
        let same = |later: &&Completion| later.user_data == self.batch[index].user_data;
        self.batch[index + 1..]
            .iter()
            .find(same)
            .is_some_and(|later| later.result <= EMPTY_BYTES && later.result != -libc::ENOBUFS)
    }

    /// Reads what the kernel has put into a buffer: layout, timestamp (if there is one), bytes.
    #[inline]
    fn unpack(&self, id: u16, length: usize) -> Received<'_> {
        let filled = self.buffers.filled(id, length.max(EMPTY_BYTES as usize));
        let control_bytes = u32::from_ne_bytes([filled[4], filled[5], filled[6], filled[7]]);
        let control = &filled[LAYOUT_BYTES..][..(control_bytes as usize).min(CONTROL_BYTES)];
        Received { bytes: &filled[EMPTY_BYTES as usize..], stamp_ns: timestamps::read(control) }
    }

    /// What the latest event has brought.
    #[inline]
    pub(super) fn taken(&mut self) -> io::Result<Received<'_>> {
        match (self.arrived.take(), self.lent) {
            (None, _) => Err(io::ErrorKind::WouldBlock.into()),
            (Some(result @ 1..), Some(id)) => Ok(self.unpack(id, result as usize)),
            (Some(error @ ..=-1), _) => Err(io::Error::from_raw_os_error(-error)),
            (Some(_), _) => Ok(Received { bytes: &[], stamp_ns: 0 }), // the end
        }
    }

    #[inline]
    pub(super) fn received(&mut self, index: usize, token: u64, done: Completion) -> Option<Event> {
        self.lent = cqueue::buffer_select(done.flags);
        let out_of_buffers = done.result == -libc::ENOBUFS;
        let ended = done.result <= EMPTY_BYTES && !out_of_buffers;
        if !cqueue::more(done.flags) && !ended && self.current(token) {
            self.arm(token); // it is submitted after this batch has returned its buffers
        }
        if out_of_buffers {
            return None;
        }
        self.arrived = Some(done.result);
        // "Not empty" may also mean the end of the connection.
        let closing = ended || cqueue::sock_nonempty(done.flags) && self.end_follows(index);
        Some(Event { token, readable: true, writable: false, closing, unsent: 0 })
    }
}

/// The maximum number of requests per call, by the lowest latency.
#[inline]
fn together(least_ns: u64) -> usize {
    ((least_ns / LATENCY_FOR_ONE_NS) as usize).clamp(TOGETHER, MAX_TOGETHER)
}

/// No name, and room for a timestamp in the control data.
fn shape() -> Box<libc::msghdr> {
    // SAFETY: an all-zero msghdr is valid.
    let mut shape: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
    shape.msg_controllen = CONTROL_BYTES as _;
    shape
}

fn timespec(ns: u64) -> Timespec {
    Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32)
}

/// A link's entry in the table of files.
pub(super) fn slot(token: u64) -> Fixed {
    Fixed(token as u32)
}

impl Transport for Uring {
    type Socket = Socket;

    const BRINGS_BYTES: bool = true;
    const SENDS_LATER: bool = true;
    const STAGES: bool = true;
    const LENDS: bool = true;

    fn open(needs: &Needs) -> io::Result<Self> {
        let connections = needs.connections.max(1);
        let entries = (2 * connections).next_power_of_two().clamp(16, MAX_ENTRIES);
        let completions = (2 * connections).next_power_of_two().clamp(2 * entries, 1 << 15);
        let size = (needs.body_bytes + HEAD_BYTES).next_power_of_two().clamp(2048, 1 << 16);
        let count = connections.next_power_of_two().clamp(16, MAX_BUFFER_BYTES / size);
        // Buffers whose addresses differ by a power of two would compete for a few sets of the processor's caches.
        let size = size + sys::LINE_BYTES;
        let ring = build(entries as u32, completions as u32)?;
        let buffers = Buffers::new(count as u16, size)?;
        let short = |request: &&[u8]| if request.len() > LONG_REQUEST { Box::default() } else { Box::from(*request) };
        let minimum_wait = ring.params().is_feature_min_timeout();
        let made = Self {
            ring,
            buffers,
            requests: needs.requests.iter().map(short).collect(),
            places: vec![Place::default(); connections].into(),
            batch: Vec::with_capacity(BATCH),
            staging: Staging::default(),
            early: Vec::new(),
            arrived: None,
            lent: None,
            queued: Vec::with_capacity(entries),
            departed: Vec::with_capacity(connections.max(entries)),
            quick_share_ns: 0,
            together: TOGETHER,
            alarm_ns: NEVER_NS,
            alarm: Box::new(Timespec::new()),
            shape: shape(),
            stamps: needs.stamps,
            minimum_wait,
            shifted: sys::clock_is_shifted(),
        };
        let submitter = made.ring.submitter();
        submitter.register_files_sparse(connections as u32)?;
        // SAFETY: `made` owns the buffers; its drop unregisters them first.
        unsafe {
            submitter.register_buf_ring_with_flags(made.buffers.address(), made.buffers.count(), GROUP, 0)?;
        }
        Ok(made)
    }

    fn watch(&mut self, token: u64, socket: &Socket, connecting: bool) -> io::Result<()> {
        if self.stamps {
            timestamps::ask(socket)?;
        }
        if self.staging.waits() {
            self.submit(); // before the link has another connection
        }
        let index = token as u32;
        self.ring.submitter().register_files_update(index, &[socket.as_raw_fd()])?;
        self.places[index as usize] = Place { token, held: true };
        if connecting {
            return self.want_writable(token, socket);
        }
        self.arm(token);
        Ok(())
    }

    fn established(&mut self, token: u64) {
        self.arm(token);
    }

    #[inline]
    fn send(&mut self, token: u64, socket: &Socket, number: usize, request: &[u8]) -> io::Result<usize> {
        if request.len() > LONG_REQUEST {
            self.departed.push((token, sys::now_ns()));
            return super::send(socket, request);
        }
        let entry = self.send_entry(token, number);
        self.push(&entry);
        self.queued.push(token);
        if self.queued.len() >= self.together {
            self.submit();
        }
        Ok(request.len())
    }

    #[inline]
    fn send_now(&mut self, token: u64, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.stage(token, socket, bytes)
    }

    fn go_on(&mut self, token: u64, socket: &Socket) {
        self.send_kept(token, socket);
    }

    #[inline]
    fn unsent(&self, token: u64) -> usize {
        self.staging.kept_bytes(token)
    }

    fn want_writable(&mut self, token: u64, _: &Socket) -> io::Result<()> {
        if !self.staging.keeps(token) {
            self.await_room(token); // otherwise that was done already
        }
        Ok(())
    }

    #[inline]
    fn latency(&mut self, least_ns: u64) {
        self.together = together(least_ns);
    }

    #[inline]
    fn flush(&mut self) {
        if self.queued.len() >= APART {
            self.submit();
        }
    }

    #[inline]
    fn departure(&mut self) -> Option<(u64, u64)> {
        self.departed.pop()
    }

    fn wait(&mut self, now_ns: u64, limit_ns: u64, coalescing: Option<Coalescing>) -> usize {
        self.give_back();
        self.batch.clear();
        if !self.early.is_empty() {
            self.batch.append(&mut self.early);
        }
        self.collect();
        if self.batch.is_empty() {
            self.enter(now_ns, limit_ns, coalescing);
            if !self.early.is_empty() {
                self.batch.append(&mut self.early);
            }
            self.collect();
        } else if !self.ring.submission().is_empty() {
            self.submit();
        }
        self.batch.len()
    }

    #[inline]
    fn ahead(&self, index: usize) -> Option<u64> {
        let later = self.batch.get(index + AHEAD)?;
        if let Some(id) = cqueue::buffer_select(later.flags) {
            sys::prefetch(self.buffers.filled(id, later.result.clamp(0, MAX_FETCHED) as usize));
        }
        Some(later.user_data & !KIND)
    }

    #[inline]
    fn event(&mut self, index: usize) -> Option<Event> {
        self.give_back();
        let done = self.batch[index];
        let token = done.user_data & !KIND;
        let empty = Event { token, readable: false, writable: false, closing: false, unsent: 0 };
        match done.user_data & KIND {
            RECEIVE => self.received(index, token, done),
            SEND if done.result < 0 => Some(Event { unsent: -done.result, ..empty }),
            ROOM if done.result != -libc::ECANCELED => Some(Event { writable: true, ..empty }),
            ALARM => {
                self.alarm_ns = NEVER_NS;
                None
            }
            _ => None,
        }
    }

    #[inline]
    fn receive<'a>(&'a mut self, _: &Socket, _: &'a mut [u8]) -> io::Result<Received<'a>> {
        self.taken()
    }

    #[inline]
    fn lend(&mut self, _: &Socket) -> io::Result<Option<(Loan, u64)>> {
        let taken = self.taken()?;
        let (stamp_ns, length) = (taken.stamp_ns, taken.bytes.len());
        let (from, to) = (EMPTY_BYTES as usize, EMPTY_BYTES as usize + length);
        if length == 0 {
            return Ok(None);
        }
        // SAFETY: `lent` had its number, and nothing has it now, so it can't be given to the kernel.
        Ok(self.lent.take().map(|id| (unsafe { self.buffers.lend(id, from, to) }, stamp_ns)))
    }

    #[inline]
    fn take_back(&mut self, loan: Loan) {
        self.buffers.take_back(loan);
    }

    /// Closing a descriptor does not close a file that is in the table, or that an operation uses.
    fn release(&mut self, token: u64, socket: Socket) {
        self.staging.forget(token);
        if self.current(token) {
            self.cancel(token, &[RECEIVE, SEND, ROOM]);
            self.submit(); // before the link has another connection
            let _ = self.ring.submitter().register_files_update(token as u32, &[-1]);
            self.places[token as u32 as usize].held = false;
        } else {
            self.cancel(token, &[RECEIVE]);
        }
        drop(socket);
    }

    fn settle(&mut self) {
        self.enter(0, 0, None);
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Closing a ring cancels its operations only later, in the background: until then connections would stay open and
        // buffers in use. Cancelling all of them at once takes quadratic time.
        for index in 0..self.places.len() {
            if self.places[index].held {
                self.cancel(self.places[index].token, &[RECEIVE]);
            }
            if index % CANCELS == CANCELS - 1 || index == self.places.len() - 1 {
                // The kernel does a part of its deferred work in each call.
                self.enter(0, 0, None);
                // Ends: buffers are not given back, so that the kernel has ever fewer to fill.
                while self.ring.completion().count() > 0 {
                    self.enter(0, 0, None);
                }
            }
        }
        let submitter = self.ring.submitter();
        let _ = submitter.register_sync_cancel(None, CancelBuilder::any());
        let _ = submitter.unregister_files();
        let _ = submitter.unregister_buf_ring(GROUP);
    }
}

#[cfg(test)]
mod tests;
