"""Flat rows as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import msgspec

from repotrial.analysis import RunRow
from repotrial.report.figures.canvas import protect_cell


def render_rows(rows: Sequence[RunRow]) -> str:
    """One line for each run; a value that no record states is empty."""
    stream = io.StringIO()
    names = [field.name for field in msgspec.structs.fields(RunRow)]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        values = (getattr(row, name) for name in names)
        writer.writerow(["" if value is None else protect_cell(str(value)) for value in values])
    return stream.getvalue()
