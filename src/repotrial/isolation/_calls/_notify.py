"""The kernel's side of the supervisor: one notification in, one answer out."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import struct
from typing import Final, NamedTuple

from repotrial.isolation._launch_server._kernel import read_notification_sizes

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
