"""What there is to reach on the host: targets of ours, placed for programs that get out."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

import repotrial
from repotrial._core.remove_tree import remove_tree
from repotrial.isolation import build_label

NEIGHBOR_PORT: Final = 18999
"""Where another sandbox has a service."""
_SLEEP: Final = ("/bin/sleep", "/usr/bin/sleep")


class ProbeScene(msgspec.Struct, frozen=True, kw_only=True):
    """The bait, and the places where a success would arrive."""

    facts: dict[str, str]
    """What programs inside are told about it."""
    place: Path
    listener: socket.socket
    datagrams: socket.socket

    def has_connection(self) -> bool:
        """Whether there was a connection."""
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def has_datagram(self) -> bool:
        try:
            self.datagrams.recv(1)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def open_scene() -> Iterator[ProbeScene]:
    """A file, services on loopback and in the file system, and a process with a secret in its environment."""
    # Labelled, so that the next start can remove it if this one is killed.
    place = Path(tempfile.gettempdir(), build_label()).resolve()
    place.mkdir(0o755)
    token = secrets.token_hex(8)
    with contextlib.ExitStack() as opened:
        opened.callback(remove_tree, place)
        (place / "file").write_text(token, encoding="ascii")
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        datagrams = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        for channel in (listener, datagrams):
            channel.setblocking(False)
        for address in (f"\0repotrial-{token}", str(place / "socket")):
            service = opened.enter_context(socket.socket(socket.AF_UNIX))
            service.bind(address)
            service.listen()
        (place / "socket").chmod(0o777)
        opened.enter_context(_run_decoy(token))
        facts = {
            "file": str(place / "file"),
            "sources": str(Path(repotrial.__file__).parents[1]),
            "port": str(listener.getsockname()[1]),
            "datagram_port": str(datagrams.getsockname()[1]),
            "neighbor_port": str(NEIGHBOR_PORT),
            "abstract": f"repotrial-{token}",
            "socket": str(place / "socket"),
            "secret": f"secret-{token}",
            "process": f"decoy-{token}",
        }
        yield ProbeScene(facts=facts, place=place, listener=listener, datagrams=datagrams)


@contextlib.contextmanager
def _run_decoy(token: str) -> Iterator[None]:
    """A process of the host, with a name and an environment that no program inside may see."""
    sleep = next(path for path in _SLEEP if os.access(path, os.X_OK))
    with subprocess.Popen(
        [f"decoy-{token}", "600"],
        executable=sleep,
        env={"PROBE": f"secret-{token}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
    ) as process:
        try:
            yield
        finally:
            process.kill()
