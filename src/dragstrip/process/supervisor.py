"""Keeps one contender's processes: starts them, drains their output, ends every one of them.

A stand-alone script that needs only the standard library, run as ``python -I -S supervisor.py SCRATCH_ROOT``. Each
contender has one for the length of a race, and it runs one launch at a time. Its parent sends it orders over stdin, and
it sends reports over stdout, each a line of JSON (``orders.py``).

The supervisor is a child subreaper: each process that a server forks, also one that daemonises, becomes its child in
the end. If its stdin closes, the parent is gone (``kill -9`` included); then it ends the tree and also removes the
scratch directory. The kernel reports that no process of a server is left (wait4 gives ECHILD); no list is trusted.
"""

# pathlib would double the start-up time:
# ruff: noqa: PTH101, PTH104, PTH106, PTH108, PTH110, PTH112, PTH118, PTH119, PTH123, PTH208
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing would add a tenth to the start-up, dataclasses a third
if TYPE_CHECKING:
    from collections.abc import Callable

    from dragstrip.process.orders import Order, StartOrder, SupervisorReport

#: Seconds that a server gets to end by itself once its parent is gone (Ctrl-C must end within 2 s).
ABANDONED_GRACE_S = 1.0
#: Seconds for the rest of the tree after its main process has ended, before and after a signal.
LEFTOVER_WAIT_S, LEFTOVER_GRACE_S = 0.1, 1.0
#: Seconds after which a process that SIGKILL does not end (stuck in the kernel) is reported, not awaited.
UNKILLABLE_S = 10.0
#: Soft limit of descriptors if the hard limit is higher: some servers size arrays by it (uWSGI with Docker's 2^30
#: uses gigabytes).
MAX_DESCRIPTORS = 1 << 20
#: Soft limit of a stack in bytes, also of each thread's: "unlimited" changes the layout of memory.
STACK_BYTES = 8 << 20
#: What a child writes if it could not join its cgroup.
NO_CGROUP = "no cgroup"
#: Lines and bytes of the log that a report of the end carries.
TAIL_LINES, TAIL_BYTES = 20, 4096

#: The words that descriptors of a new user namespace and of bubblewrap's options replace; the namespace's ids.
USER_NAMESPACE, OPTIONS, NAMESPACE_IDS = "{user namespace}", "{options}", 65_536

#: keyctl(2): its number by machine, and the operation that gives a process a new session keyring.
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
KEYCTL_JOIN_SESSION_KEYRING = 1

#: The word for a new network, and what switches its loopback on: netdevice(7)'s request, and up, loopback, running.
OWN_NETWORK, SIOCSIFFLAGS, LOOPBACK_UP = "own", 0x8914, 0x1 | 0x8 | 0x40

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class BoundedLog:
    """A file with the head and the tail of everything written, never above ``limit_bytes``.

    Once it is full, everything between its first half and its last quarter is cut out, and a line says how many bytes
    that was. So each byte is written twice at most, and the file is readable at any moment.
    """

    MARK = "\n[dragstrip: {:>15} bytes left out here]\n"

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        self._limit = max(limit_bytes, 1024)
        self._size = self._left_out = 0
        self._broken = False

    def write(self, data: bytes) -> None:
        """Appends; a full disk ends the logging, not the server."""
        try:
            while data and not self._broken:
                if self._size >= self._limit:
                    self._make_room()
                written = os.write(self._fd, data[: self._limit - self._size])
                self._size += written
                data = data[written:]
        except OSError:
            self._broken = True

    def _make_room(self) -> None:
        head, keep = self._limit // 2, self._limit // 4
        mark_bytes = len(self.MARK.format(0))
        dropped_from = head + (mark_bytes if self._left_out else 0)
        self._left_out += self._size - keep - dropped_from
        tail = os.pread(self._fd, keep, self._size - keep)
        os.ftruncate(self._fd, head)
        os.lseek(self._fd, head, os.SEEK_SET)
        os.write(self._fd, self.MARK.format(self._left_out).encode() + tail)
        self._size = head + mark_bytes + len(tail)

    def tail(self) -> str:
        """The last lines, for a message."""
        text = os.pread(self._fd, TAIL_BYTES, max(self._size - TAIL_BYTES, 0)).decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def close(self) -> None:
        os.close(self._fd)


def children() -> dict[int, list[tuple[int, int, str]]]:
    """The children of every process of the machine: pid, process group and state letter of each, by their parent.

    Read from ``/proc/*/stat`` (proc(5)): ``/proc/PID/task/TID/children`` is not in every kernel.
    """
    below: dict[int, list[tuple[int, int, str]]] = {}
    for word in os.listdir("/proc"):
        if not word.isdigit():
            continue
        try:
            with open(f"/proc/{word}/stat", "rb") as file:
                state, parent, group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # the process ended after it was listed
        below.setdefault(int(parent), []).append((int(word), int(group), state.decode()))
    return below


def descendants(root: int, below: dict[int, list[tuple[int, int, str]]] | None = None) -> dict[int, tuple[int, str]]:
    """Every living descendant of ``root``, as pid to (process group, state letter).

    Args:
        below: the machine's processes (``children``); None: as they are now.
    """
    below = children() if below is None else below
    family: dict[int, tuple[int, str]] = {}
    queue = [root]
    while queue:
        for pid, group_id, letter in below.get(queue.pop(), ()):
            family[pid] = (group_id, letter)
            queue.append(pid)
    return family


def box_processes(monitor: int) -> list[int]:
    """The processes of a box, in the order monitor, process 1, server; fewer while it starts or ends.

    bubblewrap's monitor starts process 1 of the box, whose first child is the server. Later children of process 1 are
    orphans of the server.
    """
    line = [monitor]
    while len(line) < 3:
        children = []
        for word in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                if word.isdigit():
                    with open(f"/proc/{word}/stat", "rb") as file:
                        fields = file.read().rpartition(b")")[2].split()
                    if int(fields[1]) == line[-1]:
                        children.append((int(fields[19]), int(word)))  # when it started, in ticks since boot
        if not children:
            break
        line.append(min(children)[1])
    return line


def _number_in(path: str, pattern: bytes) -> int | None:
    """The number that ``pattern`` captures in a kernel file; None if the file or the number isn't there."""
    try:
        with open(path, "rb") as file:
            match = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "ended"


def peak_memory_bytes(pids: list[int]) -> int | None:
    """Sum of VmHWM over these processes; None if none could be read. A shared page counts in each process."""
    peaks = [_number_in(f"/proc/{pid}/status", rb"^VmHWM:\s+(\d+) kB") for pid in pids]
    read = [kibibytes * 1024 for kibibytes in peaks if kibibytes is not None]
    return sum(read) if read else None


def _in_child(work: Callable[[int], None]) -> tuple[int, str]:
    """Forks and runs ``work(pipe)`` in the child; returns its pid and everything it wrote until exit or exec."""
    reading, writing = os.pipe()  # a successful exec closes it
    pid = os.fork()
    if pid == 0:
        try:
            work(writing)
        except BaseException as error:  # the child must never return into the supervisor's loop
            os.write(writing, f"{type(error).__name__}: {error}\n".encode())
        os._exit(127)
    os.close(writing)
    output = b""
    while piece := os.read(reading, 4096):
        output += piece
    os.close(reading)
    return pid, output.decode("utf-8", "replace").strip()


def _take_user(user: list[int]) -> None:
    os.setgroups([])
    os.setgid(user[1])
    os.setuid(user[0])


def _new_user_namespace(base: int, user: int, group: int) -> int:
    """The descriptor of a user namespace with ids of its own, from ``base`` on; this process becomes its user.

    bubblewrap may enter it only as the user that made it, so a child makes it as that user, and root writes its map.
    """

    def become() -> None:
        os.setgroups([])
        os.setgid(base + group)
        os.setuid(base + user)

    made, ready = os.pipe()
    over, holding = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(holding)
        become()
        why = b"" if _libc.unshare(CLONE_NEWUSER) == 0 else os.strerror(ctypes.get_errno()).encode()
        os.write(ready, why or b"made")
        os.read(over, 1)
        os._exit(0)
    os.close(over)
    try:
        if (why := os.read(made, 100)) != b"made":
            raise OSError(f"a user namespace can't be made: {why.decode()}")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"0 {base} {NAMESPACE_IDS}")
        namespace = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    finally:
        os.close(holding)
        os.waitpid(pid, 0)
        os.close(made)
        os.close(ready)
    become()
    return namespace


def remove_tree(path: str) -> None:
    """Removes a folder that a server may have filled: it may be thousands of folders deep, or locked by its modes.

    Tries again for a second: a process that is being ended may still write there, and another one may remove it, too.
    """
    until = time.monotonic() + 1.0
    while os.path.lexists(path):
        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            if os.path.lexists(path):
                _remove_by_levels(path)
        if time.monotonic() > until:
            return
        if os.path.lexists(path):
            time.sleep(0.02)


def _remove_by_levels(path: str) -> None:
    """Removes a folder without going down into it: what is in a folder's folder moves up."""
    os.chmod(path, 0o700)
    moved = 0
    while upper := list(os.scandir(path)):
        for folder in upper:
            if not folder.is_dir(follow_symlinks=False):
                os.unlink(folder)
                continue
            os.chmod(folder, 0o700)
            for inner in list(os.scandir(folder)):
                if not inner.is_dir(follow_symlinks=False):
                    os.unlink(inner)
                    continue
                os.chmod(inner, 0o700)  # only a folder that may be written can get another parent
                while os.path.lexists(place := f"{path}/{moved}"):
                    moved += 1
                os.rename(inner, place)
            os.rmdir(folder)
    os.rmdir(path)


def find_program(order: StartOrder) -> str:
    """The program's path as the supervisor finds it, so that another user's PATH search can't pick another one."""
    program = order["command"][0]
    if "/" in program:
        return os.path.join(order["cwd"], program)
    return shutil.which(program, path=order["env"].get("PATH", os.defpath)) or program


def why_not_as_user(order: StartOrder, user: list[int]) -> str | None:
    """The reason why a user can't run the command, tried as that user; None if it can.

    Tried are the working directory, the program, and each argument that is a file that the supervisor can see.
    """
    program = find_program(order)
    arguments = [os.path.join(order["cwd"], word) for word in order["command"][1:]]
    needs = [(program, os.X_OK, "execute"), (order["cwd"], os.X_OK, "enter")]
    needs += [
        (path, os.X_OK, "enter") if os.path.isdir(path) else (path, os.R_OK, "read")
        for path in arguments
        if os.path.exists(path)
    ]

    def look(pipe: int) -> None:
        _take_user(user)
        barred = [f"may not {verb} {path}" for path, mode, verb in needs if not os.access(path, mode)]
        os.write(pipe, ", ".join(barred).encode())

    pid, why = _in_child(look)
    os.waitpid(pid, 0)
    return why or None


def default_signals() -> None:
    """Sets every signal to its default and blocks none: a parent's settings survive exec."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def set_limits() -> None:
    """Sets limits that don't depend on the shell; the limits of memory and processes stay as they are."""
    none = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    for limit in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE):
        try:
            resource.setrlimit(limit, none)
        except (ValueError, OSError):  # only root may raise a hard limit
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (hard, hard))
    # A dump of a large dead server would be written in the middle of the others' blocks.
    softs = {
        resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: MAX_DESCRIPTORS, resource.RLIMIT_STACK: STACK_BYTES,
    }  # fmt: skip
    for limit, soft in softs.items():
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _leave_keys() -> None:
    """Gives this process a session keyring of its own, because keys of the user's session are not for servers."""
    if (number := KEYCTL.get(os.uname().machine)) is not None:
        _libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)  # if it fails, the kernel has no keys


def _boxed(command: list[str], options: list[str], ids: list[int] | None) -> list[str]:
    """bubblewrap's command with descriptors for its user namespace and for its options."""
    if ids:
        namespace = _new_user_namespace(*ids)
        os.set_inheritable(namespace, True)
        options = [str(namespace) if word == USER_NAMESPACE else word for word in options]
    file = os.memfd_create("options", 0)
    os.write(file, b"".join(os.fsencode(word) + b"\0" for word in options))
    os.lseek(file, 0, os.SEEK_SET)
    return [str(file) if word == OPTIONS else word for word in command]


def _enter_network(path: str) -> None:
    """Makes this process, and all that it starts, part of a network namespace.

    An ordinary user enters it with the user namespace that owns it.

    Raises:
        OSError: it can't be entered.
    """
    network = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    owner = os.open(f"{path.removesuffix('net')}user", os.O_RDONLY | os.O_CLOEXEC)
    if _libc.setns(network, CLONE_NEWNET) != 0 and (
        _libc.setns(owner, CLONE_NEWUSER) != 0 or _libc.setns(network, CLONE_NEWNET) != 0
    ):
        raise OSError(f"its network can't be entered: {os.strerror(ctypes.get_errno())}")
    os.close(network)
    os.close(owner)


def _make_network(user: int, group: int) -> None:
    """Gives this process a network namespace of its own, with loopback up; an ordinary user needs one for users, too.

    Raises:
        OSError: it can't be made.
    """
    if _libc.unshare(CLONE_NEWNET) != 0:
        if _libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            raise OSError(f"a network can't be made: {os.strerror(ctypes.get_errno())}")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    any_socket = _libc.socket(2, 2, 0)  # AF_INET, SOCK_DGRAM; the module socket would take its time to import
    up = b"lo".ljust(16, b"\0") + LOOPBACK_UP.to_bytes(2, sys.byteorder) + bytes(22)  # a struct ifreq, netdevice(7)
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, up)
    os.close(any_socket)


def _become_server(order: StartOrder, output: int, supervisor: int, pipe: int) -> None:
    """Does everything between fork and exec, in the forked child. Each line on the pipe is a complaint."""
    os.setsid()
    if order["cgroup"]:
        try:
            with open(f"{order['cgroup']}/cgroup.procs", "w") as file:
                file.write("0")
        except OSError:
            os.write(pipe, f"{NO_CGROUP}\n".encode())
    os.sched_setaffinity(0, order["cores"])
    set_limits()
    nothing = os.open(os.devnull, os.O_RDWR)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    default_signals()
    if order["user"]:
        _take_user(order["user"])
    command = order["command"]
    if order["network"] == OWN_NETWORK:
        _make_network(os.geteuid(), os.getegid())
    elif order["network"]:
        _enter_network(order["network"])
    if order["user"] or order["box"]:
        _leave_keys()
    if order["box"]:
        command = _boxed(command, order["box"], order["ids"])
    # If the supervisor itself is killed, at least the main process ends with it (set last: setuid clears it).
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(127)
    program = find_program(order)
    try:
        os.chdir(order["cwd"])
        os.execve(program, command, order["env"])
    except OSError as error:
        os.write(pipe, f"cannot execute {program} in {order['cwd']}: {error.strerror}\n".encode())


class ServerOrder:
    """One start of the server, until its end has been reported."""

    def __init__(self, order: StartOrder) -> None:
        self.number = order["launch"]
        self.scratch = order["scratch"]
        self.log_path = order["log"]
        self.cgroup = order["cgroup"]
        self.stop_signal = order["signal"]
        self.box = order["box"]
        self.stop_all_after_s = order["stop_all_after_s"]
        self.note = self.why = ""
        self.silent = False
        self.exit_status: int | None = None
        self.rusage_ns = 0
        self.left_over: list[str] = []
        self.log = BoundedLog(order["log"], order["log_limit_bytes"])
        self.output, writing = os.pipe()
        os.set_blocking(self.output, False)
        self.pid = self._start(order, writing)
        os.close(writing)

    def _start(self, order: StartOrder, writing: int) -> int:
        supervisor = os.getpid()
        os.sched_setaffinity(0, order["cores"])  # draining a log costs the server that writes it, not the engine
        if order["user"] and (why := why_not_as_user(order, order["user"])):
            self.note = f"runs as uid {os.geteuid()}, for uid {order['user'][0]} {why}"
            order["user"] = None
        pid, output = _in_child(lambda pipe: _become_server(order, writing, supervisor, pipe))
        complaints = output.splitlines()
        if NO_CGROUP in complaints:
            complaints.remove(NO_CGROUP)
            remove_cgroup(self.cgroup)
            self.cgroup = None
        self.why = "; ".join(complaints)
        return pid

    def drain(self, at_most_bytes: int = 1 << 20) -> None:
        """Moves the server's output into the log; bounded, so that a flood of output delays no order."""
        moved = 0
        while moved < at_most_bytes:
            try:
                piece = os.read(self.output, 1 << 16)
            except BlockingIOError:
                return
            if not piece:
                self.silent = True  # the server closed its output: poll() would report this hang-up without end
                return
            self.log.write(piece)
            moved += len(piece)

    def close(self) -> None:
        self.log.close()
        os.close(self.output)


def remove_cgroup(cgroup: str | None) -> bool:
    """True once the cgroup and its children are gone; False while the kernel still holds one."""
    try:
        for folder, _, _ in os.walk(cgroup or "", topdown=False):
            os.rmdir(folder)
    except OSError:
        return False
    return True


class Supervisor:
    """The loop: orders in, output drained, children reaped, reports out."""

    def __init__(self, scratch_root: str) -> None:
        self._root = scratch_root
        self._root_fd = os.open(scratch_root, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._root_fd, fcntl.LOCK_SH)  # "this directory is in use"
        self._launch: ServerOrder | None = None
        self._orders: list[Order] = []
        self._text = b""
        self._abandoned = self._told_to_end = self._childless = False
        os.umask(0o022)  # of the logs and, inherited, of the servers
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # with SIGCHLD blocked no end would be seen
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._wake, waking = os.pipe()
        for fd in (self._wake, waking, 0):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only the byte on the pipe matters
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: setattr(self, "_told_to_end", True))

    def run(self) -> None:
        """Works until ordered to end, or until the parent is gone; no process outlives it."""
        while not (self._abandoned or self._told_to_end):
            self._turn(None)
            while self._orders and not self._told_to_end:
                self._obey(self._orders.pop(0))
            if self._launch and self._launch.exit_status is not None:
                self._finish(self._launch, "TERM", LEFTOVER_GRACE_S)
        if self._launch:
            self._finish(self._launch, self._launch.stop_signal, ABANDONED_GRACE_S)
        if self._abandoned:
            self._remove_root()

    def _obey(self, order: Order) -> None:
        if order["do"] == "start":
            self._start(order)
        elif order["do"] == "end":
            self._told_to_end = True
        elif self._launch and self._launch.exit_status is None:  # otherwise it died just now: that is reported instead
            self._finish(self._launch, order["signal"], order["grace_s"])

    def _start(self, order: StartOrder) -> None:
        if self._launch:
            self._send({"kind": "failed", "launch": order["launch"], "why": "a launch is still running"})
            return
        self._childless = False
        try:
            launch = self._launch = ServerOrder(order)
        except (OSError, ValueError) as error:
            why = f"cannot prepare the launch: {error}"
            self._send({"kind": "failed", "launch": order["launch"], "why": why})
            return
        if launch.why:
            self._finish(launch, "KILL", 0.0)
            return
        self._send({
            "kind": "started", "launch": launch.number, "pid": launch.pid, "cgroup": launch.cgroup, "note": launch.note,
        })  # fmt: skip

    def _turn(self, timeout_s: float | None) -> None:
        """Waits for an event, or for the time given, and handles everything that is ready."""
        poll = select.poll()
        launch = self._launch
        poll.register(self._wake, select.POLLIN)
        if not self._abandoned:
            poll.register(0, select.POLLIN)
        if launch and not launch.silent:
            poll.register(launch.output, select.POLLIN)
        ready = dict(poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000))
        if self._wake in ready:
            os.read(self._wake, 4096)
        if 0 in ready:
            self._read_orders()
        if launch and launch.output in ready:
            launch.drain()
        self._reap()

    def _read_orders(self) -> None:
        try:
            piece = os.read(0, 1 << 16)
        except BlockingIOError:
            return
        if not piece:
            self._abandoned = True
        *lines, self._text = (self._text + piece).split(b"\n")
        self._orders += [json.loads(line) for line in lines if line]

    def _reap(self) -> None:
        """Takes every ended child's status and CPU time, which includes the children that it awaited."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                return
            if self._launch:
                self._launch.rusage_ns += round((used.ru_utime + used.ru_stime) * 1e9)
                if pid == self._launch.pid:
                    self._launch.exit_status = os.waitstatus_to_exitcode(status)

    def _finish(self, launch: ServerOrder, signal_name: str, grace_s: float) -> None:
        """Ends the tree, reports, forgets the launch; removes the files of an abandoned launch."""
        died = launch.exit_status is not None
        around = box_processes(launch.pid)[:2] if launch.box else []
        pids = [pid for pid in descendants(os.getpid()) if pid not in around]
        counts = {"peak_memory_bytes": None if died else peak_memory_bytes(pids)}  # a zombie has no VmHWM
        how = self._end_tree(launch, signal.Signals[f"SIG{signal_name}"], grace_s)
        launch.drain()
        cgroup_us = _number_in(f"{launch.cgroup}/cpu.stat", rb"^usage_usec (\d+)") if launch.cgroup else None
        until = time.monotonic() + 1.0
        while not remove_cgroup(launch.cgroup) and time.monotonic() < until:
            self._turn(0.005)
        counts["cpu_ns"] = cpu_ns = launch.rusage_ns if cgroup_us is None else cgroup_us * 1000
        if launch.why:
            self._send({"kind": "failed", "launch": launch.number, "why": launch.why})
        else:
            self._send({
                "kind": "died" if died else "ended", "launch": launch.number, "exit_status": launch.exit_status,
                "hidden_ns": max(launch.rusage_ns - cpu_ns, 0), "how": how, "left_over": launch.left_over,
                "log_tail": launch.log.tail(), "counts": {k: n for k, n in counts.items() if n is not None},
            })  # fmt: skip
        self._launch = None
        launch.close()
        if self._abandoned:
            remove_tree(launch.scratch)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(launch.log_path)
            for pid in {launch.pid, *pids}:  # a compiler's names of its code, if `dragstrip why` was the parent
                with contextlib.suppress(OSError):
                    os.unlink(f"/tmp/perf-{pid}.map")

    def _end_tree(self, launch: ServerOrder, number: signal.Signals, grace_s: float) -> str:
        """Signals the main process, waits, signals the processes left, waits, kills; returns in words how it went."""
        began = time.monotonic()
        how = "ended by itself"
        if launch.exit_status is None:
            # The pid can't be reused: only this loop reaps it, and in a box bubblewrap, which ends with its server.
            self._signal(box_processes(launch.pid)[-1] if launch.box else launch.pid, number)
            for pid, (_, state) in descendants(os.getpid()).items():
                if state == "T":  # a process that stopped itself gets the signal only once it continues
                    self._signal(pid, signal.SIGCONT)
            self._await_end(launch, number, grace_s)
            took_s = time.monotonic() - began
            if launch.exit_status is None:
                return f"{number.name} did not end it in {took_s:.1f} s; killed" + self._kill_tree(launch)
            how = f"{number.name} ended it in {took_s * 1000:.0f} ms"
        self._wait(lambda: self._childless, LEFTOVER_WAIT_S)
        if left := [] if self._childless else list(descendants(os.getpid())):
            named = {pid: _name(pid) for pid in left}
            # A box's process 1 ends a moment after its monitor.
            launch.left_over = [
                f"{pid} ({name})" for pid, name in named.items() if not (launch.box and name == "bwrap")
            ]
            for pid in left:
                self._signal(pid, signal.SIGTERM)
            self._wait(lambda: self._childless, min(LEFTOVER_GRACE_S, grace_s))
            how += f"; {len(left)} left over, {'ended by SIGTERM' if self._childless else 'killed'}"
        return how + self._kill_tree(launch)

    def _await_end(self, launch: ServerOrder, number: signal.Signals, grace_s: float) -> None:
        """Waits for the main process, or for the whole tree once its other processes had to get the signal, too.

        A terminal's Ctrl-C goes to all of a group, but only the main process was signalled: a shell, or a wrapper like
        npm, may not pass that on.
        """
        first_s = grace_s if launch.stop_all_after_s is None else min(launch.stop_all_after_s, grace_s)
        self._wait(lambda: launch.exit_status is not None, first_s)
        if launch.stop_all_after_s is None or (launch.exit_status is not None and launch.stop_all_after_s > 0):
            return
        for pid in descendants(os.getpid()):
            if pid != launch.pid:
                self._signal(pid, number)
        self._wait(lambda: self._childless, grace_s - first_s)

    def _wait(self, done: Callable[[], bool], at_most_s: float) -> None:
        """Turns the loop until ``done`` or until the time is over; a lost parent shortens that time."""
        began = time.monotonic()
        while not done():
            limit_s = min(at_most_s, ABANDONED_GRACE_S) if self._abandoned or self._told_to_end else at_most_s
            left_s = began + limit_s - time.monotonic()
            if left_s <= 0:
                return
            self._turn(left_s)

    def _kill_tree(self, launch: ServerOrder) -> str:
        """Sends SIGKILL to every descendant until the kernel reports that none is left; returns why not, or ""."""
        until = time.monotonic() + UNKILLABLE_S
        while not self._childless:
            if time.monotonic() > until:
                return f"; could not be killed: {sorted(descendants(os.getpid()))}"
            if launch.cgroup:
                # Kills all processes at once, even of a tree that forks faster than the walk below; since Linux 5.14.
                with contextlib.suppress(OSError), open(f"{launch.cgroup}/cgroup.kill", "w") as file:
                    file.write("1")
            for pid, (group, _) in descendants(os.getpid()).items():
                self._signal(pid, signal.SIGKILL)
                if group not in (os.getpgrp(), pid):
                    self._signal(-group, signal.SIGKILL)
            self._turn(0.005)
        return ""

    @staticmethod
    def _signal(pid: int, number: signal.Signals) -> None:
        # It has already ended; or it is a set-user-id program, which its own parent's end must end.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)

    def _remove_root(self) -> None:
        """Removes an abandoned race's scratch root, if no other supervisor holds a lock on it."""
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._root_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if re.fullmatch(r"dragstrip-\d+-\w+", os.path.basename(self._root)):
                remove_tree(self._root)

    def _send(self, report: SupervisorReport) -> None:
        try:
            os.write(1, json.dumps(report).encode() + b"\n")
        except OSError:
            self._abandoned = True


def main() -> None:
    """Runs a supervisor; also after a fault of its own no process is left (see PR_SET_PDEATHSIG)."""
    supervisor = Supervisor(sys.argv[1])
    try:
        supervisor.run()
    except Exception:
        supervisor._abandoned = True  # obeys no more orders: one of them may have been the fault
        if supervisor._launch:
            supervisor._kill_tree(supervisor._launch)
        raise


if __name__ == "__main__":
    main()
