"""Changes of flaky contracts judged several times: what the judgments come to together (B11).

Only checks can be flaky: the patch and the record of the agent's work are judged once, by the run itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial.analysis._plan_document import Adjudication
from repotrial.score import JudgedRun, Scorable

AdjudicationEnd: TypeAlias = Literal["run-envelope", "shared-envelope"]
"""Why a change could not be judged as often as registered: its own budget, or one that runs share."""
_FIXED: Final = (0, 3)
"""Patch validity and safety: gates that no execution of a check decides."""


class Adjudicated(msgspec.Struct, frozen=True, kw_only=True):
    """What all judgments of one change come to."""

    passes: int
    """Judgments in which every check passes, the run's own among them."""
    judgments: int
    """All that count; those that the machine or the harness spoiled are repeated."""
    outcome: Literal["success", "failure", "indeterminate"] | None
    """None: it is to be judged again."""
    reason: str
    """How it came to that, in words."""


def is_adjudicated(rule: Adjudication, task: str, own: JudgedRun) -> bool:
    """Whether the change of a run is judged again at all.

    Its contract is listed, a change was taken, and nothing but its checks decides: a change or a record that
    breaks a rule fails however often its checks are executed.
    """
    if task not in rule.contracts or not isinstance(own.card.status, Scorable):
        return False
    if not isinstance(own.evidence.change, bytes):
        return False
    return all(own.card.gates[place].outcome == "passed" for place in _FIXED)


def adjudicate(
    rule: Adjudication, own: JudgedRun, again: Sequence[JudgedRun], end: AdjudicationEnd | None
) -> Adjudicated:
    """The registered rule: so many passes within so many judgments, the same for all arms.

    Args:
        rule: As it was frozen.
        own: The run; its own verdict is the first judgment.
        again: Its change judged again, in order.
        end: What did not allow another judgment; None if nothing forbade it.
    """
    counted = [own, *(run for run in again if not run.cause.is_excused)]
    passes, judgments = sum(run.is_success for run in counted), len(counted)
    end = end or _find_end(again)
    words = f"{passes} of {judgments} judgments pass; {rule.passes} within {rule.reruns} are wanted"
    outcome: Literal["success", "failure", "indeterminate"] | None = None
    if passes >= rule.passes:
        outcome = "success"
    elif passes + rule.reruns - judgments < rule.passes:
        outcome = "failure"
    elif end == "run-envelope":
        outcome, words = "failure", f"{words}; the run's own budget does not allow another"
    elif end == "shared-envelope":
        outcome, words = "indeterminate", f"{words}; a budget that runs share does not allow another"
    elif len(again) - judgments + 1 > rule.reruns:
        outcome, words = "indeterminate", f"{words}; the machine spoiled all others"
    return Adjudicated(passes=passes, judgments=judgments, outcome=outcome, reason=words)


def _find_end(again: Sequence[JudgedRun]) -> AdjudicationEnd | None:
    """A budget that ended a judgment in its middle."""
    for run in again:
        if "shared-envelope" in (run.cause.acting, run.cause.acceptance):
            return "shared-envelope"
        termination = run.evidence.termination
        is_capped = termination is not None and termination.event.nature == "resource"
        if is_capped or run.cause.acceptance == "run-limit":
            return "run-envelope"
    return None
