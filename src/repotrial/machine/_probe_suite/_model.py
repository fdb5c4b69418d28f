"""Attempts to get out of a sandbox, and what came of them."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from repotrial._core.words import Level
from repotrial.isolation import Layer

Evidence: TypeAlias = Literal["kernel", "connection", "datagram", "planted-file", "owner"]
"""How a success shows: in what the kernel said to a program of ours, which has no reason to lie (`kernel`);
for the others outside as well: something arrives at a listener, a file appears, a file belongs to root."""

Verdict: TypeAlias = Literal["held", "escaped", "broken", "not-promised"]
"""`broken`: the attempt could not be made, so nothing is known; `not-promised`: it succeeded, and the level
never said that it would not."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Something that must not work inside."""

    name: str
    layer: Layer
    program: str
    """The body of a Python function: it reaches its end only by success, unless it leaves an error's name in
    `result`."""
    evidence: Evidence = "kernel"
    refusals: frozenset[str] = frozenset()
    """The errors with which the kernel may refuse it; empty for any."""
    recorded: str | None = None
    """The system call that the supervisor must have on record."""

    @property
    def tries(self) -> str:
        """What it tries, in words."""
        return self.name.replace("-", " ")


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one attempt."""

    name: str
    tries: str
    """What it tried, in words."""
    layer: Layer
    expected: Literal["stopped", "not-promised"]
    """What the isolation level promises."""
    found: str
    """What the kernel said, or what was seen outside."""
    verdict: Verdict


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `repotrial sandbox probe`."""

    level: Level
    harness_uid: int
    """Who started the sandbox."""
    sandbox_uid: int
    """Who programs inside are on the host."""
    results: tuple[AttemptResult, ...]

    @property
    def has_held(self) -> bool:
        """Whether everything that was promised was kept, and was tried."""
        return all(result.verdict in {"held", "not-promised"} for result in self.results)
