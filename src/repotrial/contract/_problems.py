"""Problems found in a contract directory: all of them at once, each with its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

_SHOWN = 5

Severity: TypeAlias = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to mend: the file, the line, the field, what was expected and found, and the fix."""

    code: str
    """Stable kebab-case name; documented in `docs/reference/lint.md`."""
    severity: Severity
    """An error makes the contract unusable; a warning makes it worse than it could be."""
    file: str
    """Relative to the contract directory."""
    line: int | None = None
    """Counted from 1; left out where the problem is an absence."""
    field: str = ""
    """Dotted path of the field, such as `checks[0].timeout_seconds`."""
    message: str
    """What was expected and what was found."""
    hint: str = ""
    """What to do."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        field = f" {self.field}:" if self.field else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}:{field} {self.message}{hint} [{self.code}]"


def render_problems(what: str, problems: Sequence[Problem]) -> str:
    """The message of an error about a document: how many problems it has, and the first of them."""
    lines = [f"  {problem}" for problem in problems[:_SHOWN]]
    if len(problems) > len(lines):
        lines.append(f"  … and {len(problems) - len(lines)} more")
    noun = "problem" if len(problems) == 1 else "problems"
    return "\n".join([f"expected a sound {what}, found {len(problems)} {noun}:", *lines])
