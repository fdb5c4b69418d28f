"""From values to HTML. Everything printed into a page passes `show_value`, from any source."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.display import escape_unprintable, mark_cap, neutralize
from repotrial.report.figures.canvas import show_cell

_MAX_CHARACTERS = 1000
_SHORT_DIGEST = 12
_US_PER_SECOND = 1_000_000
_SECONDS_PER_MINUTE = 60
_MINUTES_PER_HOUR = 60
_BYTES_PER_STEP = 1024


def render_template(name: str, /, *, package: str = "repotrial.report", **values: object) -> str:
    """A template of a package as text; the same values give the same text.

    Args:
        name: The file in the folder `templates`.
        package: Whose it is: what the viewer serves passes the same last step as what reports hold.
        values: What the template names.
    """
    return _build_environment(package).get_template(name).render(values)


@cache
def read_stylesheet() -> str:
    """The rules that all pages share."""
    folder = files("repotrial.report").joinpath("templates")
    names = ("run.css", "figures.css", "report.css")
    return "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


@cache
def load_script() -> tuple[Markup, str]:
    """The one script of pages that are files, and its digest as a policy of content names it."""
    text = files("repotrial.report").joinpath("templates", "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return Markup(text), f"sha256-{digest}"  # noqa: S704 - written by us


@cache
def _build_environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        finalize=show_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        block=_show_block,
        bytes=show_bytes,
        cap=_mark_cap,
        cell=show_cell,
        count=_show_count,
        duration=show_duration,
        short=_show_short,
    )
    return environment


def show_value(value: object) -> object:
    """The last step before escaping: one line, bounded, nothing in it that hides or reorders text."""
    match value:
        case Markup():  # of our own templates; nothing from a run is ever one
            return value
        case NotComputable(reason=reason):
            return _show_absence("not computable", reason)
        case Unknown(reason=reason):
            return _show_absence("unknown", reason)
        case None:
            return ""
        case _:
            return neutralize(str(value), max_characters=_MAX_CHARACTERS)


def _show_absence(word: str, reason: str) -> Markup:
    shown = neutralize(reason, max_characters=_MAX_CHARACTERS)
    return Markup('<span class="absent">{} ({})</span>').format(word, shown)


def _show_block(text: str) -> Markup:
    """Text of several lines, as it is; the caller has cut it."""
    return escape(escape_unprintable(text, keep="\n\t"))


def _mark_cap(value: object) -> object:
    return mark_cap(value) if isinstance(value, str) else value


def _show_count(value: object) -> object:
    return f"{value:,}" if isinstance(value, int) else value


def show_duration(value: object) -> object:
    """Microseconds as people say them; what is absent stays so."""
    if not isinstance(value, int):
        return value
    seconds = value / _US_PER_SECOND
    if seconds < 1:
        return f"{value / 1000:.0f} ms"
    if seconds < _SECONDS_PER_MINUTE:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(round(seconds), _SECONDS_PER_MINUTE)
    if minutes < _MINUTES_PER_HOUR:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, _MINUTES_PER_HOUR)
    return f"{hours} h {minutes} min"


def show_bytes(value: object) -> object:
    """A size as people say it."""
    if not isinstance(value, int):
        return value
    size: float = value
    for unit in ("bytes", "KiB", "MiB"):
        if size < _BYTES_PER_STEP:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= _BYTES_PER_STEP
    return f"{size:.1f} GiB"


def _show_short(value: object) -> object:
    """A digest's first digits: enough to tell two apart by eye."""
    if not isinstance(value, str):
        return value
    return value.removeprefix("sha256:")[:_SHORT_DIGEST]
