"""How often verdicts were wrong, by the labels of people (X1).

The words have a fixed direction: a false positive is a correct change that was rejected, a false negative is
a defect that was accepted. Labels weigh the inverse of the chance with which their run was drawn. Unclear,
missing and disputed labels enter bounds, never a share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.seed import ROOT_SEED
from repotrial.analysis._arms import build_figure
from repotrial.analysis._figures import IntervalFigure, Number
from repotrial.analysis._pilot_results import LabeledShare, ModeErrors, VerdictErrors
from repotrial.analysis._pilot_runs import ConductedPilot, CountedTrial
from repotrial.analysis._review_queue import ReviewedRun

_DEFINITION: Final = (
    "a false positive is a correct change that the checks rejected; a false negative is an incorrect change "
    "that they accepted; correct and incorrect are the words of reviewers"
)
_Truth: TypeAlias = Literal["correct", "incorrect", "unclear", "disputed", "missing"]
_CLEAR: Final = frozenset({"correct", "incorrect"})


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """A run that people were asked about."""

    task: str
    arm: str
    truth: _Truth
    weight: float
    is_accepted: bool
    tags: frozenset[str]
    modes: frozenset[str]
    """What reviewers found wrong with it."""

    @property
    def is_open(self) -> bool:
        return self.truth not in _CLEAR


def find_verdict_errors(
    pilot: ConductedPilot, trials: Sequence[CountedTrial]
) -> VerdictErrors | NotComputable:
    """Shares of wrong verdicts among the runs that people were asked about."""
    if not pilot.reviews:
        return NotComputable(reason="no person was asked about a run")
    verdicts = {(one.planned.task, one.planned.arm, one.planned.repeat): one for one in trials}
    cases = [
        _build_case(review, verdicts[key])
        for review in pilot.reviews
        if (key := (review.task, review.arm, review.repeat)) in verdicts
    ]
    return _describe([one for one in cases if one is not None], pilot)


def _build_case(review: ReviewedRun, trial: CountedTrial) -> _Case | None:
    """None for an error or an invalid run: it has no verdict that could be wrong."""
    if trial.run is None or trial.trial.outcome not in {"success", "failure"}:
        return None
    return _Case(
        task=review.task,
        arm=review.arm,
        truth=_find_truth(review),
        weight=1 / float(review.chance),
        is_accepted=trial.trial.outcome == "success",
        tags=frozenset(trial.run.entry.tags),
        modes=frozenset(label.failure_mode for label in review.counted_labels if label.failure_mode),
    )


def _find_truth(review: ReviewedRun) -> _Truth:
    """What reviewers agree on."""
    said = {label.verdict for label in review.counted_labels}
    if not said:
        return "missing"
    if len(said) > 1:
        return "disputed"
    return said.pop()


def _describe(cases: Sequence[_Case], pilot: ConductedPilot) -> VerdictErrors:
    truths = [one.truth for one in cases]
    labeled = sum(truth in _CLEAR for truth in truths)
    minutes = sum(label.minutes for review in pilot.reviews for label in review.labels)
    wrong = sum(not one.is_open and one.is_accepted == (one.truth == "incorrect") for one in cases)
    shares = _Shares(cases, pilot.level)
    return VerdictErrors(
        definition=_DEFINITION,
        asked=len(cases),
        labeled=labeled,
        unclear=truths.count("unclear"),
        disputed=truths.count("disputed"),
        rejected_correct=shares.given_verdict("correct", lambda one: not one.is_accepted),
        correct_rejected=shares.given_truth("correct", is_accepted=False),
        accepted_incorrect=shares.given_verdict("incorrect", lambda one: one.is_accepted),
        incorrect_accepted=shares.given_truth("incorrect", is_accepted=True),
        modes=tuple(shares.describe_mode(mode) for mode in _list_modes(cases)),
        rates={arm: shares.rate_arm(arm) for arm in sorted({one.arm for one in cases})},
        minutes=minutes,
        minutes_per_finding=minutes / wrong
        if wrong
        else NotComputable(reason=f"no wrong verdict among {labeled} clear labels"),
    )


def _list_modes(cases: Sequence[_Case]) -> list[str]:
    rejected = {tag for one in cases if not one.is_accepted for tag in one.tags}
    return sorted(rejected | {mode for one in cases if one.is_accepted for mode in one.modes})


class _Shares:
    """Weighted shares with intervals and bounds."""

    def __init__(self, cases: Sequence[_Case], level: float) -> None:
        self._cases = cases
        self._level = level

    def given_verdict(
        self, truth: Literal["correct", "incorrect"], is_counted: Callable[[_Case], bool]
    ) -> LabeledShare:
        """Among such runs, the share of which people say this."""
        counted = [one for one in self._cases if is_counted(one)]
        return self._build(counted, [one for one in counted if one.truth == truth])

    def given_truth(self, truth: Literal["correct", "incorrect"], *, is_accepted: bool) -> LabeledShare:
        """Among runs of which people say this, the share with that verdict."""
        said = [one for one in self._cases if one.truth == truth]
        found = [one for one in said if one.is_accepted == is_accepted]
        doubts = [one for one in self._cases if one.is_open]
        for_it = _weigh(one for one in doubts if one.is_accepted == is_accepted)
        against = _weigh(one for one in doubts if one.is_accepted != is_accepted)
        return LabeledShare(
            share=self._estimate(said, found),
            lowest=_divide(_weigh(found), _weigh(said) + against),
            highest=_divide(_weigh(found) + for_it, _weigh(said) + for_it),
            labels=len(said),
        )

    def rate_arm(self, arm: str) -> LabeledShare:
        """The share of an arm's runs that people call correct."""
        return self.given_verdict("correct", lambda one: one.arm == arm)

    def describe_mode(self, mode: str) -> ModeErrors:
        """Wrong verdicts that carry this mode."""
        accepted = [one for one in self._cases if one.is_accepted]
        escaped = [one for one in accepted if one.truth == "incorrect" and mode in one.modes]
        return ModeErrors(
            mode=mode,
            false_positives=self.given_verdict(
                "correct", lambda one: not one.is_accepted and mode in one.tags
            ),
            false_negatives=self._build(accepted, escaped),
        )

    def _build(self, counted: Sequence[_Case], found: Sequence[_Case]) -> LabeledShare:
        clear = [one for one in counted if not one.is_open]
        doubts = _weigh(one for one in counted if one.is_open)
        total = _weigh(clear) + doubts
        return LabeledShare(
            share=self._estimate(clear, found),
            lowest=_divide(_weigh(found), total),
            highest=_divide(_weigh(found) + doubts, total),
            labels=len(clear),
        )

    def _estimate(self, counted: Sequence[_Case], found: Sequence[_Case]) -> IntervalFigure | NotComputable:
        from numpy.random import SeedSequence

        from repotrial.stats import bootstrap_ratio, build_clusters

        if not counted:
            return NotComputable(reason="no run of this kind has a clear label")
        hits = {id(one) for one in found}
        estimate = bootstrap_ratio(
            build_clusters((one.task, one.weight * (id(one) in hits)) for one in counted),
            build_clusters((one.task, one.weight) for one in counted),
            seed_sequence=SeedSequence(ROOT_SEED),
            level=self._level,
        )
        if isinstance(estimate, NotComputable):
            return estimate
        figure = build_figure(estimate)
        if 0 < len(hits) < len(counted):
            return figure
        return self._guard(figure, is_none=not hits)

    def _guard(self, figure: IntervalFigure, *, is_none: bool) -> IntervalFigure:
        """All or none of them: no resample differs, yet so many tasks do not exclude the other outcome."""
        reach: float = 1 - (1 - self._level) ** (1 / figure.n_clusters)
        ends = (0.0, reach) if is_none else (1 - reach, 1.0)
        return msgspec.structs.replace(
            figure, low=ends[0], high=ends[1], method="exact-on-clusters-one-sided"
        )


def _weigh(cases: Iterable[_Case]) -> float:
    return math.fsum(one.weight for one in cases)


def _divide(part: float, whole: float) -> Number:
    return part / whole if whole else NotComputable(reason="there is no run of this kind")
