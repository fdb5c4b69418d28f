from __future__ import annotations

import os
import socket
from pathlib import Path

from repotrial.isolation._launch_server._descriptors import receive_with_descriptors, send_with_descriptors


def test_a_descriptor_arrives_and_is_not_inherited(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    ours, theirs = socket.socketpair()
    with ours, theirs, file.open() as stream:
        send_with_descriptors(ours, b"x", [stream.fileno()])
        _, (received,) = receive_with_descriptors(theirs, 1)
    assert os.read(received, 64) == b"content"
    assert not os.get_inheritable(received)
    os.close(received)


def test_descriptors_beyond_the_limit_are_not_taken(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with ours, theirs, (tmp_path / "file").open("w") as stream:
        socket.send_fds(ours, [b"x"], [stream.fileno()] * 5)
        message, descriptors = receive_with_descriptors(theirs, 1, limit_descriptors=1)
        assert message == b"x"
        for descriptor in descriptors:
            os.close(descriptor)
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 2


def test_a_channel_that_ends_brings_no_descriptor() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        assert receive_with_descriptors(theirs, 1) == (b"", [])
