//! When bytes arrived, by the kernel's own word (`SO_TIMESTAMPNS`, socket(7)): a clock read after the read says when we
//! came to look, and that is late by our own queue.

use socket2::Socket;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Room for one stamp: a header and a timespec.
pub const CONTROL_BYTES: usize = size_of::<Message>();
/// A header alone (cmsghdr).
const HEAD_BYTES: usize = 16;
/// Room for a stamp and for how much is left: a number, padded.
const CONTROLS_BYTES: usize = CONTROL_BYTES + HEAD_BYTES + 8;
/// `TCP_INQ` of linux/tcp.h, also what its answer is called (`TCP_CM_INQ`).
const TCP_INQ: libc::c_int = 36;
/// Thrown away at once at most.
const MAX_DISCARDED: usize = 1 << 30;
/// How long the kernel gets to begin with it: it patches itself the first time somebody asks.
const BEGIN_LIMIT: Duration = Duration::from_millis(50);

/// What one read brought.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Empty: the connection's end.
    pub bytes: &'a [u8],
    /// When the last of them arrived, CLOCK_REALTIME in ns; 0 where the kernel gave no stamp.
    pub stamp_ns: u64,
}

/// Has the kernel stamp what arrives on a socket.
///
/// # Errors
/// What the kernel said.
pub fn ask(socket: &Socket) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)
}

fn set(socket: &Socket, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open; the option's value outlives the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What `recvmsg` puts into control data: a header (cmsghdr) and a timespec, as they are where both are 16 bytes long.
#[repr(C)]
struct Message {
    length: u64,
    level: i32,
    kind: i32,
    seconds: i64,
    nanoseconds: i64,
}

/// The stamp among the control data of one read; 0: there is none.
#[inline]
pub fn read(control: &[u8]) -> u64 {
    if control.len() < size_of::<Message>() {
        return 0;
    }
    // SAFETY: as many bytes are there, by the line above, and any bytes make a Message.
    let message = unsafe { control.as_ptr().cast::<Message>().read_unaligned() };
    let ours = message.level == libc::SOL_SOCKET && message.kind == libc::SCM_TIMESTAMPNS;
    if ours { message.seconds as u64 * 1_000_000_000 + message.nanoseconds as u64 } else { 0 }
}

/// Control data, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control<const BYTES: usize>([u8; BYTES]);

/// `recvmsg(2)` into one piece; how many bytes it brought, and what the kernel told beside them.
///
/// # Safety
/// `piece` tells a place that may be written, unless `flags` keep the kernel from writing there.
#[inline]
unsafe fn take<const BYTES: usize>(
    fd: RawFd,
    mut piece: libc::iovec,
    control: &mut Control<BYTES>,
    flags: libc::c_int,
) -> io::Result<(usize, &[u8])> {
    // SAFETY: an all-zero msghdr is valid: no name, no pieces, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut *control).cast();
    message.msg_controllen = BYTES as _;
    // SAFETY: `message` and all it points to outlive the call and are as long as it says, the piece by our caller's word;
    // a descriptor that is open no more is an error.
    match unsafe { libc::recvmsg(fd, &raw mut message, flags) } {
        got if got >= 0 => Ok((got as usize, &control.0[..(message.msg_controllen as usize).min(BYTES)])),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A whole buffer as one piece.
fn piece(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }
}

/// Reads what is there, and when it arrived. A read that nothing answers fails with WouldBlock.
///
/// # Errors
/// What the kernel said.
#[inline]
pub fn receive<'a>(socket: &Socket, buffer: &'a mut [u8]) -> io::Result<Received<'a>> {
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: the piece is the buffer, which is ours to write.
    let (got, told) = unsafe { take(socket.as_raw_fd(), piece(buffer), &mut control, libc::MSG_DONTWAIT)? };
    Ok(Received { bytes: &buffer[..got], stamp_ns: read(told) })
}

/// What a read that waits brought.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// So many, at the buffer's begin; 0: the connection's end.
    pub bytes: usize,
    /// As in [`Received`].
    pub stamp_ns: u64,
    /// There is more to read, or an end.
    pub more: bool,
}

/// Has each read of a TCP socket tell whether there is more (`TCP_INQ`, Linux 4.18).
///
/// # Errors
/// What the kernel said.
pub fn ask_for_rest(socket: &Socket) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_INQ)
}

/// Reads, and waits for it as long as the socket lets it. `fd` is one that [`ask_for_rest`] was asked of.
///
/// # Errors
/// What the kernel said; WouldBlock where nothing came in time.
#[inline]
pub fn wait(fd: RawFd, buffer: &mut [u8]) -> io::Result<Waited> {
    let mut control = Control([0; CONTROLS_BYTES]);
    // SAFETY: the piece is the buffer, which is ours to write.
    let (bytes, told) = unsafe { take(fd, piece(buffer), &mut control, 0)? };
    let stamp_ns = read(told);
    // The stamp comes first, where there is one.
    let more = rest(if stamp_ns > 0 { &told[CONTROL_BYTES.min(told.len())..] } else { told });
    Ok(Waited { bytes, stamp_ns, more })
}

/// Whether the other side has closed, for its part at least.
pub fn ended(fd: RawFd) -> bool {
    let mut told = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut told, 1, 0) > 0 }
}

/// Whether control data says that there is more to read: it says so of an end, too.
#[inline]
fn rest(control: &[u8]) -> bool {
    if control.len() < HEAD_BYTES + size_of::<libc::c_int>() {
        return false;
    }
    // SAFETY: as many bytes are there, by the line above, and any bytes make these numbers.
    let (level, kind, count) = unsafe {
        let numbers = control.as_ptr().add(size_of::<u64>()).cast::<i32>();
        (numbers.read_unaligned(), numbers.add(1).read_unaligned(), numbers.add(2).read_unaligned())
    };
    level == libc::IPPROTO_TCP && kind == TCP_INQ && count > 0
}

/// Throws up to `most` bytes of what is there away, uncopied (`MSG_TRUNC`, tcp(7)); how many, and when the last arrived.
///
/// # Errors
/// What the kernel said; WouldBlock where nothing is there.
pub fn discard(socket: &Socket, most: u64) -> io::Result<(u64, u64)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let length = usize::try_from(most).unwrap_or(MAX_DISCARDED).min(MAX_DISCARDED);
    // No byte is written where MSG_TRUNC is given: the place is never looked at, only its length is.
    let nowhere = libc::iovec { iov_base: std::ptr::NonNull::<u8>::dangling().as_ptr().cast(), iov_len: length };
    // SAFETY: the descriptor is that of a TCP socket (`plan` sees to it): the flag keeps the kernel from writing the piece.
    let (got, told) = unsafe { take(socket.as_raw_fd(), nowhere, &mut control, libc::MSG_TRUNC)? };
    Ok((got as u64, read(told)))
}

/// Keeps the kernel stamping: it switches that on for the whole machine at the first socket that asks, and off after the
/// last one, each time by patching itself, which is nothing for a block to meet.
#[derive(Debug)]
pub struct TimestampSource {
    _asked: Socket,
}

impl TimestampSource {
    /// Asks, and sees stamps come; None where none do (a sandbox that takes the option and forgets it, another system).
    pub fn begin() -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let ours = Socket::from(TcpStream::connect(listener.local_addr().ok()?).ok()?);
        let (mut theirs, _) = listener.accept().ok()?;
        ask(&ours).ok()?;
        let (begun, mut byte) = (Instant::now(), [0]);
        while begun.elapsed() < BEGIN_LIMIT {
            theirs.write_all(b"x").ok()?;
            if receive(&ours, &mut byte).ok()?.stamp_ns > 0 {
                return Some(Self { _asked: ours });
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn a_stamp_lies_between_the_sending_and_the_reading() {
        let Some(_stamping) = TimestampSource::begin() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = Socket::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (mut theirs, _) = listener.accept().unwrap();
        ask(&ours).unwrap();
        let before_ns = sys::real_ns();
        theirs.write_all(b"answer").unwrap();
        let mut buffer = [0; 64];
        let received = receive(&ours, &mut buffer).unwrap();
        assert_eq!(received.bytes, b"answer");
        assert!((before_ns..=sys::real_ns()).contains(&received.stamp_ns), "{}", received.stamp_ns);
        drop(theirs);
        let end = receive(&ours, &mut buffer).unwrap();
        assert!(end.bytes.is_empty() && end.stamp_ns == 0);
    }

    #[test]
    fn a_read_that_waits_tells_what_is_left_and_an_end_behind_the_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = Socket::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (mut theirs, _) = listener.accept().unwrap();
        ask(&ours).unwrap();
        ask_for_rest(&ours).unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let (fd, mut buffer) = (ours.as_raw_fd(), [0; 4]);
        assert_eq!(wait(fd, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        theirs.write_all(b"answer").unwrap();
        let first = wait(fd, &mut buffer).unwrap();
        assert!(first.bytes == 4 && first.more && !ended(fd), "{first:?}");
        let second = wait(fd, &mut buffer).unwrap();
        assert!(second.bytes == 2 && !second.more && !ended(fd), "{second:?}");
        theirs.write_all(b"end").unwrap();
        drop(theirs);
        while !ended(fd) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let last = wait(fd, &mut buffer).unwrap();
        assert!(last.bytes == 3 && last.more, "{last:?}");
        assert_eq!(wait(fd, &mut buffer).unwrap().bytes, 0);
    }

    #[test]
    fn control_data_that_is_no_stamp_is_none() {
        assert_eq!(read(&[]), 0);
        assert_eq!(read(&[0; CONTROL_BYTES]), 0);
        assert_eq!(read(&[1; CONTROL_BYTES - 1]), 0);
    }
}
