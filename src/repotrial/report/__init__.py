"""What people look at: pages that open anywhere, made from evidence alone. Pure: nothing is executed."""

from __future__ import annotations

from repotrial.report._analysis_text import render_analysis
from repotrial.report._conversation import EVENT_CLASSES, Turn, build_turns
from repotrial.report._document import ReportDocument, Section, Table
from repotrial.report._pilot_view import FrozenVersion, PilotView, PlanView
from repotrial.report._render import read_stylesheet, render_template
from repotrial.report._report import build_document, render_document
from repotrial.report._retrieval_text import (
    build_retrieval_page,
    render_retrieval_csv,
    render_retrieval_markdown,
)
from repotrial.report._rows_text import render_rows
from repotrial.report._run_page import build_run_page

__all__ = [
    "EVENT_CLASSES",
    "FrozenVersion",
    "PilotView",
    "PlanView",
    "ReportDocument",
    "Section",
    "Table",
    "Turn",
    "build_document",
    "build_retrieval_page",
    "build_run_page",
    "build_turns",
    "read_stylesheet",
    "render_analysis",
    "render_document",
    "render_retrieval_csv",
    "render_retrieval_markdown",
    "render_rows",
    "render_template",
]
