"""Cheats: changes that satisfy nothing and try to be taken for success."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from repotrial.run import Agent

CheatVariant: TypeAlias = Literal["open", "module"]
"""`open`: works wherever it can reach; `module`: lives in an allowed module of the product alone, and was
written by somebody who knows how acceptance works."""


class Cheat(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to be accepted without doing the work, made from what an agent can see."""

    name: str
    """Kebab-case; the same trick has the same name in every ecosystem."""
    variant: CheatVariant
    """Where it lives."""
    patch: bytes = b""
    """The change that it hands in."""
    script: bytes | None = None
    """What it does in the workspace instead, where a change alone would not do."""

    @property
    def agent(self) -> Agent:
        """The cheat as somebody who can be put on trial."""
        from repotrial.run import PatchAgent, ScriptAgent  # who only reads a certificate needs no machine

        name = f"cheat-{self.name}-{self.variant}"
        if self.script is not None:
            return ScriptAgent(name=name, script=self.script)
        return PatchAgent(name=name, patch=self.patch)


class NotApplicable(msgspec.Struct, frozen=True, kw_only=True):
    """A cheat that makes no sense for a contract."""

    name: str
    """Of the cheat."""
    variant: CheatVariant
    """Of the cheat."""
    reason: str
    """Why."""


def load_payload(*path: str) -> str:
    """The text of a cheat; it is data, and nothing here executes it."""
    return resources.files(__package__).joinpath("payloads", *path).read_text("utf-8")
