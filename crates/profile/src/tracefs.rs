//! Numbers of the kernel's tracepoints, from tracefs. Where it is not mounted, a copy is opened that no path leads to.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where distributions mount it.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The kernel's constants (linux/mount.h): descriptors that close when another program starts, and the command that
/// makes a configured file system.
const CLOSE_ON_EXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// The events of a tracefs.
#[derive(Debug)]
pub struct Tracefs {
    events: PathBuf,
    /// Keeps a copy without a path open.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Opens the mounted tracefs, or one of its own.
    ///
    /// # Errors
    /// The kernel's: only root may read it.
    pub fn open() -> io::Result<Self> {
        let mut refused = None;
        for path in USUAL {
            let events = Path::new(path).join("events");
            match fs::read_dir(&events) {
                Ok(_) => return Ok(Self { events, _mount: None }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => refused = Some(error),
            }
        }
        let mount = detached().map_err(|error| refused.unwrap_or(error))?;
        let events = PathBuf::from(format!("/proc/self/fd/{}/events", mount.as_raw_fd()));
        Ok(Self { events, _mount: Some(mount) })
    }

    /// The number of an event such as `raw_syscalls/sys_enter`.
    ///
    /// # Errors
    /// The kernel has no such event, or does not let this user read it.
    pub fn number(&self, event: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.events.join(event).join("id"))?;
        text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
    }
}

/// A tracefs that is mounted nowhere, since Linux 5.2.
fn detached() -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), CLOSE_ON_EXEC) })?;
    let create = FSCONFIG_CMD_CREATE;
    let (none, zero) = (std::ptr::null::<libc::c_void>(), 0_i32);
    // SAFETY: this command takes neither key nor value.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), create, none, none, zero) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain numbers.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, 0) })
}

fn owned(number: libc::c_long) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}
