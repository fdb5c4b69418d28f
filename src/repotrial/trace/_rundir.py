"""The run directory: one object that knows every file name in it (P25); its page is printed from here."""

from __future__ import annotations

from pathlib import Path

import msgspec

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
    def change(self) -> Path:
        """The change that was judged, as a patch; written after the agent ended."""
        return self.root / "change.patch"

    @property
    def acceptance(self) -> Path:
        """In no run of today: results and logs are in the trace. A folder here has the name of a check."""
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

    Such files may appear, change and go after sealing, because nobody believes them: no verdict reads one,
    and whoever wants to rely on one computes it again.
    """
    return name.partition("/")[0] in _COMPUTED
