"""Which attempts count for retrieval: those that count in a summary of runs, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from repotrial._core.errors import ContractError
from repotrial.contract import parse_run_spec
from repotrial.retrieval import LeftOutAttempt, name_configuration
from repotrial.score import JudgedRun, find_uncounted, judge_run
from repotrial.trace import Manifest, RunPaths

_MOST_BYTES: Final = 16 * 1024**2
_UNKNOWN: Final = "unknown"


def find_left_out(runs: Iterable[Path]) -> dict[Path, LeftOutAttempt]:
    """Attempts that `summarize_runs` would not count, were these all runs; what is no run of ours is none."""
    by_spec: dict[str, list[Path]] = {}
    for run in runs:
        spec_id = _find_spec_id(run)
        if spec_id is not None:
            by_spec.setdefault(spec_id, []).append(run)
    # A run takes long to judge, and an attempt that has no other beside it always counts.
    judged = [judge_run(run) for attempts in by_spec.values() if len(attempts) > 1 for run in attempts]
    repeated = find_uncounted(judged)
    return {
        run.directory: _describe(run, repeated[run.directory]) for run in judged if run.directory in repeated
    }


def _find_spec_id(run: Path) -> str | None:
    path = RunPaths(run).spec
    if not path.is_file():  # never wait on a pipe
        return None
    try:
        with path.open("rb") as stream:
            return parse_run_spec(stream.read(_MOST_BYTES)).run_spec_id
    except (OSError, ContractError, RecursionError):
        return None


def _describe(run: JudgedRun, reason: str) -> LeftOutAttempt:
    entry, manifest = run.entry, run.evidence.manifest
    return LeftOutAttempt(
        run=run.directory.name,
        config_name=name_configuration(manifest) if isinstance(manifest, Manifest) else _UNKNOWN,
        task=entry.contract or _UNKNOWN,
        reason=reason,
    )
