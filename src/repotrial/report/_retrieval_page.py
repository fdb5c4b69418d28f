"""A retrieval report as one page that opens anywhere: nothing is fetched, no script runs."""

from __future__ import annotations

from markupsafe import Markup

from repotrial import __version__
from repotrial.report._render import render_template
from repotrial.report._retrieval_figures import draw_figures
from repotrial.report._retrieval_tables import build_sections
from repotrial.retrieval import RetrievalReport

_BEFORE_FIGURES = frozenset({"coverage"})


def build_retrieval_page(report: RetrievalReport) -> str:
    """The whole report with figures as one HTML document; the same report gives the same bytes."""
    sections = build_sections(report)
    pictures = draw_figures(report)
    return render_template(
        "retrieval.html.j2",
        version=__version__,
        report=report,
        first=[section for section in sections if section.name in _BEFORE_FIGURES],
        others=[section for section in sections if section.name not in _BEFORE_FIGURES],
        pictures=pictures,
        # Drawn by us; every text in it was escaped.
        drawings={picture.name: Markup(picture.svg) for picture in pictures},  # noqa: S704
    )
