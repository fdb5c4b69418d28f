"""Writing what was computed: whoever does not believe it deletes it and computes it again."""

from __future__ import annotations

from pathlib import Path

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.files import write_atomic
from repotrial.score._card import ScoreCard
from repotrial.score._document import render_document
from repotrial.score._evidence import Evidence
from repotrial.score._report import build_run_report
from repotrial.trace import RunPaths

SCORE_WRITE = ErrorCode(
    "score-write",
    MachineError,
    "The score card or the report cannot be written into the run directory.",
    hint="make room, fix the permissions, or score a copy of the directory",
)


def write_verdict(run_directory: Path, evidence: Evidence, card: ScoreCard) -> None:
    """The same for a run that was read and judged before.

    Raises:
        SCORE_WRITE: the machine does not let us write.
    """
    report = build_run_report(evidence, card)
    paths = RunPaths(run_directory)
    try:
        write_atomic(paths.score, render_document(card))
        write_atomic(paths.report, render_document(report))
    except OSError as error:
        raise SCORE_WRITE.error(f"{run_directory}: expected to write the score, found: {error}") from error
