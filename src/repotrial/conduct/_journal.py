"""The journal of a pilot: what was started, conducted, decided and looked at; chained (P29)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.conduct._chain import ChainedFile, ChainKind
from repotrial.conduct._head import write_head
from repotrial.signing import SigningKey

JOURNAL_FILE: Final = "journal.jsonl"
AGAIN: Final = "again"
"""In the data of a run that judges a change again: the planned run that made the change."""

EntryKind: TypeAlias = Literal[
    "started",
    "conducted",
    "broken",
    "judged-again",
    "adjudicated",
    "criteria",
    "adaptation",
    "look",
    "stop",
    "deviation",
    "people",
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
    """Of a run that has one: digest over its seal."""
    data: dict[str, str] = msgspec.field(default_factory=dict)
    """What else there is to say."""

    @property
    def is_sealed(self) -> bool:
        """Whether it names a run whose record must stay as it was."""
        return self.kind in ("conducted", "judged-again") or (
            self.kind == "broken" and self.seal_digest is not None
        )


_KIND: Final = ChainKind(
    model=JournalEntry, schema="repotrial/journal@1", broken=JOURNAL_BROKEN, busy=PILOT_UNDER_WAY
)


class Journal:
    """The journal, open for appending by one process."""

    def __init__(self, directory: Path, *, registration: int, key: SigningKey | None = None) -> None:
        """Read and verify all of it.

        Args:
            directory: The pilot's.
            registration: The version in force.
            key: Signs the journal's end with every line; without one, nothing can be written.

        Raises:
            JOURNAL_BROKEN: it does not hold.
            PILOT_UNDER_WAY: another process writes it.
        """
        self._registration = registration
        self._directory = directory
        self._key = key
        self._file = ChainedFile(directory / JOURNAL_FILE, _KIND, is_writable=key is not None)

    @property
    def digests(self) -> list[Digest]:
        """Of the lines, in order."""
        return self._file.digests

    @property
    def entries(self) -> list[JournalEntry]:
        """All lines, in order."""
        return self._file.entries

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
        entry = JournalEntry(
            seq=len(self.entries),
            previous=self._file.head,
            at_us=SystemClock().now_us(),
            kind=kind,
            registration=self._registration,
            run_id=run_id,
            directory=directory,
            seal_digest=seal_digest,
            data=dict(data or {}),
        )
        assert self._key is not None
        self._file.append(entry)
        write_head(self._directory, len(self.entries), self._file.head, self._key)
        return entry

    def close(self) -> None:
        """Let others write."""
        self._file.close()

    @property
    def conducted(self) -> dict[str, JournalEntry]:
        """The entry of each planned run that was conducted."""
        return {
            entry.run_id: entry
            for entry in self.entries
            if entry.kind == "conducted" and entry.run_id is not None
        }

    @property
    def ended(self) -> set[str]:
        """Runs that need no other attempt: conducted, or a change judged again."""
        return {
            entry.run_id
            for entry in self.entries
            if entry.kind in ("conducted", "judged-again") and entry.run_id is not None
        }

    @property
    def judged_again(self) -> dict[str, list[JournalEntry]]:
        """Further judgments of a change, by the planned run that made it (B11)."""
        found: dict[str, list[JournalEntry]] = {}
        for entry in self.entries:
            if entry.kind == "judged-again":
                found.setdefault(entry.data[AGAIN], []).append(entry)
        return found

    @property
    def adjudication_ends(self) -> dict[str, str]:
        """Why a change is not judged any more although the rule would have it, by planned run."""
        return {
            entry.run_id: entry.data["reason"]
            for entry in self.entries
            if entry.kind == "adjudicated" and entry.run_id is not None
        }

    def count_attempts(self, run_id: str, *, since: int) -> int:
        """Excused attempts at a planned run, under a registration and later ones."""
        return sum(
            entry.kind == "broken" and entry.run_id == run_id and entry.registration >= since
            for entry in self.entries
        )

    @property
    def open_starts(self) -> dict[str, JournalEntry]:
        """Runs that were started, and of which no end is known: the last start of each."""
        done = self.ended
        return {
            entry.run_id: entry
            for entry in self.entries
            if entry.kind == "started" and entry.run_id is not None and entry.run_id not in done
        }

    @property
    def rule_off(self) -> str:
        """Why the efficacy rule is off since stage 2; empty if it is not (Q16)."""
        entry = self.find_last("adaptation")
        return "" if entry is None else entry.data.get("rule_off", "")

    @property
    def has_ended(self) -> bool:
        """Whether a stop was logged, or stage 3 was refused or is over, under the registration in force."""
        if self.find_last("stop") is not None:
            return True
        entry = self.find_last("criteria")
        if entry is None or entry.data.get("stage") != "3":
            return False
        return entry.data.get("when") == "exit" or "not met" in entry.data.values()

    @property
    def has_last_stage_begun(self) -> bool:
        """Whether stage 3 was entered, with all that it asks for, under the registration in force."""
        entered = [
            entry
            for entry in self.entries
            if entry.kind == "criteria"
            and (entry.data.get("stage"), entry.data.get("when")) == ("3", "entry")
        ]
        return bool(entered) and (
            entered[-1].registration == self._registration and "not met" not in entered[-1].data.values()
        )

    def find_last(self, kind: EntryKind) -> JournalEntry | None:
        """The last entry of a kind under the registration in force."""
        found = [
            entry for entry in self.entries if entry.kind == kind and entry.registration == self._registration
        ]
        return found[-1] if found else None
