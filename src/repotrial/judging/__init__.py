"""From recorded results to outcomes of checks: parsers, inventory, twins. Pure."""

from __future__ import annotations

from repotrial.judging._judge import (
    Judgement,
    ReportedTests,
    RunnerRecord,
    judge_mixed,
    judge_negatives,
    judge_plain,
    judge_twinned,
)
from repotrial.judging._mix import MixedSuite, SuiteFile, list_changeable, mix_in_negatives
from repotrial.judging._recorded import (
    RecordedCheck,
    RecordedTests,
    apply_judgement,
    judge_recorded,
    list_recorded_tests,
    read_recorded_tests,
)
from repotrial.judging._starvation import Supply, judge_supply, may_be_starvation
from repotrial.judging._twins._build import build_python_twins, list_imported
from repotrial.judging._twins._model import Twin

__all__ = [
    "Judgement",
    "MixedSuite",
    "RecordedCheck",
    "RecordedTests",
    "ReportedTests",
    "RunnerRecord",
    "SuiteFile",
    "Supply",
    "Twin",
    "apply_judgement",
    "build_python_twins",
    "judge_mixed",
    "judge_negatives",
    "judge_plain",
    "judge_recorded",
    "judge_supply",
    "judge_twinned",
    "list_changeable",
    "list_imported",
    "list_recorded_tests",
    "may_be_starvation",
    "mix_in_negatives",
    "read_recorded_tests",
]
