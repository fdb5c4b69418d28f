"""Verbs on agents that ask a model: which there are, whether they can run here, and getting them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from repotrial._core.errors import RepoTrialError, UsageError
from repotrial.agents import (
    ADAPTER_UNKNOWN,
    AgentCheck,
    InstalledAgent,
    LoadedAdapter,
    check_agent,
    find_adapter,
    find_installed,
    install_agent,
    list_adapters,
    load_adapter,
)
from repotrial.api._machine import MachineSettings
from repotrial.environment import InstallationSettings

_FILE = "agent:"


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as `agent list` shows it."""

    name: str
    """How commands call it."""
    title: str
    """How people call it."""
    version: str
    """What its recipe installs."""
    dialect: str
    """The wire format in which it asks its model."""
    model: str
    """The model's name, unless told otherwise."""
    license: str
    """Its terms."""
    is_installed: bool
    """Whether it is in the cache."""
    size_bytes: int | None
    """What it takes there; None if it is not installed."""
    problem: str
    """Why it cannot be installed, as far as that is seen without trying; empty if nothing is seen."""
    quirks: tuple[str, ...]
    """What to know about it."""
    source: str
    """`built in`, or the file that it was read from."""


def list_agents(machine: MachineSettings, *, adapters: Path | None = None) -> list[AgentEntry]:
    """All agents by name.

    Raises:
        ADAPTER_INVALID: an adapter of the user's own is not sound.
    """
    return [_describe(loaded, machine) for loaded in list_adapters(adapters or machine.find_adapters())]


def check_named_agent(name: str, machine: MachineSettings, *, adapters: Path | None = None) -> AgentCheck:
    """Find out, by trying, whether an agent can be installed and run on this machine.

    Raises:
        ADAPTER_UNKNOWN: there is none of that name.
        ADAPTER_INVALID: its adapter is not sound.
    """
    return check_agent(_load(name, adapters or machine.find_adapters()), _build_settings(machine))


def install_named_agent(
    name: str, machine: MachineSettings, *, adapters: Path | None = None
) -> InstalledAgent:
    """Install an agent, or find it installed.

    Raises:
        ADAPTER_UNKNOWN: there is none of that name.
        ADAPTER_INVALID: its adapter is not sound.
        MachineError: it cannot be installed here; the class says why.
    """
    return install_agent(_load(name, adapters or machine.find_adapters()), _build_settings(machine))


def verify_agent_names(
    names: Iterable[str], machine: MachineSettings, *, adapters: Path | None = None
) -> None:
    """Refuse names that no agent has, before anything is installed.

    Raises:
        ADAPTER_UNKNOWN: there is none of that name.
        ADAPTER_INVALID: its adapter is not sound.
    """
    for name in names:
        _load(name, adapters or machine.find_adapters())


def _load(name: str, adapters: Path | None) -> LoadedAdapter:
    if name.startswith(_FILE):
        return load_adapter(Path(name.removeprefix(_FILE)))
    try:
        return find_adapter(name, adapters)
    except UsageError as error:
        if error.code != ADAPTER_UNKNOWN:
            raise
        known = [loaded.adapter.name for loaded in list_adapters(adapters)]
        near = difflib.get_close_matches(name, known, n=1)
        if not near:
            raise
        raise ADAPTER_UNKNOWN.error(error.message, hint=f"did you mean {near[0]}? {error.hint}") from error


def _build_settings(machine: MachineSettings) -> InstallationSettings:
    return InstallationSettings(cache=machine.cache, home=machine.home, variables=machine.variables)


def _describe(loaded: LoadedAdapter, machine: MachineSettings) -> AgentEntry:
    adapter, installed, problem = loaded.adapter, None, ""
    try:
        installed = find_installed(loaded, _build_settings(machine))
    except RepoTrialError as error:
        problem = error.message
    return AgentEntry(
        name=adapter.name,
        title=adapter.title,
        version=loaded.version,
        dialect=adapter.dialect,
        model=adapter.model,
        license=adapter.license,
        is_installed=installed is not None,
        size_bytes=None if installed is None or installed.tree is None else installed.tree.size_bytes,
        problem=problem,
        quirks=adapter.quirks,
        source=loaded.source,
    )
