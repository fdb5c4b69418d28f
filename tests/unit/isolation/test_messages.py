from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.isolation._launch_server._messages import (
    receive_answer,
    receive_order,
    send_answer,
    send_order,
)

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


class TestOrders:
    def test_one_arrives_with_its_descriptors(self, pair: Pair) -> None:
        reader, writer = os.pipe()
        send_order(pair[0], {"word": "\udcff", "list": [1, None]}, [writer])
        body, (received,) = receive_order(pair[1])
        assert body == {"word": "\udcff", "list": [1, None]}
        os.write(received, b"through")
        assert os.read(reader, 10) == b"through"
        for descriptor in (reader, writer, received):
            os.close(descriptor)

    def test_what_arrives_is_never_inherited_by_programs(self, pair: Pair) -> None:
        """Whoever had the channel of a report could forge an exit status."""
        send_order(pair[0], {}, [0, 1])
        _, descriptors = receive_order(pair[1])
        for descriptor in descriptors:
            assert not os.get_inheritable(descriptor)
            os.close(descriptor)

    @pytest.mark.parametrize("size", [0, 47_000, 49_000, 3_000_000])
    def test_any_length_arrives(self, pair: Pair, size: int) -> None:
        send_order(pair[0], {"text": "x" * size}, [0])
        body, (descriptor,) = receive_order(pair[1])
        assert body == {"text": "x" * size}
        os.close(descriptor)

    def test_each_stays_by_itself(self, pair: Pair) -> None:
        for number in range(3):
            send_order(pair[0], {"number": number})
        assert [receive_order(pair[1])[0]["number"] for _ in range(3)] == [0, 1, 2]

    def test_the_end_of_the_other_side_is_told(self, pair: Pair) -> None:
        pair[0].close()
        with pytest.raises(EOFError):
            receive_order(pair[1])
        with pytest.raises(OSError, match="Broken pipe"):
            send_order(pair[1], {})


class TestAnswers:
    def test_one_arrives_with_its_descriptors(self, pair: Pair) -> None:
        send_answer(pair[0], {"pid": 7}, [0])
        body, (received,) = receive_answer(pair[1])
        assert body == {"pid": 7}
        assert not os.get_inheritable(received)
        os.close(received)

    def test_a_bare_descriptor_does(self, pair: Pair) -> None:
        send_answer(pair[0].fileno(), {"ended": 256, "empty": True})
        assert receive_answer(pair[1]) == ({"ended": 256, "empty": True}, [])

    def test_the_end_of_the_other_side_is_told(self, pair: Pair) -> None:
        pair[0].close()
        with pytest.raises(EOFError):
            receive_answer(pair[1])
        with pytest.raises(OSError, match="Broken pipe"):
            send_answer(pair[1], {})

    @given(st.text())
    def test_text_is_told_as_it_is(self, text: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            send_answer(ours, {"error": text})
            assert receive_answer(theirs) == ({"error": text}, [])

    def test_more_than_an_answer_may_bring_is_not_read(self, pair: Pair) -> None:
        send_order(pair[0], {"text": "x" * 3_000_000}, [0])
        with pytest.raises(ValueError, match="Expecting value"):
            receive_answer(pair[1])
