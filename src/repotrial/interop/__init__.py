"""Other tools' formats: what we judged, as they write it down."""

from __future__ import annotations

from repotrial.interop._swebench_report import build_swebench_report

__all__ = ["build_swebench_report"]
