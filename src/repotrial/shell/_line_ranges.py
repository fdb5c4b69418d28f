"""Which lines of a file `sed`, `awk`, `head` and `tail` show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

_DEFAULT_LINES: Final = 10
_SED_PART = re.compile(r"\s*(\d{1,9})(?:\s*,\s*(\+?)(\d{1,9}|\$))?\s*\{?\s*([pq=])[;}\s=p]*")
_AWK_FROM = re.compile(r"NR\s*(>=|>)\s*(\d{1,9})")
_AWK_TO = re.compile(r"NR\s*(<=|<)\s*(\d{1,9})")
_AWK_BETWEEN = re.compile(r"NR\s*==\s*(\d{1,9})\s*,\s*NR\s*==\s*(\d{1,9})")
_AWK_ONE = re.compile(r"NR\s*==\s*(\d{1,9})")


class LineSpan(msgspec.Struct, frozen=True):
    """Lines from 1, both ends included."""

    first: int
    last: int | None
    """None: to the end."""


def find_sed_ranges(scripts: Sequence[str], *, is_quiet: bool) -> tuple[LineSpan, ...]:
    """Lines that `sed -n 'a,bp'` or `sed 'bq'` prints; nothing where the script does more than that."""
    found: list[LineSpan] = []
    for script in scripts:
        for part in re.split(r"[;\n]", script):
            if not part.strip() or part.strip() == "}":
                continue
            match = _SED_PART.fullmatch(part.strip())
            if match is None:
                return ()
            lines = _read_sed(match, is_quiet=is_quiet)
            if lines is not None:
                found.append(lines)
    return tuple(found)


def _read_sed(match: re.Match[str], *, is_quiet: bool) -> LineSpan | None:
    first = int(match[1])
    if match[4] == "q":
        return None if is_quiet else LineSpan(1, first)
    if not is_quiet:
        return None
    if match[3] is None:
        return LineSpan(first, first)
    if match[3] == "$":
        return LineSpan(first, None)
    last = first + int(match[3]) if match[2] else int(match[3])
    return LineSpan(first, max(first, last))


def find_awk_ranges(programs: Sequence[str]) -> tuple[LineSpan, ...]:
    """Lines that conditions on `NR` let through."""
    text = programs[0] if programs else ""
    if (between := _AWK_BETWEEN.search(text)) is not None:
        return (LineSpan(int(between[1]), int(between[2])),)
    start, end = _AWK_FROM.search(text), _AWK_TO.search(text)
    if start is not None or end is not None:
        first = 1 if start is None else int(start[2]) + (1 if start[1] == ">" else 0)
        last = None if end is None else int(end[2]) - (1 if end[1] == "<" else 0)
        return (LineSpan(first, last),) if last is None or last >= first else ()
    one = _AWK_ONE.search(text)
    return () if one is None else (LineSpan(int(one[1]), int(one[1])),)


def find_count(name: str, texts: Sequence[str]) -> LineSpan | None:
    """Lines that `head` or `tail` shows; None where the words count from the end."""
    if name not in {"head", "tail"}:
        return None
    joined = " ".join(texts)
    if re.search(r"(?:^|\s)(?:-c|--bytes)", joined):
        return None
    match = re.search(
        r"(?:^|\s)(?:-n\s*|--lines[= ])([+-]?)(\d{1,9})|(?:^|\s)([-+])(\d{1,9})(?=\s|$)", joined
    )
    if name == "tail":
        sign, number = ("", "") if match is None else (match[1] or match[3] or "", match[2] or match[4])
        return LineSpan(max(1, int(number)), None) if sign == "+" else None
    if match is None:
        return LineSpan(1, _DEFAULT_LINES)
    return None if match[1] == "-" else LineSpan(1, int(match[2] or match[4]))
