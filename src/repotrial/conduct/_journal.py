"""The journal of a pilot: what was started, conducted, decided and looked at; chained (P29)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count, canonical_bytes
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError

JOURNAL_FILE: Final = "journal.jsonl"
_START: Final = digest_bytes(b"repotrial/journal@1")

EntryKind: TypeAlias = Literal[
    "started", "conducted", "broken", "criteria", "adaptation", "look", "stop", "deviation", "registered"
]

JOURNAL_BROKEN = ErrorCode(
    "journal-broken",
    EvidenceError,
    "The journal of a pilot does not hold: a line was edited, removed or added.",
    hint="take the file from a backup; runs themselves are sealed one by one",
)
PILOT_UNDER_WAY = ErrorCode(
    "pilot-under-way",
    UsageError,
    "Another command conducts this pilot at this moment.",
    hint="wait for it; `repotrial pilot status` shows how far it is",
)


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the journal."""

    seq: Count
    """From 0."""
    previous: Digest
    """Digest of the line before."""
    at_us: Count
    """When, in microseconds since 1970."""
    kind: EntryKind
    """What it is about."""
    registration: Count
    """The version of the registration in force."""
    run_id: str | None = None
    """The planned run."""
    directory: str | None = None
    """Of a conducted run: the name of its directory."""
    seal_digest: Digest | None = None
    """Of a conducted run: digest over its seal."""
    data: dict[str, str] = msgspec.field(default_factory=dict)
    """What else there is to say."""


class Journal:
    """The journal, open for appending by one process."""

    def __init__(self, directory: Path, *, registration: int, is_writable: bool = True) -> None:
        """Read and verify all of it.

        Raises:
            JOURNAL_BROKEN: it does not hold.
            PILOT_UNDER_WAY: another process writes it.
        """
        self._path = directory / JOURNAL_FILE
        self._registration = registration
        self._handle: int | None = None
        if is_writable:
            self._handle = _open_locked(self._path)
        self.entries = _read(self._path)
        self._head = _START if not self.entries else digest_bytes(_line(self.entries[-1]))

    def append(
        self,
        kind: EntryKind,
        *,
        run_id: str | None = None,
        directory: str | None = None,
        seal_digest: Digest | None = None,
        data: Mapping[str, str] | None = None,
    ) -> JournalEntry:
        """Write one line, and see that it is on the disk."""
        assert self._handle is not None
        entry = JournalEntry(
            seq=len(self.entries),
            previous=self._head,
            at_us=SystemClock().now_us(),
            kind=kind,
            registration=self._registration,
            run_id=run_id,
            directory=directory,
            seal_digest=seal_digest,
            data=dict(data or {}),
        )
        line = _line(entry)
        os.write(self._handle, line + b"\n")
        os.fsync(self._handle)
        self.entries.append(entry)
        self._head = digest_bytes(line)
        return entry

    def close(self) -> None:
        """Let others write."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @property
    def conducted(self) -> dict[str, JournalEntry]:
        """The entry of each planned run that was conducted."""
        return {
            entry.run_id: entry
            for entry in self.entries
            if entry.kind == "conducted" and entry.run_id is not None
        }

    @property
    def open_starts(self) -> dict[str, JournalEntry]:
        """Runs that were started, and of which no end is known: the last start of each."""
        done = self.conducted
        return {
            entry.run_id: entry
            for entry in self.entries
            if entry.kind == "started" and entry.run_id is not None and entry.run_id not in done
        }

    def find_last(self, kind: EntryKind) -> JournalEntry | None:
        """The last entry of a kind under the registration in force."""
        found = [
            entry for entry in self.entries if entry.kind == kind and entry.registration == self._registration
        ]
        return found[-1] if found else None


def _open_locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise PILOT_UNDER_WAY.error(f"{path}: expected to write it, found another command") from None
    _drop_torn_tail(handle)
    return handle


def _drop_torn_tail(handle: int) -> None:
    """A process that was killed may have left half a line, which says nothing."""
    size = os.fstat(handle).st_size
    data = os.pread(handle, size, 0)
    whole = data.rfind(b"\n") + 1
    if whole != size:
        os.ftruncate(handle, whole)


def _read(path: Path) -> list[JournalEntry]:
    if not path.is_file():
        return []
    entries: list[JournalEntry] = []
    head = _START
    data = path.read_bytes()
    for line in data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]:
        try:
            entry = msgspec.json.decode(line, type=JournalEntry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise JOURNAL_BROKEN.error(f"{path}:{len(entries) + 1}: {error}") from error
        if entry.previous != head or entry.seq != len(entries) or _line(entry) != line:
            raise JOURNAL_BROKEN.error(
                f"{path}:{len(entries) + 1}: expected the line that follows the one before, found another"
            )
        entries.append(entry)
        head = digest_bytes(line)
    return entries


def _line(entry: JournalEntry) -> bytes:
    return canonical_bytes(msgspec.to_builtins(entry))


PEEK_REFUSED = ErrorCode(
    "peek-refused",
    UsageError,
    "Rates by arm of a pilot that is under way were asked for, outside of its registered looks.",
    hint="`repotrial pilot status` shows progress and an always-valid band; single runs stay readable",
)


def verify_no_peek(runs: Path) -> None:
    """Refuse to aggregate the runs of a pilot that is frozen and not at its end.

    Raises:
        PEEK_REFUSED: it is under way.
    """
    for directory in (runs, *runs.absolute().parents[:2]):
        if (directory / "registrations").is_dir() and (directory / "pilot.toml").is_file():
            if not _has_ended(directory):
                raise PEEK_REFUSED.error(f"{directory}: expected a pilot at its end, found one under way")
            return


def _has_ended(directory: Path) -> bool:
    """Whether stage 3 was refused or is over: by what the journal says under the last registration."""
    entries = _read(directory / JOURNAL_FILE)
    last = [entry for entry in entries if entry.kind == "criteria"][-1:]
    for entry in last:
        if entry.data.get("stage") != "3" or entry.registration != entries[-1].registration:
            return False
        return entry.data.get("when") == "exit" or "not met" in entry.data.values()
    return False
