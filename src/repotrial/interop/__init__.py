"""Other tools' formats: what we judged, as they write it down, and what they would have us run."""

from __future__ import annotations

from repotrial.interop._export import build_exports
from repotrial.interop._harbor import HarborTask, survey_harbor
from repotrial.interop._model import Exported, ExportFormat, Loss
from repotrial.interop._results import is_foreign, read_results
from repotrial.interop._swebench_report import build_swebench_report

__all__ = [
    "ExportFormat",
    "Exported",
    "HarborTask",
    "Loss",
    "build_exports",
    "build_swebench_report",
    "is_foreign",
    "read_results",
    "survey_harbor",
]
