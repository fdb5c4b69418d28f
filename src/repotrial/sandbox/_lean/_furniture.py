"""What every sandbox has, made ready once: devices, and the few files of `/etc` that programs need.

Bubblewrap could make all of this for each sandbox, one mount at a time, and reads the list of all mounts for
each of them. Here it stands in the launch server's own mounts, out of sight of the host, and bubblewrap shows
two directories of it.

Needs nothing but the standard library (`_boot`).
"""

from __future__ import annotations

import os
import stat

from repotrial.sandbox._lean._confine import make_private_mounts, unshare_mounts
from repotrial.sandbox._lean._kernel import system_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "DEVICES",
    "FURNITURE",
    "INNER_GID",
    "INNER_UID",
    "SETTINGS",
    "SHOWN_SETTINGS",
    "STAGING",
    "WRITTEN_SETTINGS",
    "furnish",
    "make_staging",
    "rehearse_furnishing",
]

FURNITURE: Final = "/sys"
"""This directory exists everywhere, and neither bubblewrap nor a sandbox needs what the host has there."""
STAGING: Final = f"{FURNITURE}/staging"
"""Where each sandbox's own trees are attached."""
DEVICES: Final = f"{FURNITURE}/dev"
SETTINGS: Final = f"{FURNITURE}/etc"
INNER_UID: Final = 1000
INNER_GID: Final = 1000
"""Who programs are inside, whoever they are outside: the same on every machine."""
SHOWN_SETTINGS: Final = (
    *("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"),
    *("/etc/pki", "/etc/ssl"),
)
"""What programs need of the host's; the rest describes the machine and its people."""
WRITTEN_SETTINGS: Final = {
    "/etc/passwd": (
        "root:x:0:0:root:/:/bin/sh\n"
        f"sandbox:x:{INNER_UID}:{INNER_GID}:sandbox:/tmp:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/:/bin/false\n"
    ),
    "/etc/group": f"root:x:0:\nsandbox:x:{INNER_GID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

_NODES: Final = ("full", "null", "random", "tty", "urandom", "zero")
_LINKS: Final = {
    "core": "/proc/kcore",
    "fd": "/proc/self/fd",
    "ptmx": "pts/ptmx",
    "stderr": "/proc/self/fd/2",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
}
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC = 0x20, 0x1000, 0x4000
_REASON_BYTES: Final = 4096


def rehearse_furnishing() -> str:
    """Furnish in a child that ends at once; what stood in its way, empty for nothing.

    A security module may let anybody into a user namespace, and take all power from whoever is there, and
    from what they start. Then it should not be us who went there.
    """
    said, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            furnish()
        except OSError as error:
            os.write(tell, (error.strerror or str(error)).encode()[:_REASON_BYTES])
        else:
            os._exit(0)
        finally:
            os._exit(1)
    os.close(tell)
    reason = os.read(said, _REASON_BYTES).decode(errors="replace")
    os.close(said)
    status = os.waitpid(child, 0)[1]
    return reason or (f"a trial ended with status {status}" if status else "")


def furnish() -> None:
    """Enter mounts of our own, and make everything ready there.

    Raises:
        OSError: It is not possible on this machine.
    """
    make_private_mounts()
    _mount(b"tmpfs", FURNITURE, _MS_NOSUID | _MS_NOEXEC, kind=b"tmpfs", options=b"mode=0755")
    os.mkdir(STAGING, 0o755)  # noqa: PTH102 - without pathlib a fork is smaller
    _make_devices()
    _make_settings()
    _mount(b"none", FURNITURE, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NOEXEC)


def make_staging() -> None:
    """In a fork of whoever has furnished: an empty directory for mounts that nobody else sees, and terminals.

    Raises:
        OSError: It is not possible on this machine.
    """
    unshare_mounts()
    _mount(b"tmpfs", STAGING, _MS_NOSUID | _MS_NODEV, kind=b"tmpfs", options=b"mode=0755")
    options = b"newinstance,ptmxmode=0666,mode=620"
    _mount(b"devpts", f"{DEVICES}/pts", _MS_NOSUID | _MS_NOEXEC, kind=b"devpts", options=options)


def _make_devices() -> None:
    os.mkdir(DEVICES, 0o755)  # noqa: PTH102
    for name in ("pts", "shm"):
        os.mkdir(f"{DEVICES}/{name}", 0o755)  # noqa: PTH102
    for name in _NODES:
        _write(f"{DEVICES}/{name}", "")
        _mount(f"/dev/{name}".encode(), f"{DEVICES}/{name}", _MS_BIND)
        _restrict(f"{DEVICES}/{name}", _MS_NOSUID | _MS_NOEXEC)
    for name, target in _LINKS.items():
        os.symlink(target, f"{DEVICES}/{name}")  # noqa: PTH211


def _make_settings() -> None:
    os.mkdir(SETTINGS, 0o755)  # noqa: PTH102
    for path, text in WRITTEN_SETTINGS.items():
        _write(f"{FURNITURE}{path}", text)
        # Programs inside own it; as long as somebody has it open, none of them gets a lease to stall others.
        os.open(f"{FURNITURE}{path}", os.O_RDONLY | os.O_CLOEXEC)
    for path in SHOWN_SETTINGS:
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        _show(path, mode)


def _show(path: str, mode: int) -> None:
    """As it is in the host: a link as a link, and nothing of what is neither file nor directory."""
    target = f"{FURNITURE}{path}"
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(path), target)  # noqa: PTH115, PTH211
        return
    if stat.S_ISDIR(mode):
        os.mkdir(target, 0o755)  # noqa: PTH102
    elif stat.S_ISREG(mode):
        _write(target, "")
    else:
        return
    _mount(path.encode(), target, _MS_BIND | _MS_REC)
    _restrict(target, _MS_RDONLY | _MS_NOSUID | _MS_NODEV)


def _restrict(target: str, flags: int) -> None:
    """Forbid more there; what the host forbids, the kernel lets nobody in a user namespace allow again."""
    held = os.statvfs(target).f_flag & (_MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount(b"none", target, _MS_REMOUNT | _MS_BIND | held | flags)


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    os.write(file, text.encode())
    os.close(file)


def _mount(
    source: bytes, target: str, flags: int, *, kind: bytes | None = None, options: bytes | None = None
) -> None:
    try:
        system_call("mount", source, target.encode(), kind, flags, options)
    except OSError as error:
        raise OSError(error.errno, f"{target}: {error.strerror}") from error
