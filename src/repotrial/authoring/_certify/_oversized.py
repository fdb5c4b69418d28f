"""A change that is far too large, wherever the contract lets one write."""

from __future__ import annotations

from typing import Final

from repotrial.authoring._certify._cheats._edit import build_patch
from repotrial.contract import Policy

_LINES: Final = 50_000
_WILDCARDS: Final = frozenset("*?[")


def build_oversized_patch(policy: Policy) -> bytes:
    """One new file with more lines than any contract allows, in the first place that may be written to."""
    lines = max(_LINES, 2 * (policy.max_lines_changed or 0))
    text = "".join(f"line {number} of what nobody asked for\n" for number in range(lines))
    return build_patch({}, {f"{_find_folder(policy)}oversized.txt": text})


def _find_folder(policy: Policy) -> str:
    for pattern in policy.writable:
        if pattern.endswith("/**") and _WILDCARDS.isdisjoint(pattern[:-3]) and not pattern.startswith("!"):
            return f"{pattern[:-3].strip('/')}/"
    return ""
