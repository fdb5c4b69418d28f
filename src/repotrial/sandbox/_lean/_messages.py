"""Messages between the harness and its helper processes: a JSON object, and descriptors that go with it.

Needs nothing but the standard library (`_boot`). Both ends are ours: a message is believed.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from repotrial.sandbox._lean._kernel import receive_with_descriptors

__all__ = ["Message", "decode_body", "receive_message", "receive_packet", "send_message"]

_INLINE_BYTES: Final = 48 * 1024
"""What surely fits into one packet; longer bodies travel in an anonymous file."""
_IN_FILE: Final = b"+"
"""Stands for a body in a file; no JSON object looks like it."""
_DESCRIPTORS: Final = 250
"""Three fewer than the kernel takes at once."""


class Message(NamedTuple):
    """What came, and the descriptors that now belong to the receiver."""

    body: dict[str, Any]
    descriptors: list[int]


def send_message(channel: socket.socket, body: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message; the sender keeps its own copies of the descriptors.

    Raises:
        OSError: The other side is gone.
    """
    # Escapes keep surrogates, which stand for bytes that are no text in names of files.
    packet = json.dumps(body).encode("ascii")
    if len(packet) <= _INLINE_BYTES and not descriptors:
        channel.send(packet, socket.MSG_NOSIGNAL)
        return
    if len(packet) <= _INLINE_BYTES:
        socket.send_fds(channel, [packet], descriptors, socket.MSG_NOSIGNAL)
        return
    file = os.memfd_create("message", os.MFD_CLOEXEC)
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(packet)
        socket.send_fds(channel, [_IN_FILE], [file, *descriptors], socket.MSG_NOSIGNAL)
    finally:
        os.close(file)


def receive_message(channel: socket.socket) -> Message:
    """Wait for one message.

    Raises:
        EOFError: The other side is gone.
        OSError: The same, or the time set on the channel has passed.
    """
    packet, descriptors = receive_packet(channel)
    return Message(decode_body(packet), descriptors)


def decode_body(packet: bytes) -> dict[str, Any]:
    """What a packet says."""
    body: dict[str, Any] = json.loads(packet.decode("ascii"))
    return body


def receive_packet(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Wait for one message, which somebody else will read.

    Raises:
        EOFError: The other side is gone.
        OSError: The same, or the time set on the channel has passed.
    """
    packet, descriptors = receive_with_descriptors(channel, _INLINE_BYTES, limit_descriptors=_DESCRIPTORS)
    if not packet:
        raise EOFError("expected a message, found the end of the channel")
    if packet == _IN_FILE:
        file = descriptors.pop(0)
        with open(file, "rb") as stream:  # noqa: PTH123 (a descriptor has no path)
            stream.seek(0)
            packet = stream.read()
    return packet, descriptors
