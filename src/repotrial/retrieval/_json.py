"""JSON of other harnesses: taken as far as it is there, never fatal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

_MOST_BYTES: Final = 64 * 1024**2


def load_object(path: Path) -> dict[str, Any]:
    """The object that a file holds; empty where it holds none."""
    try:
        with path.open("rb") as stream:
            value = msgspec.json.decode(stream.read(_MOST_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def dig(value: Any, *keys: str) -> Any:
    """What lies below these keys; null where something on the way is no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
