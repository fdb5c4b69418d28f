"""The way back from one state of a workspace to an earlier one: what goes, and what comes again (P19).

It is carried out inside the sandbox, through the mount that programs there see: the kernel does not promise
anything to whoever changes the directories below a mounted overlay.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable

import msgspec

from repotrial._core.escaping import unescape_text
from repotrial.trace import DirectoryEntry, FileEntry, PathEntry, SymlinkEntry
from repotrial.workspace._contents import ContentStore
from repotrial.workspace._mark import BaseView, Mark

_MOST_FILE_BYTES = 64 * 1024**2


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """What leads back to an earlier state."""

    removed: tuple[bytes, ...]
    """Paths that go first, each with all below it; children before parents."""
    archive: bytes
    """A tar archive of what comes again."""
    is_complete: bool
    """Whether every content was at hand."""


def build_restoration(now: Mark, then: Mark, *, view: BaseView, contents: ContentStore) -> Restoration:
    """The way from one mark back to another."""
    removed: list[bytes] = []
    wanted: list[tuple[bytes, PathEntry]] = []
    for path in sorted(now.entries.keys() | then.entries.keys()):
        present = now.entries[path] if path in now.entries else view.find_entry(path)
        former = then.entries[path] if path in then.entries else view.find_entry(path)
        if present == former:
            continue
        if present is not None and not _is_same_directory(present, former):
            removed.append(path)
        if former is not None:
            wanted.append((path, former))
    archive, is_complete = _pack(wanted, view, contents)
    return Restoration(removed=tuple(reversed(removed)), archive=archive, is_complete=is_complete)


def _is_same_directory(present: PathEntry, former: PathEntry | None) -> bool:
    return isinstance(present, DirectoryEntry) and isinstance(former, DirectoryEntry)


def _pack(
    wanted: Iterable[tuple[bytes, PathEntry]], view: BaseView, contents: ContentStore
) -> tuple[bytes, bool]:
    is_complete = True
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, entry in wanted:
            member = tarfile.TarInfo(path.decode("utf-8", "surrogateescape"))
            match entry:
                case DirectoryEntry(mode=mode):
                    member.type, member.mode = tarfile.DIRTYPE, mode
                    archive.addfile(member)
                case SymlinkEntry(target=target):
                    member.type = tarfile.SYMTYPE
                    member.linkname = unescape_text(target).decode("utf-8", "surrogateescape")
                    archive.addfile(member)
                case FileEntry(mode=mode, digest=digest):
                    data = contents.load(digest)
                    if data is None:
                        data = view.read(path, kept_bytes=_MOST_FILE_BYTES)
                    if data is None:
                        is_complete = False
                        continue
                    member.mode, member.size = mode, len(data)
                    archive.addfile(member, io.BytesIO(data))
                case _:
                    is_complete = False
    return stream.getvalue(), is_complete
