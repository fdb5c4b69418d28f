"""Messages with descriptors in them. Needs nothing but the standard library (see `Launcher`)."""

from __future__ import annotations

import errno
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

_DESCRIPTOR_BYTES: Final = 4
_PAUSES_SECONDS: Final = (0.01, 0.05, 0.2, 0.5, 1.0)


def send_with_descriptors(channel: socket.socket, message: bytes, descriptors: Sequence[int]) -> None:
    """Send a message; the sender keeps its own copies of the descriptors.

    Raises:
        OSError: The other side is gone.
    """
    data = b"".join([each.to_bytes(_DESCRIPTOR_BYTES, sys.byteorder) for each in descriptors])
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, data)] if descriptors else []
    pauses = iter(_PAUSES_SECONDS)
    while True:
        try:
            channel.sendmsg([message], ancillary, socket.MSG_NOSIGNAL)
        except OSError as error:
            # Others of this user have too many on their way: it passes, or is the machine's fault.
            pause = next(pauses, None) if error.errno == errno.ETOOMANYREFS else None
            if pause is None:
                raise
            time.sleep(pause)
        else:
            return


def receive_with_descriptors(
    channel: socket.socket, limit_bytes: int, *, limit_descriptors: int = 1
) -> tuple[bytes, list[int]]:
    """A message, with the descriptors that came along; no program that is started inherits those."""
    room = socket.CMSG_SPACE(limit_descriptors * _DESCRIPTOR_BYTES)
    message, ancillary, _, _ = channel.recvmsg(limit_bytes, room, socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            starts = range(0, len(data) - _DESCRIPTOR_BYTES + 1, _DESCRIPTOR_BYTES)
            descriptors += [
                int.from_bytes(data[start : start + _DESCRIPTOR_BYTES], sys.byteorder) for start in starts
            ]
    return message, descriptors
