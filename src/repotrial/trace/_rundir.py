"""The run directory (P25): one object that knows every file name in it, and which files a seal covers.

Its page in the documentation is printed from here.
"""

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

MAX_CHANGE_BYTES = 256 * 1024**2
"""The largest change that a run directory holds: more is neither written nor read."""


class RunPaths(msgspec.Struct, frozen=True):
    """Where everything of one run lies. Asking for a path creates nothing.

    Each property is a file, or a folder where its name has no dot; its docstring stands on the page.
    """

    root: Path
    """The run directory."""

    @property
    def manifest(self) -> Path:
        """Identity, environment, seeds, agent ([fields](manifest.md)); written before the first event."""
        return self.root / "manifest.json"

    @property
    def contract(self) -> Path:
        """The contract as it was bound: what the run is judged by, on other machines too."""
        return self.root / "contract.json"

    @property
    def spec(self) -> Path:
        """What was to be run: contract, agent, configuration, seed, replicate."""
        return self.root / "spec.json"

    @property
    def trace(self) -> Path:
        """The events, one canonical JSON line each ([types](events.md)); appended by one writer."""
        return self.root / "trace.jsonl"

    @property
    def trace_lock(self) -> Path:
        """Held while the writer or the sealer is at work; its content means nothing."""
        return self.root / "trace.lock"

    @property
    def blobs(self) -> Path:
        """Bodies too large for a line, stored once under their sha256: `ab/cdef…`."""
        return self.root / "blobs"

    @property
    def seal(self) -> Path:
        """DSSE envelope with an in-toto statement over the sealed files; written once, at the end."""
        return self.root / "seal.json"

    @property
    def custody(self) -> Path:
        """What was taken out after sealing, by whom and why; signed lines chained to the seal."""
        return self.root / "custody.jsonl"

    @property
    def change(self) -> Path:
        """The change that was judged, as a patch; written after the agent ended."""
        return self.root / "change.patch"

    @property
    def acceptance(self) -> Path:
        """By check and execution: files that it left, bounded output of its commands, recorded answers."""
        return self.root / "acceptance"

    @property
    def report(self) -> Path:
        """The run report (P32)."""
        return self.root / "report.json"

    @property
    def score(self) -> Path:
        """The score card ([fields](score.md))."""
        return self.root / "score.json"

    @property
    def retrieval_events(self) -> Path:
        """Retrieval events and metrics (R14): two documents per configuration and task, and a summary."""
        return self.root / "retrieval_events"

    @property
    def rejudged(self) -> Path:
        """Verdicts derived again by another judge, each labelled; the score card stays as it is."""
        return self.root / "rejudged"


_COMPUTED = frozenset({"report.json", "score.json", "retrieval_events", "rejudged"})


def is_computed(name: str) -> bool:
    """Whether a file is computed from the sealed ones, by its name below the run directory.

    Such files may appear, change and go after sealing: no verdict reads one, and each can be computed again.
    """
    return name.partition("/")[0] in _COMPUTED


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

    A folder counts through the files in it. Links and the like are named wherever they lie, computed or not.

    Raises:
        TRACE_UNREADABLE: a folder cannot be listed.
    """
    outside = {paths.seal.name, paths.trace_lock.name, paths.custody.name}
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
