"""The nouns of the command line, each with its verbs; loaded when called, since a command has one."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

NOUNS: Final = ("contract", "run", "agent", "retrieval", "trace", "sandbox", "cache", "error")
"""In the order of the help."""


def load_noun(name: str) -> typer.Typer:
    """The branch of the command tree that a noun names."""
    app: typer.Typer = importlib.import_module(f"repotrial.cli._{name}").app  # noqa: TID251 - of this room
    return app
