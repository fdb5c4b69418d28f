"""What people look at: pages that open anywhere, made from evidence alone. Pure: nothing is executed."""

from repotrial.report._answerer import (
    Answerer,
    describe_answerer,
    describe_cost,
    find_upstream,
    shorten_digests,
)
from repotrial.report._reasons import find_stop, order_reasons
from repotrial.report._retrieval_page import build_retrieval_page
from repotrial.report._retrieval_text import render_retrieval_csv, render_retrieval_markdown
from repotrial.report._run_page import build_run_page
from repotrial.report._summary_page import (
    SummaryAgent,
    SummaryCell,
    SummaryFailure,
    SummaryRate,
    SummaryView,
    build_summary_page,
)

__all__ = [
    "Answerer",
    "SummaryAgent",
    "SummaryCell",
    "SummaryFailure",
    "SummaryRate",
    "SummaryView",
    "build_retrieval_page",
    "build_run_page",
    "build_summary_page",
    "describe_answerer",
    "describe_cost",
    "find_stop",
    "find_upstream",
    "order_reasons",
    "render_retrieval_csv",
    "render_retrieval_markdown",
    "shorten_digests",
]
