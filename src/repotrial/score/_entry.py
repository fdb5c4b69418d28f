"""A run in a line: what lists, tables and summaries show of a score card, and what makes two agents one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.display import shorten_digests, shorten_version
from repotrial.score._document import Verdict
from repotrial.score._model_source import describe_answered_by

RunStatusWord: TypeAlias = Literal["success", "failure", "acceptance-error", "invalid"]


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run directory."""

    directory: str
    """Where it is."""
    run_id: str | None
    """The attempt; null where nothing says it, here and below."""
    contract: str | None
    """The contract's id."""
    contract_version_id: str | None
    """Its version."""
    agent: str | None
    """Who worked."""
    agent_version: str | None
    """Which of that name, exactly."""
    model: str | None
    """The model that it was to ask; null where none, or nobody knows."""
    replicate: int | None
    """Counted from 0."""
    status: RunStatusWord
    """The verdict (P4)."""
    gates: tuple[Verdict, ...]
    """G1 to G4."""
    score: str | None
    """s; null where some gate does not pass."""
    tags: tuple[str, ...]
    """Failure modes."""
    started_at_us: int | None
    """Microseconds since the epoch."""
    why: str | None
    """The first reason why it is no success, how it ended before all; null where it is one."""
    is_stopped: bool
    """Whether the operator stopped it before it was judged."""
    upstream: str | None
    """Who answered for the model, as the run recorded it: a provider, a script or a recording; None if no
    model was to be asked."""
    is_unanswered: bool
    """Whether the agent asks a model and none ever answered: a wrong key looks like a helpless agent."""

    @property
    def answered_by(self) -> str:
        """The model source, and what that makes of the cost; a dash if no model was asked."""
        return describe_answered_by(self.upstream)

    @property
    def contract_label(self) -> str:
        """The contract with its version, as `RunFilter` takes it."""
        return f"{self.contract or '?'}@{shorten_version(self.contract_version_id or '?')}"


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are wanted; patterns as the shell has them, none for all."""

    agent: str | None = None
    """A name, or one with its version behind `@`, as `label_agents` has it."""
    contract: str | None = None
    """An id; with `@` behind it, only versions that begin so."""
    status: RunStatusWord | None = None
    tag: str | None = None

    def admits(self, entry: RunEntry) -> bool:
        """Whether a run is wanted."""
        return (
            (self.agent is None or any(fnmatchcase(name, self.agent) for name in _list_names(entry)))
            and self.admits_contract(entry)
            and self.status in (None, entry.status)
            and (self.tag is None or any(fnmatchcase(tag, self.tag) for tag in entry.tags))
        )

    def admits_contract(self, entry: RunEntry) -> bool:
        """Whether a run is on a contract that is wanted."""
        if self.contract is None:
            return True
        name, _, version = self.contract.partition("@")  # no id has one
        found = (entry.contract_version_id or "").removeprefix("sha256:")
        return fnmatchcase(entry.contract or "", name) and found.startswith(version.removeprefix("sha256:"))


def identify_agent(entry: RunEntry) -> tuple[str, str]:
    """Name and version; another model, and who answered for it, make another agent of it."""
    parts = (entry.agent_version, entry.model, entry.upstream)
    return entry.agent or "(unknown)", "/".join(part for part in parts if part is not None)


def label_agents(entries: Sequence[RunEntry]) -> list[str]:
    """For each run its agent; with the version behind `@` where several go by one name."""
    return label_versions([identify_agent(entry) for entry in entries])


def label_versions(agents: Sequence[tuple[str, str]]) -> list[str]:
    """Names; with the version behind `@` where several go by one name."""
    names = Counter(name for name, _ in set(agents))
    return [name if names[name] == 1 else f"{name}@{version}" for name, version in agents]


def _list_names(entry: RunEntry) -> tuple[str, ...]:
    """All that an agent is called in lists and summaries."""
    whole = "@".join(identify_agent(entry))
    return entry.agent or "", whole, shorten_digests(whole)
