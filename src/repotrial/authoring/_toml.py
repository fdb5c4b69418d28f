"""Writing TOML: values on the way out, since the standard library only reads it.

Hostile text is likely (commit messages, file names), so everything is escaped that could end a string or
show something else than it says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TypeAlias

TomlValue: TypeAlias = "bool | int | str | Sequence[TomlValue] | Mapping[str, TomlValue]"

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
# Controls, invisible and direction-changing characters, line and paragraph separators: valid in a TOML
# string, but they make the file show something else than it says.
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
_LINE_WIDTH = 100


def render_string(text: str) -> str:
    """A TOML string on one line. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    if text.isprintable() and "'" not in text and ('"' in text or "\\" in text):
        return f"'{text}'"  # a literal string: command lines stay readable
    return '"' + "".join(_escape(character) for character in text) + '"'


def render_key(name: str) -> str:
    """A key: bare where TOML allows it."""
    return name if _BARE_KEY.fullmatch(name) else render_string(name)


def render_value(value: TomlValue) -> str:
    """A value as it stands after `=`: arrays that would be too long take one line for each item."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return render_string(value)
        case Mapping():
            return _render_inline_table(value)
        case Sequence():
            return _render_array([render_value(item) for item in value])


def render_comment(text: str) -> str:
    """`text` as comment lines; nothing in it can end the comment."""
    lines = "".join(_printable(character) for character in text).splitlines() or [""]
    return "\n".join(f"# {line}".rstrip() for line in lines)


def _escape(character: str) -> str:
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    category = unicodedata.category(character)
    if category == "Cs":
        return "\N{REPLACEMENT CHARACTER}"
    if category not in _ESCAPED_CATEGORIES:
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # noqa: PLR2004 - last 4-digit code point


def _printable(character: str) -> str:
    if character == "\n":
        return character
    if unicodedata.category(character) in {*_ESCAPED_CATEGORIES, "Cs"}:
        return " "
    return character


def _render_array(items: list[str]) -> str:
    line = "[" + ", ".join(items) + "]"
    if len(line) <= _LINE_WIDTH and "\n" not in line:
        return line
    return "[\n" + "".join(f"  {item},\n" for item in items) + "]"


def _render_inline_table(table: Mapping[str, TomlValue]) -> str:
    if not table:
        return "{}"
    return "{ " + ", ".join(f"{render_key(key)} = {render_value(item)}" for key, item in table.items()) + " }"
