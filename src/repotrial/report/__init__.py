"""What people look at: pages that open anywhere, made from evidence alone. Pure: nothing is executed."""

from __future__ import annotations

from repotrial.report._retrieval_text import (
    build_retrieval_page,
    render_retrieval_csv,
    render_retrieval_markdown,
)
from repotrial.report._run_page import build_run_page
from repotrial.report._summary_page import build_summary_page

__all__ = [
    "build_retrieval_page",
    "build_run_page",
    "build_summary_page",
    "render_retrieval_csv",
    "render_retrieval_markdown",
]
