"""Drawings as inline SVG: no prologue, no style sheet, no id that another drawing has, colors of the page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element

import defusedxml.ElementTree

from repotrial._core.errors import ErrorCode, MachineError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK: Final = "#010203"
"""Stands for the page's color of text."""
GRID: Final = "#020304"
"""Stands for the page's color of lines."""

_DROPPED: Final = frozenset({"metadata", "style"})
_SETTINGS: Final[dict[Any, Any]] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.color": GRID,
    "hatch.color": "white",
    "legend.labelcolor": INK,
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


FIGURES_MISSING = ErrorCode(
    "figures-missing",
    MachineError,
    "A page with figures was asked for, and the library that draws them is not installed.",
    hint="install it with `pip install 'repotrial[figures]'` (in a clone: `pip install '.[figures]'`), or "
    "leave out the page: `--format md --format csv --format json`",
)


def draw(name: str, paint: Callable[[Figure], None], *, width: float = 5.8, height: float = 3.5) -> str:
    """Draw on a new canvas; the same drawing gives the same text.

    Args:
        name: Begins every id in it.
        paint: Puts axes and data on the canvas.
        width: In inches.
        height: In inches.

    Raises:
        FIGURES_MISSING: matplotlib is not installed; it is an extra, since it takes 95 MB.
    """
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise FIGURES_MISSING.error(f"figures: expected matplotlib, found: {error}") from error
    from matplotlib.figure import Figure  # not pyplot: no window system, no state that stays

    buffer = io.BytesIO()
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": name}):
        canvas = Figure(figsize=(width, height), layout="constrained")
        paint(canvas)
        canvas.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    root = defusedxml.ElementTree.fromstring(buffer.getvalue())
    return "".join(_render(root, name, _find_references(root)))


def _find_references(root: Element) -> frozenset[str]:
    """Ids that something in a drawing refers to; most are never, and every drawing has them."""
    values = (value for element in root.iter() for value in element.attrib.values())
    return frozenset(found for value in values for found in re.findall(r"#([A-Za-z][\w-]*)", value))


def _render(element: Element, name: str, referred: frozenset[str]) -> list[str]:
    """An element as HTML has it, with its children."""
    tag = _strip(element.tag)
    if tag in _DROPPED:
        return []
    shown = [
        _render_attribute(_strip(key), value, name)
        for key, value in element.attrib.items()
        if (_strip(key) == "viewBox" if tag == "svg" else key != "id" or value in referred)
    ]
    if tag == "svg":
        shown.append(f' role="img" aria-labelledby="{name}-words"')
    parts = [f"<{tag}{''.join(shown)}>"]
    if element.text and element.text.strip():
        parts.append(html.escape(element.text))
    for child in element:
        parts += _render(child, name, referred)
    parts.append(f"</{tag}>")
    return parts


def _render_attribute(key: str, value: str, name: str) -> str:
    if key == "id":
        value = f"{name}-{value}"
    elif key == "href":
        value = f"#{name}-{value.removeprefix('#')}"
    value = value.replace("url(#", f"url(#{name}-")
    value = value.replace(INK, "currentColor").replace(GRID, "var(--line)")
    return f' {key}="{html.escape(value)}"'


def _strip(qualified: str) -> str:
    return qualified.rpartition("}")[2]
