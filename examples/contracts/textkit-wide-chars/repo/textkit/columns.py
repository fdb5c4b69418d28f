"""Tables: cells aligned in columns."""

from collections.abc import Sequence
from itertools import zip_longest

from textkit.width import display_width, pad
from textkit.wrap import wrap


def table(
    rows: Sequence[Sequence[str]], *, align: str = "", separator: str = "  ", max_column: int | None = None
) -> str:
    """Align cells in columns.

    `align` has one of `<`, `>` and `^` for each column; columns beyond its end are left-aligned. A cell that is
    wider than `max_column` goes on below in its column. Rows may be of different length.
    """
    cells = [[_cell_lines(cell, max_column) for cell in row] for row in rows]
    widths = _column_widths(cells)
    alignment = align.ljust(len(widths), "<")
    lines = []
    for row in cells:
        for line in zip_longest(*row, fillvalue=""):
            padded = [pad(text, width, how) for text, width, how in zip(line, widths, alignment)]
            lines.append(separator.join(padded).rstrip())
    return "\n".join(lines)


def _cell_lines(cell: str, max_column: int | None) -> list[str]:
    if max_column is None or display_width(cell) <= max_column:
        return [cell]
    return wrap(cell, max_column)


def _column_widths(cells: list[list[list[str]]]) -> list[int]:
    columns = zip_longest(*cells, fillvalue=[""])
    return [max(display_width(line) for cell in column for line in cell) for column in columns]
