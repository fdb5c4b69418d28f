"""Processes of a sandbox, as the host sees them: who they are, and what they hold open for writing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

_PROC: Final = Path("/proc")
_DELETED: Final = " (deleted)"


class FileHolder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that keeps a file in use."""

    pid: int
    """As the host counts."""
    path: str
    how: Literal["descriptor", "mapping", "program"]
    descriptor: int | None = None
    """Its number in that process, where it is one."""

    def __str__(self) -> str:
        number = "" if self.descriptor is None else f" {self.descriptor}"
        return f"process {self.pid} holds {self.path} by {self.how}{number}"


def iter_sandbox_pids(pid: int) -> Iterator[int]:
    """Every process in the pid namespace of one of them; that one first."""
    namespace = _read_link(_PROC / str(pid) / "ns" / "pid")
    if namespace is None:
        return
    yield pid
    for entry in _list_directory(_PROC):
        if entry.isdigit() and int(entry) != pid and _read_link(_PROC / entry / "ns" / "pid") == namespace:
            yield int(entry)


def find_writers(pid: int, path: str) -> tuple[FileHolder, ...]:
    """Who holds files below a mount point of the sandbox open for writing.

    A descriptor that is under way from one process to another is held by none and not found. Of a process
    that hides itself, a harness without root finds the descriptor but not its path.

    Args:
        pid: Any process of the sandbox.
        path: The mount point, as seen inside.
    """
    mount_id = _find_mount_id(pid, path)
    return tuple(
        holder
        for member in iter_sandbox_pids(pid)
        for holder in (
            *_iter_write_descriptors(member, mount_id),
            *_iter_write_mappings(member, path),
        )
    )


def find_openers(pid: int, path: str) -> tuple[FileHolder, ...]:
    """Who has the file at a path of the sandbox open, or runs it."""
    try:
        wanted = os.stat(f"/proc/{pid}/root/{path.lstrip('/')}")  # noqa: PTH116 - beside its kin below
    except OSError:
        return ()
    identity = (wanted.st_dev, wanted.st_ino)
    return tuple(holder for member in iter_sandbox_pids(pid) for holder in _iter_openers(member, identity))


def _iter_openers(pid: int, identity: tuple[int, int]) -> Iterator[FileHolder]:
    process = _PROC / str(pid)
    for number in _list_directory(process / "fd"):
        if _identify(process / "fd" / number) == identity:
            target = _read_link(process / "fd" / number) or ""
            yield FileHolder(pid=pid, path=target, how="descriptor", descriptor=int(number))
    if _identify(process / "exe") == identity:
        yield FileHolder(pid=pid, path=_read_link(process / "exe") or "", how="program")


def _iter_write_descriptors(pid: int, mount_id: int) -> Iterator[FileHolder]:
    process = _PROC / str(pid)
    for number in _list_directory(process / "fdinfo"):
        fields = dict(
            line.split(":\t", 1) for line in _read_lines(process / "fdinfo" / number) if ":\t" in line
        )
        flags, mount = int(fields.get("flags", "0"), 8), int(fields.get("mnt_id", "-1"))
        if mount == mount_id and flags & os.O_ACCMODE in {os.O_WRONLY, os.O_RDWR} and not flags & os.O_PATH:
            target = _read_link(process / "fd" / number) or ""
            yield FileHolder(pid=pid, path=target, how="descriptor", descriptor=int(number))


def _iter_write_mappings(pid: int, path: str) -> Iterator[FileHolder]:
    """A shared mapping keeps its file open for writing long after the descriptor is closed."""
    prefix = path.rstrip("/") + "/"
    for line in _read_lines(_PROC / str(pid) / "maps"):
        fields = line.split(None, 5)
        # A mapping that may be made writable again counts as much: the kernel looks at the open file.
        if len(fields) == 6 and fields[1].endswith("s") and fields[5].startswith(prefix):  # noqa: PLR2004 - columns
            yield FileHolder(pid=pid, path=fields[5].removesuffix(_DELETED), how="mapping")


def _find_mount_id(pid: int, path: str) -> int:
    """The topmost mount at a path; -1 where there is none."""
    found = -1
    for line in _read_lines(_PROC / str(pid) / "mountinfo"):
        fields = line.split(" ")
        if fields[4] == path:
            found = int(fields[0])
    return found


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_link(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except OSError:
        return None


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="backslashreplace").splitlines()
    except OSError:
        return []


def _list_directory(path: Path) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - names, not paths
    except OSError:
        return []
