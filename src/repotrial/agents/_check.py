"""Whether an agent can be installed and run on this machine, and what to do where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from repotrial._core.display import neutralize
from repotrial._core.errors import MachineError, RepoTrialError
from repotrial._core.words import Level
from repotrial.agents._install import InstalledAgent, build_source, find_installed, find_runtime
from repotrial.agents._launch import LaunchOrder, build_launch, fill_home, make_directory
from repotrial.agents._load import LoadedAdapter
from repotrial.agents._model import HostRecipe
from repotrial.environment import InstallationSettings, ScratchPlace, Store, load_index_settings
from repotrial.isolation import (
    Account,
    Capabilities,
    CommandResult,
    CommandSpec,
    SandboxSpec,
    find_identity,
    open_sandbox,
    probe_machine,
)
from repotrial.trace import Exited

_INDEX_SECONDS: Final = 120
_PROBE_SECONDS: Final = 120
"""Where the harness can serve a port inside."""
_SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class CheckedNeed(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an agent needs."""

    need: Literal["sandbox", "runtime", "installed", "index", "start"]
    """What it is."""
    is_met: bool
    """Whether it is there."""
    found: str
    """What is there, or what went wrong."""
    remedy: str = ""
    """What to do."""


class AgentCheck(msgspec.Struct, frozen=True, kw_only=True):
    """An agent on this machine."""

    name: str
    """The adapter's name."""
    version: str
    """What its recipe installs."""
    is_installed: bool
    """Whether it is in the cache."""
    can_run: bool
    """Whether it can be used here, after an installation where that is still to be done."""
    needs: tuple[CheckedNeed, ...]
    """One after another; what comes after something that is missing is not looked for."""


def check_agent(loaded: LoadedAdapter, settings: InstallationSettings) -> AgentCheck:
    """Look at everything that an agent needs; where it is installed, start it in a sandbox."""
    needs = tuple(_iter_needs(loaded, settings))
    return AgentCheck(
        name=loaded.adapter.name,
        version=loaded.version,
        is_installed=any(need.need == "installed" and need.is_met for need in needs),
        can_run=all(need.is_met or need.need == "installed" for need in needs),
        needs=needs,
    )


def _iter_needs(loaded: LoadedAdapter, settings: InstallationSettings) -> Iterator[CheckedNeed]:
    level = next(_iter_levels(), None)
    yield _describe_level(level)
    if isinstance(loaded.adapter.install, HostRecipe):
        found = "a program of the environment: whether it is there, the contract's environment decides"
        yield CheckedNeed(need="installed", is_met=True, found=found)
        return
    try:
        runtime = find_runtime(loaded, settings)
        yield CheckedNeed(
            need="runtime", is_met=True, found=f"{runtime.name} {runtime.version} ({runtime.path})"
        )
        installed = find_installed(loaded, settings)
    except RepoTrialError as error:
        yield _describe_failure("runtime", error)
        return
    if installed is None:
        yield CheckedNeed(
            need="installed",
            is_met=False,
            found="not in the cache",
            remedy=f"repotrial agent install {loaded.adapter.name}",
        )
        yield _ask_index(loaded, settings)
        return
    size = 0 if installed.tree is None else installed.tree.size_bytes >> 20
    yield CheckedNeed(need="installed", is_met=True, found=f"{installed.version}, {size} MB")
    if level is not None:
        yield _start(loaded, installed, settings, level)


def _iter_levels() -> Iterator[Level]:
    """Those with a network namespace, in which the gateway can listen; strongest first."""
    for found in probe_machine():
        if isinstance(found, Capabilities) and found.network == "namespace":
            yield found.level


def _describe_level(level: Level | None) -> CheckedNeed:
    if level is not None:
        return CheckedNeed(need="sandbox", is_met=True, found=level.value)
    return CheckedNeed(
        need="sandbox",
        is_met=False,
        found="no level with a network namespace of its own, in which the gateway could listen",
        remedy="`repotrial doctor` says how to get level L3",
    )


def _ask_index(loaded: LoadedAdapter, settings: InstallationSettings) -> CheckedNeed:
    try:
        source = build_source(loaded, find_runtime(loaded, settings), Store(settings.cache / "store"))
        index = load_index_settings(settings.variables, home=settings.home)
        source.ask_index(settings=index, seconds=_INDEX_SECONDS)
    except RepoTrialError as error:
        return _describe_failure("index", error)
    return CheckedNeed(need="index", is_met=True, found=f"{loaded.version} is there")


def _start(
    loaded: LoadedAdapter, installed: InstalledAgent, settings: InstallationSettings, level: Level
) -> CheckedNeed:
    try:
        result = _execute_probe(loaded, installed, settings, level)
    except MachineError as error:
        return _describe_failure("start", error)
    said = (result.stdout.prefix + result.stderr.prefix).decode(errors="replace")
    lines = [line.strip() for line in said.splitlines() if any(map(str.isalnum, line))] or ["nothing printed"]
    if result.exit == Exited(code=0) and result.cause == "ended":
        return CheckedNeed(need="start", is_met=True, found=neutralize(lines[0], max_characters=200))
    return CheckedNeed(
        need="start",
        is_met=False,
        found=f"{result.exit}: {neutralize(lines[-1], max_characters=200)}",
        remedy="`repotrial cache prune` and install it again; see whether this machine's libraries fit it",
    )


def _execute_probe(
    loaded: LoadedAdapter, installed: InstalledAgent, settings: InstallationSettings, level: Level
) -> CommandResult:
    order = LaunchOrder(
        url="http://127.0.0.1:1",
        key="none",
        model=loaded.adapter.model,
        task="",
        search_path=_SYSTEM_PATH,
    )
    launch = build_launch(loaded.adapter, installed, order)
    owner: Account = find_identity()
    with ScratchPlace(settings.cache / "workspaces", owner=owner) as place:
        home = fill_home(place.path, launch.files, owner=owner)
        workspace = place.path / "workspace"
        make_directory(workspace, owner)
        spec = SandboxSpec(
            workspace=workspace,
            binds=(*launch.binds, home),
            variables={"PATH": _SYSTEM_PATH, "LANG": "C.UTF-8", **launch.variables},
        )
        with open_sandbox(spec, level=level) as sandbox:
            return sandbox.run(CommandSpec(argv=launch.probe, timeout_seconds=_PROBE_SECONDS))


def _describe_failure(need: Literal["runtime", "index", "start"], error: RepoTrialError) -> CheckedNeed:
    return CheckedNeed(need=need, is_met=False, found=error.message, remedy=error.hint)
