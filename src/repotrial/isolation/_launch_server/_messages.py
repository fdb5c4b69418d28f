"""Messages between the harness and its small processes: one JSON object each, with descriptors beside it.

Orders go from the harness to the launch server and its children, answers come back. The harness bounds what
it reads: answers come from near a sandbox. Needs nothing but the standard library (see `Launcher`).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

from repotrial.isolation._launch_server._descriptors import receive_with_descriptors, send_with_descriptors

_INLINE_BYTES: Final = 48 * 1024
"""What surely fits into one packet; longer orders travel in an anonymous file."""
_IN_FILE: Final = b"+"
"""Stands for an order in a file; no other message looks like it."""
_ORDER_DESCRIPTORS: Final = 250
"""Three fewer than the kernel takes at once."""
_ANSWER_BYTES: Final = 16 * 1024
_ANSWER_DESCRIPTORS: Final = 2


class StagedTree(TypedDict):
    """A directory or file of the host that appears under the staging directory."""

    name: str
    path: str
    is_directory: bool


class StagedOverlay(TypedDict):
    """An overlay between staged trees; `upper` and `work` are directories in one tree.

    Without them, it is read-only: one tree that many are shown, with files that are each viewer's own.
    """

    name: str
    lower: str
    upper: str
    work: str


class ScratchBound(TypedDict):
    """A file system in memory that a sandbox has, and how much it may take."""

    path: str
    """Inside."""
    options: str
    """As mount(2) takes them."""


class StartOrder(TypedDict):
    """A sandbox to be started by bubblewrap; every decision about it was made by the harness."""

    bubblewrap: str
    """The program."""
    label: str
    """Its name in lists of processes."""
    arguments: list[str]
    """Its options."""
    files: list[str]
    """Contents of small files, in the order of their descriptors (`data_slot`)."""
    is_staged: bool
    """Whether it runs in namespaces of our own, where trees can be attached."""
    trees: list[StagedTree]
    """Attached under the staging directory first; none if nothing is staged."""
    opened_trees: int
    """How many of them the harness has opened: all (it is root), or none."""
    overlays: list[StagedOverlay]
    account: list[int]
    """User and group to become; empty where the launch server has become them already."""
    scratch_bounds: list[ScratchBound]
    filter: str
    """The syscall filter of all commands, in hexadecimal; empty for none."""
    with_listener: bool
    """Whether a supervisor answers for the filter."""


class CommandOrder(TypedDict):
    """A program to start inside."""

    argv: list[str]
    cwd: str
    variables: dict[str, str]
    limits: list[list[int]]
    """Pairs of a resource and its ceiling."""


def send_order(
    channel: socket.socket,
    order: StartOrder | CommandOrder | Mapping[str, Any],
    descriptors: Sequence[int] = (),
) -> None:
    """Send an order; the sender keeps its own copies of the descriptors.

    Raises:
        OSError: The other side is gone.
    """
    packet = json.dumps(order).encode("ascii")
    if len(packet) <= _INLINE_BYTES:
        send_with_descriptors(channel, packet, descriptors)
        return
    file = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        with os.fdopen(file, "wb", closefd=False) as stream:
            stream.write(packet)
        send_with_descriptors(channel, _IN_FILE, [file, *descriptors])
    finally:
        os.close(file)


def receive_order(channel: socket.socket) -> tuple[Any, list[int]]:
    """Wait for an order: the order, and the descriptors that now belong to the caller.

    Raises:
        EOFError: The other side is gone.
        OSError: The same.
    """
    packet, descriptors = receive_with_descriptors(
        channel, _INLINE_BYTES, limit_descriptors=_ORDER_DESCRIPTORS
    )
    if not packet:
        raise EOFError("expected an order, found the end of the channel")
    if packet == _IN_FILE:
        with os.fdopen(descriptors.pop(0), "rb") as stream:
            stream.seek(0)
            packet = stream.read()
    return json.loads(packet), descriptors


def send_answer(
    channel: int | socket.socket, body: Mapping[str, int | str], descriptors: Sequence[int] = ()
) -> None:
    """Answer; to a bare descriptor, without any to go along.

    Raises:
        OSError: The other side is gone.
    """
    packet = json.dumps(body).encode("ascii")
    if isinstance(channel, int):
        os.write(channel, packet)
    else:
        send_with_descriptors(channel, packet, descriptors)


def receive_answer(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Wait for an answer: its body, and the descriptors that now belong to the caller.

    Raises:
        EOFError: The other side is gone.
        OSError: The same, or the time set on the channel has passed.
    """
    packet, descriptors = receive_with_descriptors(
        channel, _ANSWER_BYTES, limit_descriptors=_ANSWER_DESCRIPTORS
    )
    if not packet:
        raise EOFError("expected an answer, found the end of the channel")
    return json.loads(packet), descriptors
