"""Messages between the harness and its small processes: their side. The harness's is `_levels/_orders`.

Orders come as the interpreter itself writes values down (`marshal`): both ends are one interpreter, whoever
gives orders is believed, and reading them loads no module, which every fork would carry with it. Answers are
JSON: the harness does not believe what comes from near a sandbox.

Needs nothing but the standard library (`_boot`).
"""

from __future__ import annotations

import marshal
import os

from repotrial.isolation._launch_server._kernel import receive_with_descriptors, send_with_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    Order = tuple[dict[str, Any], list[int]]
    """What is wanted, and the descriptors that now belong to whoever got it."""

INLINE_BYTES: Final = 48 * 1024
"""What surely fits into one packet; longer orders travel in an anonymous file."""
IN_FILE: Final = b"+"
"""Stands for an order in a file; no other message looks like it."""
_DESCRIPTORS: Final = 250
"""Three fewer than the kernel takes at once."""
_BEYOND_SIXTEEN_BITS: Final = 0x10000
_PLAIN: Final = " '(),-./0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz"


def receive_order(channel: _socket.socket) -> Order:
    """Wait for an order.

    Raises:
        EOFError: The other side is gone.
        OSError: The same.
    """
    packet, descriptors = receive_with_descriptors(channel, INLINE_BYTES, limit_descriptors=_DESCRIPTORS)
    if not packet:
        raise EOFError("expected a message, found the end of the channel")
    if packet == IN_FILE:
        file = descriptors.pop(0)
        with open(file, "rb") as stream:  # noqa: PTH123 (a descriptor has no path)
            stream.seek(0)
            packet = stream.read()
    return marshal.loads(packet), descriptors  # noqa: S302 - from the harness alone


def send_answer(
    channel: int | _socket.socket, body: Mapping[str, int | str], descriptors: Sequence[int] = ()
) -> None:
    """Answer; to a bare descriptor, without any to go along.

    Raises:
        OSError: The other side is gone.
    """
    packet = render_answer(body)
    if isinstance(channel, int):
        os.write(channel, packet)
    else:
        send_with_descriptors(channel, packet, descriptors)


def render_answer(body: Mapping[str, int | str]) -> bytes:
    """A flat object of JSON."""
    members = [f'"{key}": {_render(value)}' for key, value in body.items()]
    return ("{" + ", ".join(members) + "}").encode("ascii")


def _render(value: int | str) -> str:
    if isinstance(value, str):
        return '"' + "".join([_escape(character) for character in value]) + '"'
    return str(value).lower()  # a boolean is a number, too


def _escape(character: str) -> str:
    code = ord(character)
    if code >= _BEYOND_SIXTEEN_BITS:
        return "?"
    return character if character in _PLAIN else f"\\u{code:04x}"
