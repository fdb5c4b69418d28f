"""The JSON Schemas of what this package writes and publishes."""

from __future__ import annotations

from typing import Any

from repotrial._core.schema import build_document_schema
from repotrial.score._aggregate import Aggregate
from repotrial.score._card import SCORE_SCHEMA, ScoreCard
from repotrial.score._rejudged import REJUDGED_SCHEMA, RejudgedVerdict
from repotrial.score._report import REPORT_SCHEMA, RunReport
from repotrial.score._taxonomy import FailureMode


def build_score_schemas() -> dict[str, dict[str, Any]]:
    """By name: score card, rejudged verdict, run report, aggregate, and one line of the failure taxonomy."""
    return {
        "aggregate": build_document_schema(Aggregate, "aggregate@1", title="Aggregate over many runs"),
        "failure-mode": build_document_schema(
            FailureMode, "failure-mode@1", title="One line of the failure taxonomy"
        ),
        "rejudged": build_document_schema(
            RejudgedVerdict, REJUDGED_SCHEMA.removeprefix("repotrial/"), title="rejudged/…json"
        ),
        "report": build_document_schema(
            RunReport, REPORT_SCHEMA.removeprefix("repotrial/"), title="report.json"
        ),
        "score": build_document_schema(
            ScoreCard, SCORE_SCHEMA.removeprefix("repotrial/"), title="score.json"
        ),
    }
