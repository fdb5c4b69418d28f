"""File habits: nothing half-written, nothing read without a bound."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from pathlib import Path

# From linux/fs.h: FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_TOPDIR_FL; `chattr +T`.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHIES = 0x80086601, 0x40086602, 0x20000


def describe_refusal(error: Exception) -> str:
    """What the system said about a path that the message names already: neither its number nor the path."""
    return getattr(error, "strerror", None) or str(error)


def find_obstacle(directory: Path) -> str:
    """What keeps `directory` from being looked into, in words; empty if nothing does."""
    try:
        is_directory = stat.S_ISDIR(directory.stat().st_mode)
    except FileNotFoundError:
        return "nothing there"
    except (OSError, ValueError) as error:
        return f"that it cannot be reached ({describe_refusal(error)})"
    return "" if is_directory else "something that is not a directory"


def make_apart(path: Path) -> None:
    """Make a directory, and those above it, where there is none: one in which parts will lie apart.

    Raises:
        OSError: it is not there and cannot be made.
    """
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        keep_parts_apart(handle)
    finally:
        os.close(handle)


def keep_parts_apart(directory: int) -> None:
    """Tell the file system that what is in here has nothing to do with each other, if it can be told.

    Where ext4 keeps no journal, it does not use an inode again for minutes after it was freed, and walks over
    all of those whenever something is made in the same group of blocks, whoever it was that freed them: up to
    a sixth of the processor time of short runs. Directories below one with this flag get groups of their own.
    """
    with contextlib.suppress(OSError):
        flags = int.from_bytes(fcntl.ioctl(directory, _GET_FLAGS, bytes(4)), sys.byteorder)
        fcntl.ioctl(directory, _SET_FLAGS, (flags | _TOP_OF_HIERARCHIES).to_bytes(4, sys.byteorder))


def write_atomic(
    path: Path, data: bytes, *, mode: int = 0o644, may_replace: bool = True, is_durable: bool = True
) -> None:
    """Write aside, fsync, rename, fsync the directory: readers see the old bytes or the new ones.

    Args:
        path: Directories on the way are made.
        data: All of it.
        mode: Permissions.
        may_replace: Whether there may be such a file.
        is_durable: Whether it survives a power cut as soon as this returns; the death of the process in any
            case.

    Raises:
        FileExistsError: there is such a file and it may not be replaced; of two writers at once, one gets it.
        OSError: the machine does not let us write.
    """
    handle, name = _open_aside(path)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(data)
            if is_durable:
                stream.flush()
                os.fsync(stream.fileno())
        if may_replace:
            Path(name).replace(path)
        else:
            os.link(name, path)
            Path(name).unlink()
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    if is_durable:
        sync_directory(path.parent)


def _open_aside(path: Path) -> tuple[int, str]:
    """A new file beside `path`, and its name; the directory is nearly always there."""
    name = f"{path.parent}/.{path.name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, 0o600), name
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(name, flags, 0o600), name


def sync_directory(path: Path) -> None:
    """Make a rename in `path` survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_package_data(package: str, name: str) -> bytes:
    """A data file that ships in the folder `_data` of a package."""
    from importlib.resources import files  # loads slowly, and few commands read data

    return files(package).joinpath("_data", name).read_bytes()
