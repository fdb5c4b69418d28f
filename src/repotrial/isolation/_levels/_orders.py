"""What the harness tells its small processes, and how it hears from them (`_launch_server/_messages`)."""

from __future__ import annotations

import json
import marshal
import os
import socket
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from repotrial.isolation._launch_server._kernel import receive_with_descriptors, send_with_descriptors
from repotrial.isolation._launch_server._messages import IN_FILE, INLINE_BYTES

_ANSWER_BYTES: Final = 16 * 1024
_ATTACHMENTS: Final = 2
"""The most descriptors that an answer brings."""


class Tree(NamedTuple):
    """A directory or file of the host that appears under the staging directory."""

    name: str
    path: str
    is_directory: bool = True


class Overlay(NamedTuple):
    """An overlay between staged trees; `upper` and `work` are directories in one tree."""

    name: str
    lower: str
    upper: str
    work: str


class EnterOrder(NamedTuple):
    """What holds for everything that is started through this entrance."""

    filter: bytes
    """The syscall filter; empty for none."""
    with_listener: bool
    """Whether a supervisor answers for the filter."""


class StartOrder(NamedTuple):
    """What the launch server is to execute. Everything in it was decided by the harness."""

    bubblewrap: str
    label: str
    """What bubblewrap is called in lists of processes."""
    is_staged: bool
    """Whether it runs in namespaces of our own, where trees can be attached."""
    trees: Sequence[Tree]
    overlays: Sequence[Overlay]
    opened_trees: int
    """How many trees the harness has opened: all of them (it is root), or none."""
    data: int
    """How many descriptors with the contents of small files come along."""
    entrance: EnterOrder
    """For what comes after: the way into the sandbox."""

    def render(self) -> dict[str, Any]:
        """As it travels: plain values only."""
        return {
            **self._asdict(),
            "trees": [tuple(tree) for tree in self.trees],
            "overlays": [tuple(overlay) for overlay in self.overlays],
            "entrance": self.entrance._asdict(),
        }


class CommandOrder(NamedTuple):
    """A program to start inside."""

    argv: list[str]
    cwd: str
    variables: dict[str, str]
    limits: list[list[int]]
    """Pairs of a resource and its ceiling."""


class Answer(NamedTuple):
    """What came back, and the descriptors that now belong to us."""

    body: dict[str, Any]
    descriptors: list[int]


def send_order(channel: socket.socket, body: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send an order; we keep our own copies of the descriptors.

    Raises:
        OSError: The other side is gone.
    """
    packet = marshal.dumps(body)
    if len(packet) <= INLINE_BYTES:
        send_with_descriptors(channel, packet, descriptors)
        return
    file = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.write(packet)
        send_with_descriptors(channel, IN_FILE, [file, *descriptors])
    finally:
        os.close(file)


def receive_answer(channel: socket.socket) -> Answer:
    """Wait for an answer.

    Raises:
        EOFError: The other side is gone.
        OSError: The same, or the time set on the channel has passed.
    """
    packet, descriptors = receive_with_descriptors(channel, _ANSWER_BYTES, limit_descriptors=_ATTACHMENTS)
    if not packet:
        raise EOFError("expected an answer, found the end of the channel")
    return Answer(json.loads(packet.decode()), descriptors)
