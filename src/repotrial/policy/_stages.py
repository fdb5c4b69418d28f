"""Which stage an answer needs (P7): by the tool's family, for shells by the class of the command.

Agents without tools write what stands in the text, in blocks: for them, a block is a call that writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from repotrial._core.words import Stage
from repotrial.policy._tools import ToolTable, ToolUse, read_tool_use
from repotrial.shell import find_classes, parse_shell
from repotrial.trace import Signal

_ORDER: Final[tuple[Stage, ...]] = ("read", "write", "test")
_EDIT_BLOCK: Final = re.compile(
    r"^<{5,9} SEARCH>?[ \t]*$|^\*\*\* Begin Patch[ \t]*$|^\+\+\+ \S[^\n]*\n@@ ", re.MULTILINE
)
"""Edits as text: search and replace, a patch of either form."""


class ProposedCall(Protocol):
    """A call that a model asks for."""

    @property
    def name(self) -> str:
        """The tool, as the agent declared it."""
        ...

    @property
    def arguments(self) -> bytes:
        """A JSON text."""
        ...


class StageDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The stage that an answer needs, and why."""

    before: Stage
    """The stage until now."""
    after: Stage
    """The stage that it needs; never lower than `before`."""
    signals: tuple[Signal, ...]
    """How many calls need which stage, and how many edits stand in the text of an answer without calls."""

    @property
    def is_change(self) -> bool:
        return self.before != self.after


def decide_stage(
    current: Stage,
    calls: Sequence[ProposedCall],
    table: ToolTable | None = None,
    *,
    texts: Sequence[str] = (),
) -> StageDecision:
    """The lowest stage in which all of an answer can be done, and not below the present one."""
    needed = [find_stage(read_tool_use(call.name, call.arguments, table)) for call in calls]
    signals = [
        Signal(name=f"{stage}_calls", value=needed.count(stage)) for stage in _ORDER if stage in needed
    ]
    blocks = 0 if calls else sum(len(_EDIT_BLOCK.findall(text)) for text in texts)
    if blocks:
        needed.append("write")
        signals.append(Signal(name="edit_blocks", value=blocks))
    return StageDecision(
        before=current, after=max([current, *needed], key=_ORDER.index), signals=tuple(signals)
    )


def find_stage(use: ToolUse) -> Stage:
    """The stage that one call needs.

    A command that is not known to leave the workspace alone needs `write`; one that runs tests needs `test`.
    """
    match use.family:
        case "write":
            return "write"
        case "test":
            return "test"
        case "shell":
            classes = {kind for text in use.commands for kind in find_classes(parse_shell(text))}
            if "test" in classes:
                return "test"
            return "write" if classes - {"read", "git-history"} or not use.commands else "read"
        case "code":
            return "write"
        case _:
            return "read"
