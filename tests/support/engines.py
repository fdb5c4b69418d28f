"""A container engine for tests: podman behind a socket of its own, where it is installed and works."""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial._core.remove_tree import remove_tree
from support.images import ImageBuilder, directory, file, symlink
from support.waiting import wait_until

SOCKET_VARIABLE = "REPOTRIAL_TEST_ENGINE"
"""Names the socket of an engine to use instead of podman: Docker's, to try that."""
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


def _require_user_ranges() -> None:
    """Programs in a container are somebody else than its first process: one user is not enough."""
    if shutil.which("newuidmap") is None:
        pytest.skip("no newuidmap: podman without root could give containers one user only")
    names = {str(os.getuid())}
    with contextlib.suppress(KeyError):
        names.add(pwd.getpwuid(os.getuid()).pw_name)
    with contextlib.suppress(OSError):
        if names & {line.partition(":")[0] for line in Path("/etc/subuid").read_text("utf-8").splitlines()}:
            return
    pytest.skip("no range of users for this account in /etc/subuid: podman without root has one user only")


@contextlib.contextmanager
def start_engine() -> Iterator[Path]:
    """The socket of an engine of the test's own, or of a chosen one; skips with a reason without any."""
    if chosen := os.environ.get(SOCKET_VARIABLE):
        yield Path(chosen)
        return
    podman = shutil.which("podman")
    if podman is None:
        pytest.skip("no podman: containers are not tried")
    if os.geteuid() != 0:
        _require_user_ranges()
    # A path of a socket is short.
    place = Path(tempfile.mkdtemp(prefix="rt-"))
    runtime = shutil.which("runc") or shutil.which("crun") or ""
    # Podman's own default is above what a root without CAP_SYS_RESOURCE may give.
    files = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    (place / "containers.conf").write_text(
        f'[engine]\nruntime = "{Path(runtime).name}"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", "nproc=4096:4096"]\n',
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
            "XDG_RUNTIME_DIR": str(place / "run"),
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
