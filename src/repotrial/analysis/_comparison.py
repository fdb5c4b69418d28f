"""Two runs side by side, if they may be compared (P30)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from repotrial.analysis._summary import describe_root_seeds
from repotrial.score import JudgedRun, RunEntry, ScoreCard, judge_run, verify_record
from repotrial.trace import Manifest, ManifestDifference


class RunSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of two runs."""

    entry: RunEntry
    """In short."""
    comparability_class: str | None
    """What it must share with the other; null if its manifest does not tell."""
    checks: dict[str, str]
    """Verdict of each check."""
    card: ScoreCard
    """All of it."""


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What `run compare` found."""

    is_comparable: bool
    """Whether nothing but the agent, its attempt and the time differs."""
    is_provisional: bool
    """Whether the runs have different root seeds: then it holds until computed again under one (Q13)."""
    label: str
    """What the reader must know."""
    differences: tuple[ManifestDifference, ...]
    """What stands against comparing."""
    one: RunSide
    """The first run."""
    other: RunSide
    """The second run."""


def compare_runs(one: Path, other: Path) -> RunComparison:
    """Judge two runs anew and say whether they may be compared.

    Raises:
        RECORD_BROKEN: one of them has no record that holds, so it is unknown what would be compared.
    """
    left, right = _judge(one), _judge(other)
    differences = tuple(_list_differences(left, right))
    seeds = {seed for run in (left, right) if (seed := run.entry.root_seed) is not None}
    provisional = describe_root_seeds(sorted(seeds))
    return RunComparison(
        is_comparable=not differences,
        is_provisional=provisional is not None,
        label="; ".join(
            filter(
                None,
                (
                    "declared differences" if differences else "same contract, statement and conditions",
                    provisional,
                ),
            )
        ),
        differences=differences,
        one=_build_side(left),
        other=_build_side(right),
    )


def _judge(directory: Path) -> JudgedRun:
    run = judge_run(directory)
    verify_record(run.evidence, directory, action="be compared")
    return run


def _list_differences(one: JudgedRun, other: JudgedRun) -> list[ManifestDifference]:
    left, right = one.evidence.manifest, other.evidence.manifest
    if isinstance(left, Manifest) and isinstance(right, Manifest):
        return left.list_differences(right)
    words = ["known" if isinstance(found, Manifest) else found.reason for found in (left, right)]
    return [ManifestDifference(field="manifest", one=words[0], other=words[1])]


def _build_side(run: JudgedRun) -> RunSide:
    manifest = run.evidence.manifest
    return RunSide(
        entry=run.entry,
        comparability_class=manifest.comparability_class if isinstance(manifest, Manifest) else None,
        checks={result.check: result.verdict for result in run.card.checks},
        card=run.card,
    )
