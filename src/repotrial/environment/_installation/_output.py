"""What a program said, as a message shows it."""

from __future__ import annotations

from typing import Final

from repotrial._core.display import escape_unprintable
from repotrial.isolation import CommandResult
from repotrial.trace import Exited, ExitUnknown, NotStarted, Signaled, TimedOut

_SHOWN_CHARACTERS: Final = 1500


def render_tail(result: CommandResult) -> str:
    """The last that a program printed, harmless to a terminal."""
    parts = []
    for name, stream in (("stdout", result.stdout), ("stderr", result.stderr)):
        text = stream.prefix.decode("utf-8", "backslashreplace").strip()
        if text:
            cut = "…" if len(text) > _SHOWN_CHARACTERS or stream.length_bytes > len(stream.prefix) else ""
            parts.append(f"{name}: {cut}{escape_unprintable(text[-_SHOWN_CHARACTERS:], keep=chr(10))}")
    return "\n".join(parts) or "it printed nothing"


def describe_end(result: CommandResult) -> str:
    """How a program ended, in words."""
    if result.cause not in {"ended", "timeout"}:
        return f"ended by the limit on {result.cause}"
    match result.exit:
        case Exited(code=code):
            return f"exit code {code}"
        case Signaled(signal=number):
            return f"signal {number}"
        case TimedOut(ceiling_us=ceiling_us):
            return f"no end within {ceiling_us // 1_000_000} s"
        case NotStarted(reason=reason) | ExitUnknown(reason=reason):
            return reason
