"""A verdict by another judge: what it derives from the same record, beside the verdict that stands."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from repotrial._core.absence import NotComputable
from repotrial._core.canonical import Count
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.files import write_atomic
from repotrial._core.words import JudgedTree
from repotrial.score._card import ScoreCard
from repotrial.score._evidence import Document, Line, render_document
from repotrial.score._report import SCORE_WRITE
from repotrial.trace import CheckOutcome, RunPaths, describe_outcome

REJUDGED_SCHEMA = "repotrial/rejudged@1"


class RejudgedExecution(Document, frozen=True, kw_only=True):
    """One execution of a check whose outcome is another now, or could not be derived again."""

    seq: Count
    """Its event."""
    check: Line
    """The contract's check."""
    subject: JudgedTree
    """Whose tree was judged."""
    variant: Literal["plain", "twins"]
    """Whether wrong expectations were among its tests."""
    attempt: Count
    """Which repetition."""
    recorded: CheckOutcome
    """The outcome on record."""
    derived: CheckOutcome | NotComputable
    """The outcome now; where the record lacks what that needs, why, and the outcome on record counts."""

    @property
    def is_changed(self) -> bool:
        """Whether it came out otherwise; if not, it could not be derived again."""
        return not isinstance(self.derived, NotComputable)

    def __str__(self) -> str:
        twins = " (with twins)" if self.variant == "twins" else ""
        tree = "" if self.subject == "candidate" else f" on the {self.subject}"
        name = f"{self.check}{twins}, attempt {self.attempt}{tree}"
        if isinstance(self.derived, NotComputable):
            return f"{name}: {self.derived.reason}"
        return f"{name}: {describe_outcome(self.recorded)} -> {describe_outcome(self.derived)}"


class RejudgedVerdict(Document, frozen=True, kw_only=True):
    """A document of `rejudged/`: never the verdict of the run, whose label says by what it was derived."""

    schema: Literal["repotrial/rejudged@1"] = "repotrial/rejudged@1"
    """Which version of this format."""
    label: Literal["rejudged"] = "rejudged"
    """What this is: not the run's own verdict."""
    recorded_version_id: Digest
    """The contract version that the run was conducted and judged under."""
    rejudged_version_id: Digest
    """The contract version whose inventories outcomes were derived from."""
    release: Line
    """The release of RepoTrial whose judge derived them."""
    executions: tuple[RejudgedExecution, ...]
    """Those that came out otherwise or could not be derived again; all others are as recorded."""
    score: ScoreCard
    """The score card with these outcomes; all but outcomes is judged by the contract of the run."""


def write_rejudged(run_directory: Path, verdict: RejudgedVerdict) -> Path:
    """Put a verdict into `rejudged/` under a name of its own; what lies there stays as it is.

    Raises:
        SCORE_WRITE: the machine does not let us write.
    """
    folder = RunPaths(run_directory).rejudged
    data = render_document(verdict)
    version, content = (
        digest.removeprefix("sha256:") for digest in (verdict.rejudged_version_id, digest_bytes(data))
    )
    path = folder / f"{version[:12]}-{content[:12]}.json"
    try:
        if folder.is_symlink():  # a run directory may come from anywhere
            raise SCORE_WRITE.error(f"{folder}: expected a folder, found a link")
        folder.mkdir(exist_ok=True)
        write_atomic(path, data)
    except OSError as error:
        raise SCORE_WRITE.error(f"{folder}: expected to write the verdict, found: {error}") from error
    return path


def list_rejudged(run_directory: Path) -> tuple[str, ...]:
    """Names of the verdicts in `rejudged/`, sorted; nothing of them is read."""
    folder = RunPaths(run_directory).rejudged
    try:
        return tuple(sorted(path.name for path in folder.iterdir() if path.suffix == ".json"))
    except OSError:
        return ()
