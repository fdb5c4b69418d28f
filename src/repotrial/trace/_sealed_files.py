"""Which files of a run directory a seal covers: everything except itself and what can be computed again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.escaping import escape_text
from repotrial._core.files import describe_refusal
from repotrial.trace._files import TRACE_UNREADABLE, open_regular
from repotrial.trace._rundir import RunPaths, is_computed

_CHUNK_BYTES = 1024 * 1024


class SealableEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that lies in the run directory."""

    name: str
    """Relative to the run directory, with slashes; bytes that are not UTF-8 are escaped."""
    path: Path
    is_regular: bool
    """False for links, pipes, sockets and devices: no evidence is one of those."""


def iter_sealable_entries(paths: RunPaths) -> Iterator[SealableEntry]:
    """Every entry below the run directory that is not a folder, in a fixed order.

    A folder counts through the files in it. Links and the like are named wherever they lie: no part of a run
    directory is one, computed or not.

    Raises:
        TRACE_UNREADABLE: a folder cannot be listed.
    """
    outside = {paths.seal.name, paths.trace_lock.name}
    for entry in _iter_entries(paths.root):
        if not entry.is_regular or not (entry.name in outside or is_computed(entry.name)):
            yield entry


def _iter_entries(root: Path) -> Iterator[SealableEntry]:
    # Not recursive: folders can be nested deeper than calls can.
    pending = [("", root)]
    while pending:
        prefix, folder = pending.pop()
        for entry in _list_folder(folder):
            name = prefix + escape_text(entry.name)
            if entry.is_dir(follow_symlinks=False):
                pending.append((f"{name}/", Path(entry.path)))
            else:
                is_regular = entry.is_file(follow_symlinks=False)
                yield SealableEntry(name=name, path=Path(entry.path), is_regular=is_regular)


def _list_folder(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        raise TRACE_UNREADABLE.error(
            f"{folder}: expected a folder that can be listed, found: {describe_refusal(error)}"
        ) from error


def digest_regular(path: Path, *, is_durable: bool = False) -> Digest:
    """Digest of a plain file's bytes, streamed; links are not followed.

    Args:
        path: The file.
        is_durable: Whether these bytes are on the disk when this returns.

    Raises:
        TRACE_UNREADABLE: it is missing, not a plain file, or cannot be read.
    """
    try:
        with open_regular(path) as stream:
            state = hashlib.sha256()
            while chunk := stream.read(_CHUNK_BYTES):
                state.update(chunk)
            if is_durable:
                os.fsync(stream.fileno())
    except OSError as error:
        raise TRACE_UNREADABLE.error(
            f"{path}: expected readable bytes, found: {describe_refusal(error)}"
        ) from error
    return "sha256:" + state.hexdigest()
