"""The nouns of the command line, each with its verbs; loaded when one is called, since nobody calls two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.cli._agent import app as agent
    from repotrial.cli._cache import app as cache
    from repotrial.cli._contract import app as contract
    from repotrial.cli._error import app as error
    from repotrial.cli._retrieval import app as retrieval
    from repotrial.cli._run import app as run
    from repotrial.cli._sandbox import app as sandbox
    from repotrial.cli._trace import app as trace
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = ["NOUNS", "agent", "cache", "contract", "error", "retrieval", "run", "sandbox", "trace"]

NOUNS: Final = ("contract", "run", "agent", "retrieval", "trace", "sandbox", "cache", "error")
"""In the order of the help."""
