"""A container engine for tests: podman behind a socket of its own, where it is installed and works."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial.sandbox._workspace import remove_tree
from support.images import ImageBuilder, directory, file, symlink
from support.waiting import wait_until

PROGRAMS = ("cat", "echo", "env", "false", "id", "kill", "ls", "mkdir", "sh", "sleep", "true", "wget", "yes")


def find_busybox() -> Path:
    """One program that is many, and needs no libraries; skips where there is none."""
    found = shutil.which("busybox")
    if found is None:
        pytest.skip("no busybox to make an image of")
    if b"/lib/ld" in Path(found).read_bytes()[:4096] or b"/lib64/ld" in Path(found).read_bytes()[:4096]:
        pytest.skip(f"{found} needs libraries: no image can be made of it alone")
    return Path(found)


def build_image() -> ImageBuilder:
    """A small image that has a shell."""
    program = find_busybox().read_bytes()
    links = [symlink(f"bin/{name}", "busybox") for name in PROGRAMS]
    return ImageBuilder().add_layer(directory("bin"), file("bin/busybox", program, mode=0o755), *links)


@contextlib.contextmanager
def start_engine() -> Iterator[Path]:
    """The socket of an engine of the test's own; skips with a reason where none can be had."""
    podman = shutil.which("podman")
    if podman is None:
        pytest.skip("no podman: containers are not tried")
    if os.geteuid() != 0:
        pytest.skip("the tests do not run as root: podman is tried only with root")
    # A path of a socket is short.
    place = Path(tempfile.mkdtemp(prefix="rt-"))
    runtime = shutil.which("runc") or shutil.which("crun") or ""
    (place / "containers.conf").write_text(
        f'[engine]\nruntime = "{Path(runtime).name}"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n',
        encoding="utf-8",
    )
    (place / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{place}/graph"\nrunroot = "{place}/run"\n', encoding="utf-8"
    )
    socket = place / "s"
    service = subprocess.Popen(
        [podman, "system", "service", "--time", "0", f"unix://{socket}"],
        env={
            **os.environ,
            "CONTAINERS_CONF": str(place / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(place / "storage.conf"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        if not wait_until(lambda: socket.is_socket() or service.poll() is not None) or not socket.is_socket():
            pytest.skip("podman offers no socket here")
        yield socket
    finally:
        service.kill()
        service.wait()
        remove_tree(place)
