"""What a person says about a run (B14): structured, append-only, weighed by the chance of being asked."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

import msgspec

from repotrial._core.canonical import Count
from repotrial.analysis._plan_rows import render_csv
from repotrial.contract import StrictDocument

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]


class ReviewLabel(StrictDocument, frozen=True, kw_only=True):
    """One person's label of one run."""

    schema: Literal["repotrial/review-label@1"] = "repotrial/review-label@1"
    """Which version of this format."""
    case: _Text
    """The run under its blind name."""
    chance: Decimal
    """How likely the run was to be asked about: 1 if it always is. Rates weigh a label by its inverse."""
    verdict: Literal["correct", "incorrect", "unclear"]
    """Whether the change does what the task asks for."""
    failure_mode: str | None = None
    """Of failure-modes.jsonl."""
    reviewer: _Text
    """By whom."""
    reason: _Text
    """Why."""
    minutes: Count
    """Time that it took; goes into C_human."""
    is_verdict_seen: bool = False
    """Whether the verdict of the checks was shown before."""
    at_us: Count
    """When, in microseconds since 1970."""

    @classmethod
    def render_template(cls) -> str:
        """`rubric-template.csv`: what a reviewer fills in."""
        return render_csv([name for name in cls.__struct_fields__ if name != "schema"], ())
