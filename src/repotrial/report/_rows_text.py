"""Flat rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from repotrial.report.figures.canvas import protect_cell


def render_rows(rows: Sequence[Mapping[str, object]]) -> str:
    """One line for each row, with the columns of all of them; a value that no record states is empty."""
    stream = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        values = (row.get(name) for name in names)
        writer.writerow(["" if value is None else protect_cell(str(value)) for value in values])
    return stream.getvalue()
