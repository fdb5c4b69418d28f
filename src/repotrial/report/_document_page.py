"""A report as one HTML file: nothing is fetched, and the only script that runs is ours, by its digest."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from repotrial import __version__
from repotrial.report._document import ReportDocument
from repotrial.report._render import load_script, render_template

_MOST_ANCHORED_ROWS: Final = 300
"""Rows of a table whose cells each have an anchor; in longer ones the row has."""


def _is_claim(value: object) -> bool:
    """Whether a cell says a number: as one, or as text that begins with a digit."""
    return isinstance(value, int | float) or (isinstance(value, str) and value[:1].isdigit())


def render_report_page(document: ReportDocument) -> str:
    """The whole report; the same document gives the same bytes."""
    script, digest = load_script()
    named = {source.name for source in document.sources}
    return render_template(
        "report.html.j2",
        version=__version__,
        document=document,
        named=named,
        detailed={run.anchor for run in document.runs},
        most_anchored=_MOST_ANCHORED_ROWS,
        claim=_is_claim,
        # Drawn by us; every text from elsewhere in it was escaped.
        drawings={
            figure.name: Markup(figure.svg)  # noqa: S704
            for section in document.sections
            for figure in section.figures
        },
        script=script,
        script_digest=digest,
    )
