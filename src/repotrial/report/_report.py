"""A report about any mix of things, and its forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from repotrial.analysis import Analysis, CollectedSummary, TrialTable
from repotrial.report._analysis_report import build_analysis_part
from repotrial.report._document import ReportDocument, ReportPart, join_parts
from repotrial.report._document_page import render_report_page
from repotrial.report._document_text import render_report_json, render_report_markdown
from repotrial.report._pilot_report import build_pilot_part
from repotrial.report._pilot_view import PilotView, PlanView
from repotrial.report._plan_part import build_plan_part
from repotrial.report._retrieval_text import build_retrieval_part
from repotrial.report._runs_report import build_runs_part
from repotrial.retrieval import RetrievalReport


def build_document(
    *,
    pilots: Sequence[PilotView | PlanView] = (),
    analyses: Sequence[tuple[Analysis, TrialTable | None]] = (),
    runs: CollectedSummary | None = None,
    retrieval: RetrievalReport | None = None,
    is_shared: bool = False,
    pages: Mapping[Path, str] | None = None,
) -> ReportDocument:
    """One report of all that is given.

    Args:
        pilots: Each after its end with all outcomes, before it as planned.
        analyses: Each with the trials behind it, where those are there.
        runs: A set of runs, judged anew.
        retrieval: Retrieval results.
        is_shared: Whether source code, prompts and outputs are left out.
        pages: For each run directory its own page, as a link.
    """
    parts: list[ReportPart] = []
    for number, pilot in enumerate(pilots, start=1):
        prefix = f"p{number}-"
        if isinstance(pilot, PilotView):
            parts.append(build_pilot_part(pilot, prefix=prefix, is_shared=is_shared, pages=pages or {}))
        else:
            parts.append(build_plan_part(pilot, prefix=prefix))
    for number, (analysis, table) in enumerate(analyses):
        prefix = "" if number == 0 else f"a{number + 1}-"
        parts.append(build_analysis_part(analysis, table, prefix=prefix))
    if runs is not None:
        parts.append(build_runs_part(runs, is_shared=is_shared, pages=pages or {}))
    if retrieval is not None:
        parts.append(build_retrieval_part(retrieval))
    return join_parts(parts, is_shared=is_shared)


def render_document(document: ReportDocument, form: str) -> bytes:
    """The document as `html`, `md` or `json`; the same document gives the same bytes."""
    match form:
        case "md":
            return render_report_markdown(document).encode()
        case "json":
            return render_report_json(document)
        case _:
            return render_report_page(document).encode()
