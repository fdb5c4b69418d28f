"""Arguments of a waiting call, read from the memory of the process that made it.

That memory is hostile: every read is bounded, and what cannot be read is said to be so, never guessed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import ipaddress
import os
import struct
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Final, NamedTuple, Self

from repotrial._core.kernel import build_buffer, read_notification_sizes, system_call

_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_IS_VALID: Final = 0x40082102
_SET_FLAGS: Final = 0x40082104
_SYNC_WAKE_UP: Final = 1
_CONTINUE: Final = 1
_NOTIFICATION: Final = struct.Struct("=QIIiIQ6Q")
_IDENTITY: Final = struct.Struct("=Q")
_RESPONSE: Final = struct.Struct("=QqiI")
_read_sizes: Final = functools.cache(read_notification_sizes)


class Notification(NamedTuple):
    """A call that waits for an answer."""

    id: int
    pid: int
    """The thread, as the supervisor's own pid namespace counts; 0 where it is out of sight."""
    number: int
    arguments: tuple[int, ...]


class Listener:
    """The descriptor that came with the filter; owned from here on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._last_id: int | None = None
        self.withdrawn = 0
        """Calls that waited and whose caller was gone before the answer: killed, or told EINTR."""
        # The caller sleeps while we work: waking us on its own processor saves both a journey. Linux 6.6.
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, _SET_FLAGS, _SYNC_WAKE_UP)
        sizes = _read_sizes()
        # A later kernel may say more than we know; it wants room for all of it.
        self._notification_bytes = max(sizes[0], _NOTIFICATION.size)
        self._response_padding = bytes(max(sizes[1] - _RESPONSE.size, 0))

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)

    def receive(self) -> Notification | None:
        """The next call; None if the caller is gone already."""
        buffer = bytearray(self._notification_bytes)
        try:
            fcntl.ioctl(self._descriptor, _RECEIVE, buffer, True)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.EINTR}:
                return None
            raise
        fields = _NOTIFICATION.unpack_from(buffer)
        # The kernel counts what it holds: a gap is a call that was gone before it could be seen.
        if self._last_id is not None:
            self.withdrawn += max(0, fields[0] - self._last_id - 1)
        self._last_id = fields[0]
        return Notification(fields[0], fields[1], fields[3], fields[6:])

    def is_waiting(self, notification: Notification) -> bool:
        """Whether the caller still waits: only then was what stands under its pid its own."""
        try:
            fcntl.ioctl(self._descriptor, _IS_VALID, _IDENTITY.pack(notification.id))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def refuse(self, notification: Notification, error: int) -> None:
        self._respond(notification, -error, 0)

    def let_through(self, notification: Notification) -> None:
        """The kernel goes on with the call, whose memory may have changed meanwhile: never a permission."""
        self._respond(notification, 0, _CONTINUE)

    def _respond(self, notification: Notification, error: int, flags: int) -> None:
        response = _RESPONSE.pack(notification.id, 0, error, flags) + self._response_padding
        try:
            fcntl.ioctl(self._descriptor, _SEND, response)
        except OSError as problem:
            # Killed, or interrupted by a signal: there is no caller to be answered.
            if problem.errno not in {errno.ENOENT, errno.EINPROGRESS}:
                raise
            self.withdrawn += 1


_STRING_BYTES: Final = 4096
_SHORT_BYTES: Final = 128
_LAST_ADDRESS: Final = 2**63 - _STRING_BYTES
"""No program's memory is above; a larger offset could not even be passed on."""

_AF_INET, _AF_INET6 = 2, 10

_SIGNATURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "acct": "s",
        "add_key": "ssxdd",
        "bpf": "dxd",
        "chroot": "s",
        "clock_settime": "dx",
        "clone": "x",
        "delete_module": "sx",
        "fanotify_init": "xx",
        "fanotify_mark": "dxxds",
        "finit_module": "dsx",
        "fsconfig": "dxs",
        "fsmount": "dxx",
        "fsopen": "sx",
        "fspick": "dsx",
        "init_module": "xds",
        "io_uring_setup": "dx",
        "ioctl": "dx",
        "kcmp": "ddd",
        "keyctl": "dxxxx",
        "mount": "sssx",
        "mount_setattr": "dsx",
        "move_mount": "dsdsx",
        "open_by_handle_at": "dxx",
        "open_tree": "dsx",
        "open_tree_attr": "dsx",
        "perf_event_open": "xdddx",
        "personality": "x",
        "pidfd_getfd": "ddx",
        "pivot_root": "ss",
        "process_vm_readv": "dxxxx",
        "process_vm_writev": "dxxxx",
        "ptrace": "xdx",
        "quotactl": "xsd",
        "reboot": "xxx",
        "request_key": "sssd",
        "setns": "dx",
        "socket": "ddd",
        "socketpair": "ddd",
        "swapoff": "s",
        "swapon": "sx",
        "syslog": "dxd",
        "umount2": "sx",
        "unshare": "x",
        "userfaultfd": "x",
    }
)
"""What the leading arguments are: text, a hexadecimal word, or a number with a sign."""

_UNKNOWN_SIGNATURE: Final = "xxx"
_NO_FILE: Final = -1


class ProcessMemory:
    """The memory of a process.

    What was read is its own only if the process was there all the time: the caller checks that afterwards.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            # A process can give its files in /proc to root; its tracer can still ask the kernel.
            self._descriptor = _NO_FILE

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor != _NO_FILE:
            os.close(self._descriptor)

    def read(self, address: int, length_bytes: int) -> bytes:
        """As much as is mapped, from the address on; nothing where that is not."""
        if not 0 < address <= _LAST_ADDRESS:
            return b""
        try:
            if self._descriptor == _NO_FILE:
                return _read_across(self._pid, address, length_bytes)
            return os.pread(self._descriptor, length_bytes, address)
        except OSError:
            return b""

    def read_text(self, address: int) -> tuple[str, bool]:
        """Text up to its end, and whether that is all of it."""
        # Most are short, and a program waits: reading more costs more than asking again does now and then.
        text, end, _ = self.read(address, _SHORT_BYTES).partition(b"\0")
        if not end:
            text, end, _ = self.read(address, _STRING_BYTES).partition(b"\0")
        return text.decode("utf-8", "backslashreplace"), bool(end)


class SocketAddress(NamedTuple):
    """Where a process wanted to go on the network."""

    host: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int

    @property
    def is_inside(self) -> bool:
        """Whether it cannot leave the machine: loopback, or no address at all, which means loopback."""
        host = self.host
        if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
            host = host.ipv4_mapped
        return host.is_loopback or host.is_unspecified

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.host.version == 6 else f"{self.host}:{self.port}"  # noqa: PLR2004 - IPv6


def parse_address(raw: bytes) -> SocketAddress | None:
    """The address in a socket address of the internet families; None for any other family."""
    family = int.from_bytes(raw[:2], "little")
    if family == _AF_INET and len(raw) >= 8:  # noqa: PLR2004 - family, port, address
        port, packed = struct.unpack_from("!H4s", raw, 2)
        return SocketAddress(ipaddress.IPv4Address(packed), port)
    if family == _AF_INET6 and len(raw) >= 24:  # noqa: PLR2004 - family, port, flow, address
        port, packed = struct.unpack_from("!H4x16s", raw, 2)
        return SocketAddress(ipaddress.IPv6Address(packed), port)
    return None


def decode_arguments(memory: ProcessMemory | None, call: str, arguments: tuple[int, ...]) -> tuple[str, ...]:
    """The leading arguments of a call as people read them.

    Args:
        memory: None where it is no longer, or never was, within reach: then pointers stay numbers.
        call: The call's name.
        arguments: Its registers.
    """
    signature = _SIGNATURES.get(call, _UNKNOWN_SIGNATURE)
    return tuple(_decode(memory, kind, value) for kind, value in zip(signature, arguments, strict=False))


def _decode(memory: ProcessMemory | None, kind: str, value: int) -> str:
    if kind == "d":
        return str((value & 0xFFFFFFFF) - ((value & 0x80000000) << 1))
    if kind == "s" and memory is not None and value:
        text, is_complete = memory.read_text(value)
        if text or is_complete:
            return text
    return hex(value)


def _read_across(pid: int, address: int, length_bytes: int) -> bytes:
    target = ctypes.create_string_buffer(length_bytes)
    ours = build_buffer("=QQ", ctypes.addressof(target), length_bytes)
    theirs = build_buffer("=QQ", address, length_bytes)
    copied = system_call("process_vm_readv", pid, ours, 1, theirs, 1, 0)
    return target.raw[:copied]
