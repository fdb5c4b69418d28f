from __future__ import annotations

import hashlib
import os

from hypothesis import given
from hypothesis import strategies as st

from repotrial.sandbox._resources._capture import OutputBudget, StreamReader


@given(st.lists(st.binary(max_size=300), max_size=10), st.integers(0, 500), st.integers(1, 1000))
def test_the_beginning_is_kept_and_all_is_digested_up_to_the_budget(
    pieces: list[bytes], prefix_bytes: int, limit_bytes: int
) -> None:
    reader, writer = os.pipe()
    budget = OutputBudget(limit_bytes)
    stream = StreamReader(reader, prefix_bytes=prefix_bytes, budget=budget)
    is_open = True
    for piece in pieces:
        os.write(writer, piece)
        is_open = is_open and (not piece or stream.read())
    os.close(writer)
    if is_open:
        stream.drain()
    whole = b"".join(pieces)
    counted = whole[:limit_bytes]
    capture = stream.close()
    assert capture.prefix == counted[:prefix_bytes]
    assert capture.length_bytes == len(counted)
    assert capture.digest == "sha256:" + hashlib.sha256(counted).hexdigest()
    assert budget.is_exceeded == (len(whole) > limit_bytes)


def test_nobody_is_waited_for() -> None:
    reader, writer = os.pipe()
    stream = StreamReader(reader, prefix_bytes=10, budget=OutputBudget(10))
    assert stream.read()
    assert stream.drain()
    os.close(writer)
    assert not stream.read()
    assert stream.close().length_bytes == 0
