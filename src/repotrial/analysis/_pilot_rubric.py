"""The graded rubric of an arm (B14), and how its changes cohere with the repository (Q1, Q17)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from repotrial._core.absence import NotComputable
from repotrial.analysis._figures import Number
from repotrial.analysis._pilot_results import RubricFigures
from repotrial.analysis._pilot_runs import CountedTrial, find_ending
from repotrial.analysis._review_queue import read_view
from repotrial.contract import ContractRecord
from repotrial.retrieval import list_files_read
from repotrial.score import JudgedRun

_GATES: Final = ("patch", "build", "acceptance", "safety")
_STATIC: Final = "static"
_Part = tuple[int, int]
"""So many, and of how many."""


def describe_rubric(trials: Sequence[CountedTrial]) -> RubricFigures | NotComputable:
    judged = [one for one in trials if one.run is not None and one.run.card.gates]
    if not judged:
        return NotComputable(reason="no trial was judged")
    runs = [one.run for one in judged if one.run is not None]
    passed = [[gate.outcome == "passed" for gate in run.card.gates] for run in runs]
    places = [_measure_places(run) for run in runs]
    valid = sum(
        gates[0] and (isinstance(place, NotComputable) or place[0] == place[1])
        for gates, place in zip(passed, places, strict=True)
    )
    shares = [
        sum(gates[_GATES.index("acceptance")] for gates in passed) / len(runs),
        valid / len(runs),
        sum(gates[_GATES.index("safety")] for gates in passed) / len(runs),
        sum(find_ending(one) != "limit" for one in judged) / len(runs),
    ]
    return RubricFigures(
        trials=len(runs),
        correctness=shares[0],
        patch_validity=shares[1],
        safety=shares[2],
        efficiency=shares[3],
        score=sum(shares) / len(shares),
        # Linear in the weights: its extremes lie in the corners.
        score_low=min(shares),
        score_high=max(shares),
        coherence=_share(places, "no contract declares modules, or nothing was changed"),
        read_before=_share(map(_count_read, runs), "no call is on record, or nothing was changed"),
        conventions=_share(map(_count_conventions, runs), "no contract has a static check"),
    )


def _measure_places(run: JudgedRun) -> tuple[int, int] | NotComputable:
    """Changed files inside of the declared modules, and all of them."""
    record, view = run.evidence.record, read_view(run)
    if not isinstance(record, ContractRecord) or not record.contract.clarify.modules:
        return NotComputable(reason="the contract declares no modules")
    receipt = run.evidence.verification.custody.last
    if view is not None:
        paths = [file.path for file in view.files]
    elif receipt is not None and receipt.changed_paths is not None:
        paths = [*receipt.changed_paths]  # P26: the change is gone, its paths are not
    else:
        return NotComputable(reason="there is no change that can be read")
    modules = tuple(record.contract.clarify.modules)
    inside = sum(
        any(path == module or path.startswith(f"{module.rstrip('/')}/") for module in modules)
        for path in paths
    )
    return inside, len(paths)


def _share(parts: Iterable[_Part | NotComputable], otherwise: str) -> Number:
    known = [part for part in parts if not isinstance(part, NotComputable)]
    total = sum(all_of_them for _, all_of_them in known)
    return sum(some for some, _ in known) / total if total else NotComputable(reason=otherwise)


def _count_read(run: JudgedRun) -> _Part | NotComputable:
    """Changed files that were there before and were read, and all that were there before."""
    view = read_view(run)
    read = list_files_read(run.directory)
    if view is None or isinstance(read, NotComputable):
        return NotComputable(reason="there is no change, or no call")
    before = [file.path for file in view.files if file.kind != "added"]
    return sum(path in read for path in before), len(before)


def _count_conventions(run: JudgedRun) -> _Part:
    static = [check.verdict for check in run.card.checks if check.layer == _STATIC]
    return sum(verdict == "passed" for verdict in static), len(static)
