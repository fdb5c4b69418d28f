"""What changed between two marks, as the trace records it (P14)."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from repotrial._core.escaping import escape_bytes, unescape_text
from repotrial.change import Blob, BlobMode, build_file_patch, is_text
from repotrial.trace import (
    BinaryContent,
    BlobRef,
    Body,
    DirectoryEntry,
    FileAdded,
    FileChange,
    FileContent,
    FileDeleted,
    FileEntry,
    FileModified,
    ModeChanged,
    PatchContent,
    PathEntry,
    SpecialEntry,
    SymlinkEntry,
    UnrecordedContent,
)
from repotrial.workspace._mark import BaseView, ContentStore, Mark
from repotrial.workspace._node import ReadLimits

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


class ContentSink(Protocol):
    """Where contents go that the trace refers to."""

    def body(self, data: bytes) -> Body:
        """Keep text."""
        ...

    def blob(self, data: bytes) -> BlobRef | None:
        """Keep bytes; None where there is no room for them."""
        ...


class _Comparison:
    def __init__(self, view: BaseView, contents: ContentStore, sink: ContentSink, limits: ReadLimits) -> None:
        self._view = view
        self._contents = contents
        self._sink = sink
        self._limits = limits

    def iter_changes(self, before: Mark, after: Mark) -> Iterator[FileChange]:
        for path in sorted(before.entries.keys() | after.entries.keys()):
            old, new = self._find(before, path), self._find(after, path)
            if old != new or _is_rewritten(path, old, before, after):
                change = self._build_change(path, old, new)
                if change is not None:
                    yield change

    def _find(self, mark: Mark, path: bytes) -> PathEntry | None:
        return mark.entries[path] if path in mark.entries else self._view.find_entry(path)

    def _build_change(self, path: bytes, old: PathEntry | None, new: PathEntry | None) -> FileChange | None:
        name = escape_bytes(path)
        match old, new:
            case None, None:
                return None
            case None, _ if new is not None:
                return FileAdded(path=name, after=new, content=self._build_content(path, old, new))
            case _, None if old is not None:
                return FileDeleted(path=name, before=old, content=self._build_content(path, old, new))
            case FileEntry(digest=one), FileEntry(digest=other) if one == other:
                return ModeChanged(path=name, before_mode=old.mode, after_mode=new.mode)
            case DirectoryEntry(), DirectoryEntry():
                return ModeChanged(path=name, before_mode=old.mode, after_mode=new.mode)
            case _:
                assert old is not None
                assert new is not None
                content = self._build_content(path, old, new)
                return FileModified(path=name, before=old, after=new, content=content)

    def _build_content(self, path: bytes, old: PathEntry | None, new: PathEntry | None) -> FileContent:
        for entry in (old, new):
            if isinstance(entry, SpecialEntry | DirectoryEntry) and not isinstance(
                new, FileEntry | SymlinkEntry
            ):
                return UnrecordedContent(reason=_explain(entry))
        after = self._build_blob(path, new)
        before = self._build_blob(path, old)
        if new is not None and after is None:
            return UnrecordedContent(reason="a content that was too large to be kept")
        if (before is None and isinstance(old, FileEntry | SymlinkEntry)) or not _are_text(before, after):
            return self._keep_binary(after)
        return PatchContent(patch=self._sink.body(build_file_patch(path, before, after).patch))

    def _keep_binary(self, after: Blob | None) -> FileContent:
        if after is None:
            return UnrecordedContent(reason="a deletion")
        blob = self._sink.blob(after.data)
        return UnrecordedContent(reason="the trace's budget") if blob is None else BinaryContent(blob=blob)

    def _build_blob(self, path: bytes, entry: PathEntry | None) -> Blob | None:
        if isinstance(entry, SymlinkEntry):
            return Blob(mode=BlobMode.SYMLINK, data=unescape_text(entry.target))
        if not isinstance(entry, FileEntry):
            return None
        data = self._contents.load(entry.digest)
        if data is None and self._view.find_entry(path) == entry:
            data = self._view.read(path, kept_bytes=self._limits.kept_bytes)
        mode = BlobMode.EXECUTABLE if entry.mode & 0o100 else BlobMode.REGULAR
        return None if data is None else Blob(mode=mode, data=data)


def build_delta(
    before: Mark,
    after: Mark,
    *,
    view: BaseView,
    contents: ContentStore,
    sink: ContentSink,
    limits: ReadLimits,
) -> tuple[FileChange, ...]:
    """Every path that is not what it was, in byte order of the paths."""
    return tuple(_Comparison(view, contents, sink, limits).iter_changes(before, after))


def _is_rewritten(path: bytes, entry: PathEntry | None, before: Mark, after: Mark) -> bool:
    """Files too large to be digested look alike; their change times do not."""
    if not isinstance(entry, SpecialEntry) or entry.nature != "other":
        return False
    old, new = before.seen.get(path), after.seen.get(path)
    return old is not None and new is not None and old.node != new.node


def _are_text(*blobs: Blob | None) -> bool:
    return all(blob is None or is_text(blob.data) for blob in blobs)


def _explain(entry: PathEntry) -> str:
    match entry:
        case DirectoryEntry():
            return "a directory"
        case SpecialEntry(nature="other"):
            return "a file that was too large to be read"
        case _:
            return "not a regular file"
