"""Marks on a canvas as SVG: every text escaped, every mark with a title, colors by class."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.display import neutralize

SERIES: Final = 6
"""Colors; further series repeat them with another dash or pattern."""
FONT: Final = 12
_CHARACTER: Final = 0.62
"""Width of an average character of a proportional font, in parts of its size."""

_PAGE_COLORS: Final = """\
:root { --ground: #fff; --panel: #f6f7f9; --line: #d9dde3; --text: #1b2129; --soft: #5c6673; --void-ground: #eceff3; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #12161c; --panel: #1b212a; --line: #333c48; --text: #e4e8ee; --soft: #9aa5b3; --void-ground: #262d37; }
}
svg { background: var(--ground); }
"""  # noqa: E501 - one rule for each theme
"""The page's own colors, for a figure that is a file."""

Cell = str | int | float | NotComputable | Unknown | None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One drawing with what it says and the numbers behind it."""

    name: str
    """For anchors and file names; unique on a page."""
    title: str
    """What it shows, as a sentence."""
    words: str
    """What is drawn, for readers who do not see it."""
    svg: str
    """The drawing; trusted, since everything in it is escaped here."""
    columns: tuple[str, ...]
    """Of the table of numbers."""
    rows: tuple[tuple[Cell, ...], ...]
    is_wide: bool = False
    """Whether it takes the whole width of a page."""
    sources: tuple[tuple[str, str], ...] = ()
    """Files that its numbers were computed from, each with its digest (X5)."""

    @property
    def digest(self) -> str:
        """Over the digests of all its files, in order."""
        return digest_bytes("\n".join(digest for _, digest in self.sources).encode())

    def to_csv(self) -> str:
        """The numbers as CSV; what is absent is said in words."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([protect_cell(show_cell(cell)) for cell in row])
        return buffer.getvalue()

    def to_file(self) -> str:
        """The drawing as an SVG file of its own."""
        opening = self.svg.index(">") + 1
        head = self.svg[:opening].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        title = f"<title>{_show(self.title)}</title><desc>{_show(self.words)}</desc>"
        style = f"<style>{_PAGE_COLORS}{_load_style()}</style>"
        return f"{head}{title}{style}{self.svg[opening:]}\n"


def _load_style() -> str:
    return files("repotrial.report").joinpath("templates", "figures.css").read_text(encoding="utf-8")


def show_cell(cell: Cell) -> str:
    """A number as tables show it; what is absent, with its reason."""
    match cell:
        case NotComputable(reason=reason):
            return f"not computable ({reason})"
        case Unknown(reason=reason):
            return f"unknown ({reason})"
        case None:
            return ""
        case float():
            return f"{cell:.4g}"
        case _:
            return str(cell)


def protect_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    is_formula = text.startswith(("=", "+", "@", "\t", "\r")) or (text[:1] == "-" and not _is_number(text))
    return f"'{text}" if is_formula else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _show(text: str, most: int = 1000) -> str:
    return escape(neutralize(text, max_characters=most))


def cut(text: str, pixels: float) -> str:
    """A text that fits a width, with … where it was cut."""
    most = max(4, int(pixels / (FONT * _CHARACTER)))
    shown = neutralize(text, max_characters=1000)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def measure(text: str) -> float:
    """About how wide a text is."""
    return len(text) * FONT * _CHARACTER


class Canvas:
    """Collects marks; coordinates are pixels from the upper left."""

    def __init__(self, name: str, width: float, height: float) -> None:
        self._name = name
        self._size = (width, height)
        self._parts: list[str] = []
        self._patterns: set[int] = set()
        self._has_links = False

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", css: str = "", turn: bool = False
    ) -> None:
        """A line of text; `turn`: from bottom to top."""
        rotated = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turn else ""
        style = f' class="{css}"' if css else ""
        place = f'x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"'
        self._parts.append(f"<text {place}{style}{rotated}>{_show(text)}</text>")

    def line(self, start: tuple[float, float], end: tuple[float, float], css: str, title: str = "") -> None:
        """A straight line."""
        ends = f'x1="{_n(start[0])}" y1="{_n(start[1])}" x2="{_n(end[0])}" y2="{_n(end[1])}"'
        self._add("line", ends, css, title)

    def rect(
        self,
        corner: tuple[float, float],
        size: tuple[float, float],
        css: str,
        title: str = "",
        href: str = "",
    ) -> None:
        """A rectangle; with `href` a link."""
        place = f'x="{_n(corner[0])}" y="{_n(corner[1])}" width="{_n(size[0])}" height="{_n(size[1])}"'
        self._add("rect", place, css, title, href)

    def path(
        self, points: Sequence[tuple[float, float]], css: str, title: str = "", *, closed: bool = False
    ) -> None:
        """A line through points."""
        if not points:
            return
        steps = " ".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self._add("path", f'd="M{steps}{"Z" if closed else ""}"', css, title)

    def mark(self, x: float, y: float, series: int, title: str, href: str = "") -> None:
        """A point; its shape tells series apart without color."""
        css = f"k{series % SERIES} fill"
        match series % 4:
            case 0:
                self._add("circle", f'cx="{_n(x)}" cy="{_n(y)}" r="4.5"', css, title, href)
            case 1:
                self.rect((x - 4, y - 4), (8, 8), css, title, href)
            case 2:
                self._add("path", f'd="M{_n(x)} {_n(y - 5.5)}l5.5 9.5h-11z"', css, title, href)
            case _:
                self._add("path", f'd="M{_n(x)} {_n(y - 6)}l6 6l-6 6l-6-6z"', css, title, href)

    def fill(self, series: int) -> str:
        """Attributes of a filled area: a color, and from the second series on a pattern."""
        if series % SERIES == 0:
            return f"k{series % SERIES} fill bar"
        self._patterns.add(series)
        return f"k{series % SERIES} bar {self._name}-h{series}"

    def render(self) -> str:
        """The drawing as an element of a page; the page names it by `NAME-title` and `NAME-words`."""
        width, height = self._size
        labels = f"{self._name}-title {self._name}-words"
        # A picture has no parts for a reader of screens; one whose marks are links is a group of them.
        role = "group" if self._has_links else "img"
        box = f'viewBox="0 0 {_n(width)} {_n(height)}"'
        opening = f'<svg class="fig" {box} role="{role}" aria-labelledby="{labels}">'
        return f"{opening}{self._render_patterns()}{''.join(self._parts)}</svg>"

    def _add(self, tag: str, place: str, css: str, title: str, href: str = "") -> None:
        fill, shown = "", []
        for word in css.split():
            if word.startswith(f"{self._name}-h"):
                fill = f' fill="url(#{word})"'
            else:
                shown.append(word)
        inner = f"<title>{_show(title)}</title>" if title else ""
        element = f'<{tag} {place} class="{" ".join(shown)}"{fill}>{inner}</{tag}>'
        self._has_links |= bool(href)
        self._parts.append(f'<a href="{escape(href)}">{element}</a>' if href else element)

    def _render_patterns(self) -> str:
        if not self._patterns:
            return ""
        shapes = "".join(
            f'<pattern id="{self._name}-h{series}" width="7" height="7" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate({(series * 37) % 180})" class="k{series % SERIES}">'
            f'<rect width="7" height="7" class="fill"/><path d="M0 1.5h7" stroke="var(--ground)" '
            f'stroke-width="{1 + series % 3}"/></pattern>'
            for series in sorted(self._patterns)
        )
        return f"<defs>{shapes}</defs>"


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
