"""Where two requests differ first, as a JSON pointer and two snippets."""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial._core.display import neutralize

_SNIPPET: Final = 160
_BEFORE: Final = 40
_ABSENT: Final = "(absent)"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first value that is another one."""

    pointer: str
    """Where it stands: a JSON pointer into the request."""
    expected: str
    """What stood there when it was recorded."""
    found: str
    """What stands there now."""


def find_difference(expected: object, found: object, pointer: str = "") -> Difference | None:
    """The first difference in the order of the expected value; null where there is none."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [*expected, *(key for key in found if key not in expected)]
        pairs = [(_escape(str(key)), expected.get(key, _Absent), found.get(key, _Absent)) for key in keys]
    elif isinstance(expected, list) and isinstance(found, list):
        length = max(len(expected), len(found))
        left, right = (items + [_Absent] * (length - len(items)) for items in (expected, found))
        pairs = [(str(index), left[index], right[index]) for index in range(length)]
    else:
        return None if _is_same(expected, found) else _describe(expected, found, pointer)
    for key, one, other in pairs:
        difference = find_difference(one, other, f"{pointer}/{key}")
        if difference is not None:
            return difference
    return None


class _Absent:
    """Stands where one side has nothing."""


def _is_same(expected: object, found: object) -> bool:
    # `True == 1` in Python, and not in JSON.
    return type(expected) is type(found) and expected == found


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _describe(expected: object, found: object, pointer: str) -> Difference:
    start = 0
    if isinstance(expected, str) and isinstance(found, str):
        same = next(
            (index for index, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b),
            min(len(expected), len(found)),
        )
        start = max(0, same - _BEFORE)
    return Difference(pointer=pointer, expected=_show(expected, start), found=_show(found, start))


def _show(value: object, start: int) -> str:
    if value is _Absent:
        return _ABSENT
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = text[start : start + _SNIPPET]
    shown = f"{'…' if start else ''}{cut}{'…' if start + _SNIPPET < len(text) else ''}"
    return neutralize(shown, max_characters=2 * _SNIPPET)
