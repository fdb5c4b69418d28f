"""The run directory: one object that knows every file name in it (P25)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from repotrial._core.errors import UsageError

__all__ = ["MAX_CHANGE_BYTES", "RunPaths", "UnsafeCheckIdError", "is_computed"]

MAX_CHANGE_BYTES = 256 * 1024**2
"""The largest change that a run directory holds: more is neither written nor read."""

# The first character keeps `.`, `..` and option-like names out; no separator can follow.
_CHECK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class UnsafeCheckIdError(UsageError):
    """A check id cannot name a folder of the run directory: it is empty, too long, or could leave it."""

    code = "unsafe-check-id"
    default_hint = (
        "use letters, digits, '.', '_' and '-', at most 100 of them, starting with a letter or a digit"
    )


class RunPaths(msgspec.Struct, frozen=True):
    """Where everything of one run lies. Asking for a path creates nothing."""

    root: Path
    """The run directory."""

    @property
    def manifest(self) -> Path:
        """What was bound before the first action (P2)."""
        return self.root / "manifest.json"

    @property
    def contract(self) -> Path:
        """The contract as it was bound: what the run is judged by, elsewhere too."""
        return self.root / "contract.json"

    @property
    def spec(self) -> Path:
        """What was to be run: contract, agent, configuration, seed, replicate."""
        return self.root / "spec.json"

    @property
    def trace(self) -> Path:
        """The event log."""
        return self.root / "trace.jsonl"

    @property
    def trace_lock(self) -> Path:
        """Held by the one writer for as long as it writes."""
        return self.root / "trace.lock"

    @property
    def blobs(self) -> Path:
        """Bodies too large for a line, by content."""
        return self.root / "blobs"

    @property
    def seal(self) -> Path:
        """The signed count and head of the event log."""
        return self.root / "seal.json"

    @property
    def change(self) -> Path:
        """The change that was judged, as a patch."""
        return self.root / "change.patch"

    @property
    def acceptance(self) -> Path:
        """One folder per check."""
        return self.root / "acceptance"

    @property
    def report(self) -> Path:
        """The run report (P32); recomputable from the rest."""
        return self.root / "report.json"

    @property
    def score(self) -> Path:
        """The score card; recomputable from the rest."""
        return self.root / "score.json"

    @property
    def retrieval_events(self) -> Path:
        """Normalized retrieval events and their metrics (R14); recomputable from the rest."""
        return self.root / "retrieval_events"

    @property
    def rejudged(self) -> Path:
        """Verdicts derived again by another judge, each labelled; the score card stays as it is."""
        return self.root / "rejudged"

    def acceptance_of(self, check_id: str) -> Path:
        """The folder of one check's artefacts.

        Raises:
            UnsafeCheckIdError: the id could name a place outside `acceptance/`.
        """
        if not _CHECK_ID.fullmatch(check_id):
            raise UnsafeCheckIdError(f"expected a check id that can name a folder, found {check_id[:120]!r}")
        return self.acceptance / check_id


_COMPUTED = frozenset({"report.json", "score.json", "retrieval_events", "rejudged"})


def is_computed(name: str) -> bool:
    """Whether a file is computed from the sealed ones, by its name below the run directory.

    Such files may appear, change and go after sealing, because nobody believes them: no verdict reads one,
    and whoever wants to rely on one computes it again.
    """
    return name.partition("/")[0] in _COMPUTED
