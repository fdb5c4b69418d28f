"""What an export is: files for another tool, and a list of what its format has no place for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from repotrial.score import JudgedRun

ExportFormat: TypeAlias = Literal["atif", "in-toto", "inspect", "jsonl", "junit", "swebench"]


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Something of a run that the other format does not hold."""

    what: str
    """What is missing from the file."""
    count: int | None = None
    """How many of them; None where that cannot be counted."""
    why: str
    """What the format has instead, or why there is nothing."""

    @property
    def words(self) -> str:
        """In one line."""
        number = "" if self.count is None else f"{self.count} "
        return f"{number}{self.what}: {self.why}"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """One file of an export."""

    name: str
    """How it is called where an export is several files."""
    data: bytes
    runs: int
    """How many runs are in it."""
    losses: tuple[Loss, ...]
    """The same list stands in the file."""


def list_words(losses: Iterable[Loss]) -> list[str]:
    """Each loss in one line."""
    return [loss.words for loss in losses]


def group_by_agent(runs: Sequence[JudgedRun], labels: Sequence[str]) -> Mapping[str, list[JudgedRun]]:
    """Runs of each agent, by its label, in the order of the command."""
    groups: dict[str, list[JudgedRun]] = {}
    for run, label in zip(runs, labels, strict=True):
        groups.setdefault(label, []).append(run)
    return groups
