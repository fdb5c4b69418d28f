"""Other tools' formats: what we judged, as they write it down."""

from repotrial.interop._swebench_report import MixedAgentsError, SwebenchReport, build_swebench_report

__all__ = ["MixedAgentsError", "SwebenchReport", "build_swebench_report"]
