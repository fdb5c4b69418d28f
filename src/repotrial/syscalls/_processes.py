"""What the kernel tells about a process of a sandbox, to a harness that is neither its parent nor its tracer.

Needs no privilege over processes of the same user. Every reader may find the process gone: `OSError`.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import resource
import select
import struct
import time
from typing import Final, NamedTuple

from repotrial._core.kernel import build_buffer, system_call
from repotrial.syscalls._ledger import Image

_LOCKS: Final = 10
"""RLIMIT_LOCKS: without effect since Linux 2.4. Forks inherit it, and the filter refuses changes."""
_TOP: Final = 1 << 62
"""Numbers go down from here: only the mighty may raise a hard limit."""
_MIGHTY: Final = 0
_KEEP: Final = -1

_GET_INFO: Final = 0xC040FF0B
_INFO_BYTES: Final = 64
_INFO_EXIT: Final = 1 << 3
_STATUS_AT: Final = 60

_ARGV_BYTES: Final = 64 * 1024
_ARGV_ITEMS: Final = 512
_STAT_BYTES: Final = 2048
_AUXILIARY_BYTES: Final = 1024
_STATE, _PARENT, _EXIT = 0, 1, 49
"""Fields of /proc/PID/stat, counted from behind the name."""

_ATTRIBUTES: Final = "=IIQQQQQ80x"
_SOFTWARE, _ATTRIBUTE_BYTES, _TASK_CLOCK = 1, 128, 1
_OWN_THREADS: Final = 1 << 1 | 1 << 5 | 1 << 6 | 1 << 35
"""Inherited by threads and not by children; without the right to look at the kernel's own work."""
_COUNTER_FLAGS: Final = 8
"""Close the counter on execution."""


class ProcessLine(NamedTuple):
    """What /proc/PID/stat says."""

    comm: str
    state: str
    parent: int
    status: int
    """As `wait` gives it; of a dead process that was not waited for yet."""


def open_process(tid: int) -> tuple[int, int]:
    """The process that a thread belongs to, and a handle of it."""
    try:
        return tid, os.pidfd_open(tid)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOENT}:
            raise
    tgid = find_process(tid)
    return tgid, os.pidfd_open(tgid)


def find_process(tid: int) -> int:
    """The process that a thread belongs to."""
    return int(_read_status(tid, b"Tgid")[0])


def load_line(pid: int) -> ProcessLine:
    raw = _read_file(b"/proc/%d/stat" % pid, _STAT_BYTES)
    # A program chooses its own name, which may contain anything.
    name, _, rest = raw.partition(b" (")[2].rpartition(b") ")
    fields = rest.split()
    return ProcessLine(
        comm=name.decode("utf-8", "backslashreplace"),
        state=fields[_STATE].decode("ascii"),
        parent=int(fields[_PARENT]),
        status=int(fields[_EXIT]),
    )


def read_stamp(pid: int) -> int:
    """Where the kernel put a program: drawn anew with every start, and changed by nothing else.

    0 where addresses are not drawn, or not shown to this user.
    """
    if not has_random_addresses():
        return 0
    try:
        raw = _read_file(b"/proc/%d/auxv" % pid, _AUXILIARY_BYTES)
    except OSError:
        return 0
    return hash(raw) & (2**64 - 1) if raw else 0


def load_image(pid: int, stamp: int) -> Image:
    """What runs in a process, as the kernel started it."""
    raw = _read_file(b"/proc/%d/cmdline" % pid, _ARGV_BYTES + 1, at_first=_STAT_BYTES)
    items = raw[:_ARGV_BYTES].split(b"\0")
    is_whole = len(raw) <= _ARGV_BYTES and items[-1] == b""
    if is_whole:
        items.pop()
    return Image(
        argv=tuple(item.decode("utf-8", "backslashreplace") for item in items[:_ARGV_ITEMS]),
        is_truncated=not is_whole or len(items) > _ARGV_ITEMS,
        exe=_read_link(b"/proc/%d/exe" % pid),
        cwd=_read_link(b"/proc/%d/cwd" % pid) or "",
        stamp=stamp,
    )


def is_file_missing(root: int, path: str) -> bool:
    """Whether a caller named a file that is not there; a link that leads through the root can deceive."""
    if not path.startswith("/"):
        return False  # from a directory, or a descriptor, that may be another one by now
    try:
        os.lstat(path.lstrip("/") or ".", dir_fd=root)
    except (OSError, ValueError):
        return True
    return False


def has_ended(handle: int) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def read_cpu_ns(pid: int) -> int:
    """Processor time of all threads, also of the dead, until the process is waited for."""
    return time.clock_gettime_ns(((~pid) << 3) | 2)


def read_exit_status(handle: int) -> int | None:
    """How a process ended that its parent waited for; None where the kernel (before 6.15) does not tell."""
    buffer = bytearray(_INFO_BYTES)
    struct.pack_into("=Q", buffer, 0, _INFO_EXIT)
    try:
        fcntl.ioctl(handle, _GET_INFO, buffer, True)
    except OSError:
        return None
    (found,) = struct.unpack_from("=Q", buffer)
    status: int = struct.unpack_from("=i", buffer, _STATUS_AT)[0]
    return status if found & _INFO_EXIT else None


def open_counter(tid: int) -> int:
    """A counter of processor time that outlives the process: exact for what was killed, too."""
    fields = (_SOFTWARE, _ATTRIBUTE_BYTES, _TASK_CLOCK, 0, 0, 0, _OWN_THREADS)
    attributes = build_buffer(_ATTRIBUTES, *fields)
    return system_call("perf_event_open", attributes, tid, -1, -1, _COUNTER_FLAGS)


def read_counter(counter: int) -> int:
    value: int = struct.unpack("=Q", os.read(counter, 8))[0]
    return value


class Numbers:
    """Numbers that processes carry and their forks inherit."""

    def __init__(self) -> None:
        self._account: int | None = None

    def exchange(self, pid: int, number: int) -> int:
        """Give a process a number; the one that it had, 0 if it had none.

        Raises:
            PermissionError: This harness has no power over the limits of that process.
        """
        limit = (_TOP - number, _TOP - number)
        if self._account is None:
            try:
                return _decode_number(resource.prlimit(pid, _LOCKS, limit)[1])
            except PermissionError:
                if os.geteuid() != _MIGHTY:
                    raise
                self._account = int(_read_status(pid, b"Uid")[0])
                # A group gives no power over this thread: it can have the account's for good.
                system_call("setresgid", int(_read_status(pid, b"Gid")[0]), _KEEP, _KEEP)
        # The kernel compares the real ids, and a root without CAP_SYS_RESOURCE is refused: for one call this
        # thread has the account's. What it may do, and what the other threads are, stays as it is.
        system_call("setresuid", self._account, _KEEP, _KEEP)
        try:
            return _decode_number(resource.prlimit(pid, _LOCKS, limit)[1])
        finally:
            system_call("setresuid", _MIGHTY, _KEEP, _KEEP)


def read_number(pid: int) -> int:
    """The number that a process carries, 0 if it has none."""
    for line in _read_file(b"/proc/%d/limits" % pid, 4 * _STAT_BYTES).splitlines():
        if line.startswith(b"Max file locks"):
            value = line.split()[4]
            return 0 if value == b"unlimited" else _decode_number(int(value))
    return 0


@functools.cache
def has_random_addresses() -> bool:
    """Whether each start is drawn new addresses; only then does a stamp say anything."""
    try:
        return _read_file(b"/proc/sys/kernel/randomize_va_space", 8).strip() != b"0"
    except OSError:
        return False


@functools.cache
def can_read_exits() -> bool:
    """Whether this kernel tells how a process ended that was waited for by another: tried on a child."""
    child = os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {})
    handle = os.pidfd_open(child)
    try:
        os.waitpid(child, 0)
        return read_exit_status(handle) is not None
    finally:
        os.close(handle)


@functools.cache
def can_count_cpu() -> bool:
    """Whether this harness may open counters of processor time: tried on itself."""
    try:
        os.close(open_counter(0))
    except OSError:
        return False
    return True


def _decode_number(limit: int) -> int:
    return _TOP - limit if 0 < limit <= _TOP else 0


def _read_status(pid: int, field: bytes) -> list[bytes]:
    for line in _read_file(b"/proc/%d/status" % pid, _STAT_BYTES).splitlines():
        name, _, value = line.partition(b":")
        if name == field:
            return value.split()
    raise ProcessLookupError(errno.ESRCH, f"process {pid} has no {field.decode()}")


def _read_file(path: bytes, limit_bytes: int, *, at_first: int | None = None) -> bytes:
    # A program waits for this: a file object costs more than the reading, and most are short.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        raw = os.read(descriptor, at_first or limit_bytes)
        if len(raw) == at_first:
            raw += os.read(descriptor, limit_bytes - at_first)
        return raw
    finally:
        os.close(descriptor)


def _read_link(path: bytes) -> str | None:
    try:
        return os.readlink(path).decode("utf-8", "backslashreplace")  # noqa: PTH115 - a path object costs more
    except OSError:
        return None
