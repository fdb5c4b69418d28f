"""Questions on a terminal, for what was not given on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import typer

from repotrial._core.errors import ErrorCode, UsageError

C = TypeVar("C", bound=str)


CONTRACT_NEW_MISSING_ANSWER = ErrorCode(
    "contract-new-missing-answer",
    UsageError,
    "`contract new` needs something that was neither given as a flag nor could be asked for.",
    hint="give it on the command line, or run the command on a terminal, without --json, to be asked",
)


class Interview:
    """Asks where there is somebody to ask; typer ends it on Ctrl-C and Ctrl-D."""

    def __init__(self, *, is_possible: bool, is_thorough: bool) -> None:
        """Say whom there is to ask.

        Args:
            is_possible: There is a terminal, and output is for people.
            is_thorough: Ask for what has a sensible default too.
        """
        self._is_possible = is_possible
        self._is_thorough = is_possible and is_thorough
        if self._is_thorough:
            typer.echo("Enter takes what stands in brackets; Ctrl-C leaves without writing anything.")

    def required(self, question: str, *, name: str, default: str | None = None) -> str:
        """An answer without which there is no contract; `name` is how the command line spells it."""
        if not self._is_possible:
            raise CONTRACT_NEW_MISSING_ANSWER.error(f"expected {name}, found none, and nobody to ask")
        return str(typer.prompt(question, default=default)).strip()

    def optional(self, question: str, *, otherwise: str) -> str | None:
        """An answer that may be left out; `otherwise` says what happens then."""
        if not self._is_thorough:
            return None
        answer = typer.prompt(f"{question} [{otherwise}]", default="", show_default=False)
        return str(answer).strip() or None

    def choice(self, question: str, choices: Sequence[C], *, otherwise: str) -> C | None:
        """One of the choices, or None; anything else is asked again."""
        if not self._is_thorough:
            return None

        def parse(answer: str) -> C | None:
            word = answer.strip().lower()
            found = next((choice for choice in choices if choice == word), None)
            if word and found is None:
                raise typer.BadParameter(f"expected one of {', '.join(choices)}")
            return found

        asked = f"{question} ({', '.join(choices)}) [{otherwise}]"
        answer: C | None = typer.prompt(asked, default="", show_default=False, value_proc=parse)
        return answer
