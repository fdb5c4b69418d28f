"""What documents of other harnesses say about single trials."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

_Word = Literal["success", "failure", "error", "invalid"]
_Amount = Annotated[float, msgspec.Meta(ge=0)]
_WHOLE: Final = 1.0
_CORRECT: Final = "C"
_VERIFIER: Final = ("Verifier", "Reward")
"""What the names of Harbor's exceptions begin with where the checks themselves did not complete."""


class ForeignTrial(NamedTuple):
    """A trial as a file of another harness has it."""

    task: str
    arm: str
    outcome: _Word
    cost_usd: float | None = None
    wall_seconds: float | None = None


class _HarborModel(msgspec.Struct, frozen=True):
    name: str


class _HarborAgent(msgspec.Struct, frozen=True):
    name: str
    model_info: _HarborModel | None = None


class _HarborVerdict(msgspec.Struct, frozen=True):
    rewards: dict[str, float] | None = None


class _HarborException(msgspec.Struct, frozen=True):
    exception_type: str


class _HarborUsage(msgspec.Struct, frozen=True):
    cost_usd: _Amount | None = None


class _HarborSpan(msgspec.Struct, frozen=True):
    started_at: datetime | None = None
    finished_at: datetime | None = None


class _HarborTrial(msgspec.Struct, frozen=True):
    task_name: str
    agent_info: _HarborAgent
    verifier_result: _HarborVerdict | None = None
    exception_info: _HarborException | None = None
    agent_result: _HarborUsage | None = None
    agent_execution: _HarborSpan | None = None


def read_harbor(document: object) -> ForeignTrial:
    """One `result.json` of a trial.

    Raises:
        msgspec.ValidationError: it is none; the message names the field.
    """
    trial = msgspec.convert(document, _HarborTrial)
    model, span = trial.agent_info.model_info, trial.agent_execution
    seconds = None
    if span is not None and span.started_at is not None and span.finished_at is not None:
        seconds = max(0.0, (span.finished_at - span.started_at).total_seconds())
    return ForeignTrial(
        task=trial.task_name,
        arm=trial.agent_info.name if model is None else f"{trial.agent_info.name}/{model.name}",
        outcome=_judge_harbor(trial),
        cost_usd=None if trial.agent_result is None else trial.agent_result.cost_usd,
        wall_seconds=seconds,
    )


def _judge_harbor(trial: _HarborTrial) -> _Word:
    """A success is a reward of 1 in everything that was rewarded."""
    rewards = None if trial.verifier_result is None else trial.verifier_result.rewards
    if rewards:
        return "success" if min(rewards.values()) >= _WHOLE else "failure"
    raised = trial.exception_info
    if raised is not None and raised.exception_type.startswith(_VERIFIER):
        return "error"
    return "invalid"


class _InspectScore(msgspec.Struct, frozen=True):
    value: Any = None


class _InspectUsage(msgspec.Struct, frozen=True):
    total_cost: _Amount | None = None


class _InspectSample(msgspec.Struct, frozen=True):
    id: str | int
    epoch: int = 1
    scores: dict[str, _InspectScore] | None = None
    error: Any = None
    invalidation: Any = None
    total_time: _Amount | None = None
    model_usage: dict[str, _InspectUsage] = {}


class _InspectEval(msgspec.Struct, frozen=True):
    model: str
    solver: str | None = None


class _InspectLog(msgspec.Struct, frozen=True):
    eval: _InspectEval
    samples: list[_InspectSample]


def read_inspect(document: object) -> list[ForeignTrial]:
    """A log of Inspect with its samples.

    Raises:
        msgspec.ValidationError: it is none; the message names the field.
    """
    log = msgspec.convert(document, _InspectLog)
    named = [name for name in (log.eval.solver, log.eval.model) if name]
    return [
        ForeignTrial(
            task=str(sample.id),
            arm="/".join(named),
            outcome=_judge_inspect(sample),
            cost_usd=_sum_costs([*sample.model_usage.values()]),
            wall_seconds=sample.total_time,
        )
        for sample in sorted(log.samples, key=lambda one: (str(one.id), one.epoch))
    ]


def _judge_inspect(sample: _InspectSample) -> _Word:
    """A success is correct in every score; a sample that was broken off or taken back says nothing."""
    if sample.error is not None or sample.invalidation is not None or not sample.scores:
        return "invalid"
    return "success" if all(_is_whole(score.value) for score in sample.scores.values()) else "failure"


def _is_whole(value: object) -> bool:
    match value:
        case bool():
            return value
        case int() | float():
            return value >= _WHOLE
        case dict():
            return bool(value) and all(map(_is_whole, value.values()))
        case _:
            return value == _CORRECT


def _sum_costs(used: list[_InspectUsage]) -> float | None:
    """Unknown where one of them is."""
    known = [each.total_cost for each in used if each.total_cost is not None]
    return sum(known) if used and len(known) == len(used) else None


class _SwebenchReport(msgspec.Struct, frozen=True):
    submitted_ids: list[str]
    resolved_ids: list[str]
    unresolved_ids: list[str] = []
    empty_patch_ids: list[str] = []
    error_ids: list[str] = []
    ambiguous_failure_ids: list[str] = []


def read_swebench(document: object, stem: str) -> list[ForeignTrial]:
    """A report of a model's run; its file is called `<model>.<run>.json`.

    Raises:
        msgspec.ValidationError: it is none; the message names the field.
    """
    report = msgspec.convert(document, _SwebenchReport)
    arm = stem.rpartition(".")[0] or stem
    return [ForeignTrial(name, arm, word) for name, word in sorted(_find_verdicts(report).items())]


def _find_verdicts(report: _SwebenchReport) -> dict[str, _Word]:
    """Of what was submitted; what a later list says holds: nothing is resolved that is in another one."""
    found: dict[str, _Word] = dict.fromkeys(report.submitted_ids, "invalid")
    lists: tuple[tuple[list[str], _Word], ...] = (
        (report.resolved_ids, "success"),
        (report.unresolved_ids, "failure"),
        (report.empty_patch_ids, "failure"),
        (report.error_ids, "error"),
        (report.ambiguous_failure_ids, "error"),
    )
    for names, word in lists:
        found |= dict.fromkeys(names, word)
    return found
