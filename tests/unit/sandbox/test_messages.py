from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from repotrial.sandbox._lean._messages import receive_message, send_message

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_a_message_arrives_with_its_descriptors(pair: Pair) -> None:
    reader, writer = os.pipe()
    send_message(pair[0], {"word": "\udcff", "list": [1, None]}, [writer])
    body, (received,) = receive_message(pair[1])
    assert body == {"word": "\udcff", "list": [1, None]}
    os.write(received, b"through")
    assert os.read(reader, 10) == b"through"
    for descriptor in (reader, writer, received):
        os.close(descriptor)


def test_what_arrives_is_never_inherited_by_programs(pair: Pair) -> None:
    """Whoever had the channel of a report could forge an exit status."""
    send_message(pair[0], {}, [0, 1])
    for descriptor in receive_message(pair[1]).descriptors:
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)


@pytest.mark.parametrize("size", [0, 47_000, 49_000, 3_000_000])
def test_messages_of_any_length_arrive(pair: Pair, size: int) -> None:
    send_message(pair[0], {"text": "x" * size}, [0])
    body, (descriptor,) = receive_message(pair[1])
    assert body == {"text": "x" * size}
    os.close(descriptor)


def test_messages_keep_their_limits(pair: Pair) -> None:
    for number in range(3):
        send_message(pair[0], {"number": number})
    assert [receive_message(pair[1]).body["number"] for _ in range(3)] == [0, 1, 2]


def test_the_end_of_the_other_side_is_told(pair: Pair) -> None:
    pair[0].close()
    with pytest.raises(EOFError):
        receive_message(pair[1])
    with pytest.raises(OSError, match="Broken pipe"):
        send_message(pair[1], {})
