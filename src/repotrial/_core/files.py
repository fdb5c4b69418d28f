"""File habits: nothing half-written, nothing read without a bound."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from pathlib import Path


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


def sync_file_system(path: Path) -> None:
    """Bring everything written so far to the disk: one call, where a tree has too many files to sync each."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed")
    finally:
        os.close(handle)
