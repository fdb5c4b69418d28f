"""Agents: what they are, as data.

An agent is told apart by what it is, exactly: `version` and `adapter_digest` of its configuration change with
the bytes of the script or the patch that it brings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias, assert_never

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.agents import LoadedAdapter
from repotrial.contract import AgentSpec, ParameterValue

_MAX_AGENT_BYTES = 64 * 1024**2

AgentName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$(?!\n)", max_length=60)]
AgentVersion = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


AGENT_FILE = ErrorCode(
    "agent-file",
    UsageError,
    "A file that an agent is made of cannot be read, or is too large.",
    hint="name a readable file of at most 64 MiB",
)


class _Agent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    name: AgentName
    """How reports call it."""
    briefing: str | None = None
    """What it is told after the task, beside what the contract says; the same text is the same agent."""


class NoopAgent(_Agent, frozen=True, kw_only=True, tag="noop"):
    """Does nothing: the baseline that every contract must fail (B8)."""

    name: AgentName = "noop"


class ReferenceAgent(_Agent, frozen=True, kw_only=True, tag="reference"):
    """Hands in the contract's reference change."""

    name: AgentName = "reference"


class PatchAgent(_Agent, frozen=True, kw_only=True, tag="patch"):
    """Hands in a patch that was made elsewhere."""

    name: AgentName = "patch"
    patch: bytes
    """The patch, as git reads it."""
    version: AgentVersion | None = None
    """Of its maker: equal for all patches of one set, so that they count as one agent's."""


class ScriptAgent(_Agent, frozen=True, kw_only=True, tag="script"):
    """A shell script that works in the sandbox."""

    name: AgentName = "script"
    script: bytes
    """Its text; it is shown inside as a file that cannot be changed."""
    version: AgentVersion | None = None
    """Of the set that it belongs to: equal for all scripts of one set, so that they count as one agent's."""


class CommandAgent(_Agent, frozen=True, kw_only=True, tag="command"):
    """Any program that the environment has."""

    name: AgentName = "command"
    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """The program and its arguments; the briefing is on standard input's place, in `$REPOTRIAL_BRIEFING`."""


class HumanAgent(_Agent, frozen=True, kw_only=True, tag="human"):
    """A person who works in the workspace, by the clock (B8)."""

    name: AgentName = "human"


class ModelAgent(_Agent, frozen=True, kw_only=True, tag="model"):
    """A program that asks a model, by way of the gateway."""

    adapter: LoadedAdapter
    """How to get it and to start it."""
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """The model that it is told to ask for."""
    parameters: dict[str, ParameterValue] = {}
    """What else decides how it works: bounds that it is told, and the like."""


Agent: TypeAlias = (
    NoopAgent | ReferenceAgent | PatchAgent | ScriptAgent | CommandAgent | HumanAgent | ModelAgent
)
"""Who can be put on trial."""


def build_agent_configuration(agent: Agent, *, reference_digest: Digest | None) -> AgentSpec:
    """The agent as a run specification names it."""
    content = _describe_content(agent, reference_digest)
    digest = canonical_digest(["repotrial/agent@1", agent.__struct_config__.tag, agent.name, content])
    asked = agent if isinstance(agent, ModelAgent) else None
    return AgentSpec(
        name=agent.name,
        version=_find_version(agent) or short_version(digest),
        model=None if asked is None else asked.model,
        parameters={} if asked is None else asked.parameters,
        prompts_digest=None if agent.briefing is None else digest_bytes(agent.briefing.encode()),
        adapter_digest=digest,
    )


def short_version(digest: Digest) -> str:
    """A digest as the version of an agent that is nothing but its bytes."""
    return digest.removeprefix("sha256:")[:12]


def _find_version(agent: Agent) -> str | None:
    """What reports tell agents apart by, where that is not what they bring to one contract."""
    match agent:
        case ReferenceAgent():
            return "1"
        case PatchAgent(version=version) | ScriptAgent(version=version):
            return version
        case ModelAgent(adapter=adapter):
            return adapter.version
        case _:
            return None


def _describe_content(agent: Agent, reference_digest: Digest | None) -> str:
    match agent:
        case NoopAgent() | HumanAgent():
            return ""
        case ReferenceAgent():
            return reference_digest or ""
        case PatchAgent(patch=content) | ScriptAgent(script=content):
            return digest_bytes(content)
        case CommandAgent(argv=argv):
            return canonical_digest(list(argv))
        case ModelAgent(adapter=adapter):
            return adapter.digest
        case _:
            assert_never(agent)


def load_agent_file(path: Path) -> bytes:
    """The bytes of a script or a patch.

    Raises:
        AGENT_FILE: it cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_AGENT_BYTES + 1)
    except OSError as error:
        raise AGENT_FILE.error(f"{path}: expected a file, found: {error.strerror or error}") from error
    if len(data) > _MAX_AGENT_BYTES:
        raise AGENT_FILE.error(f"{path}: expected at most {_MAX_AGENT_BYTES} bytes, found more")
    return data
