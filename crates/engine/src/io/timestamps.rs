//! When bytes arrived, by the kernel's timestamps (`SO_TIMESTAMPNS`, socket(7)). A clock that is read after the bytes would
//! include the time that they waited for the engine.

use socket2::Socket;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Room for one timestamp: a header and a timespec.
pub const CONTROL_BYTES: usize = size_of::<Message>();
/// A header alone (cmsghdr).
const HEAD_BYTES: usize = 16;
/// Room for a timestamp and for how many bytes are left: a number, padded.
const CONTROLS_BYTES: usize = CONTROL_BYTES + HEAD_BYTES + 8;
/// `TCP_INQ` of linux/tcp.h, also the kind of its control message (`TCP_CM_INQ`).
const TCP_INQ: libc::c_int = 36;
/// Maximum number of bytes that one call discards.
const MAX_DISCARDED: usize = 1 << 30;
/// How long the kernel may take to begin: it patches itself for the first socket with timestamps.
const BEGIN_LIMIT: Duration = Duration::from_millis(50);

/// The result of one read.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Empty: the end of the connection.
    pub bytes: &'a [u8],
    /// When the last of them arrived, CLOCK_REALTIME in ns; 0: no timestamp.
    pub stamp_ns: u64,
}

/// Switches on timestamps for a socket.
///
/// # Errors
/// The kernel's error.
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

/// The control message of a timestamp: a header (cmsghdr) and a timespec, 16 bytes each.
#[repr(C)]
struct Message {
    length: u64,
    level: i32,
    kind: i32,
    seconds: i64,
    nanoseconds: i64,
}

/// The timestamp in the control data of one read; 0: there is none.
#[inline]
pub fn read(control: &[u8]) -> u64 {
    if control.len() < size_of::<Message>() {
        return 0;
    }
    // SAFETY: enough bytes are there, by the line above, and any bytes are a valid Message.
    let message = unsafe { control.as_ptr().cast::<Message>().read_unaligned() };
    let ours = message.level == libc::SOL_SOCKET && message.kind == libc::SCM_TIMESTAMPNS;
    if ours { message.seconds as u64 * 1_000_000_000 + message.nanoseconds as u64 } else { 0 }
}

/// Control data, aligned as the kernel needs it.
#[repr(C, align(8))]
struct Control<const BYTES: usize>([u8; BYTES]);

/// `recvmsg(2)` into one piece of memory; returns the number of bytes, and the control data.
///
/// # Safety
/// `piece` must be writable, unless `flags` keep the kernel from writing to it.
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
    // SAFETY: `message` and everything it points to outlive the call and have the given lengths; the caller guarantees the
    // piece. A closed descriptor is an error.
    match unsafe { libc::recvmsg(fd, &raw mut message, flags) } {
        got if got >= 0 => Ok((got as usize, &control.0[..(message.msg_controllen as usize).min(BYTES)])),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A whole buffer as one piece.
fn piece(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }
}

/// Reads what is there, with its timestamp.
///
/// # Errors
/// The kernel's error; WouldBlock: nothing is there.
#[inline]
pub fn receive<'a>(socket: &Socket, buffer: &'a mut [u8]) -> io::Result<Received<'a>> {
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: the piece is the buffer, which is writable.
    let (got, control) = unsafe { take(socket.as_raw_fd(), piece(buffer), &mut control, libc::MSG_DONTWAIT)? };
    Ok(Received { bytes: &buffer[..got], stamp_ns: read(control) })
}

/// The result of a blocking read.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// Number of bytes at the beginning of the buffer; 0: the end of the connection.
    pub bytes: usize,
    /// As in [`Received`].
    pub stamp_ns: u64,
    /// More bytes, or the end of the connection, are there.
    pub more: bool,
}

/// Makes each read of a TCP socket report whether more is there (`TCP_INQ`, Linux 4.18).
///
/// # Errors
/// The kernel's error.
pub fn ask_for_rest(socket: &Socket) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_INQ)
}

/// Reads, and waits up to the socket's time limit. [`ask_for_rest`] was called for `fd`.
///
/// # Errors
/// The kernel's error; WouldBlock: nothing came in time.
#[inline]
pub fn wait(fd: RawFd, buffer: &mut [u8]) -> io::Result<Waited> {
    let mut control = Control([0; CONTROLS_BYTES]);
    // SAFETY: the piece is the buffer, which is writable.
    let (bytes, messages) = unsafe { take(fd, piece(buffer), &mut control, 0)? };
    let stamp_ns = read(messages);
    // The timestamp comes first, if there is one.
    let more = rest(if stamp_ns > 0 { &messages[CONTROL_BYTES.min(messages.len())..] } else { messages });
    Ok(Waited { bytes, stamp_ns, more })
}

/// Whether the other side has closed at least its sending direction.
pub fn ended(fd: RawFd) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one entry, which outlives the call.
    unsafe { libc::poll(&raw mut entry, 1, 0) > 0 }
}

/// Whether control data says that more is there to read; the end of the connection counts, too.
#[inline]
fn rest(control: &[u8]) -> bool {
    if control.len() < HEAD_BYTES + size_of::<libc::c_int>() {
        return false;
    }
    // SAFETY: enough bytes are there, by the line above, and any bytes are valid numbers.
    let (level, kind, count) = unsafe {
        let numbers = control.as_ptr().add(size_of::<u64>()).cast::<i32>();
        (numbers.read_unaligned(), numbers.add(1).read_unaligned(), numbers.add(2).read_unaligned())
    };
    level == libc::IPPROTO_TCP && kind == TCP_INQ && count > 0
}

/// Discards up to `most` bytes that are there, without copying them (`MSG_TRUNC`, tcp(7)); returns how many, and when the
/// last one arrived.
///
/// # Errors
/// The kernel's error; WouldBlock: nothing is there.
pub fn discard(socket: &Socket, most: u64) -> io::Result<(u64, u64)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let length = usize::try_from(most).unwrap_or(MAX_DISCARDED).min(MAX_DISCARDED);
    // With MSG_TRUNC no byte is written: only the length of the piece is used.
    let nowhere = libc::iovec { iov_base: std::ptr::NonNull::<u8>::dangling().as_ptr().cast(), iov_len: length };
    // SAFETY: this is a TCP socket (`plan` makes sure of it), so the flag keeps the kernel from writing to the piece.
    let (got, control) = unsafe { take(socket.as_raw_fd(), nowhere, &mut control, libc::MSG_TRUNC)? };
    Ok((got as u64, read(control)))
}

/// Keeps timestamps switched on. The kernel switches them on for the whole machine with the first socket that uses them, and
/// off after the last one, each time by patching its own code. That must not happen during a block.
#[derive(Debug)]
pub struct TimestampSource {
    _asked: Socket,
}

impl TimestampSource {
    /// Switches timestamps on and waits for the first one; None if none comes (a sandbox that ignores the option, another
    /// system).
    pub fn begin() -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let ours = Socket::from(TcpStream::connect(listener.local_addr().ok()?).ok()?);
        let (mut theirs, _) = listener.accept().ok()?;
        ask(&ours).ok()?;
        let (begun, mut byte) = (Instant::now(), [0]);
        // Ends: by its limit.
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
    fn a_timestamp_is_between_sending_and_reading() {
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
    fn a_waiting_read_reports_remaining_bytes_and_the_end_after_them() {
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
    fn control_data_without_a_timestamp_gives_none() {
        assert_eq!(read(&[]), 0);
        assert_eq!(read(&[0; CONTROL_BYTES]), 0);
        assert_eq!(read(&[1; CONTROL_BYTES - 1]), 0);
    }
}
