"""Agents on this machine: found, or installed once, before any run and apart from it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.agents._load import LoadedAdapter
from repotrial.agents._model import HostRecipe, NpmRecipe, PypiRecipe, Recipe
from repotrial.contract import Environment
from repotrial.environment import (
    HostTool,
    HostToolchain,
    InstallationSettings,
    NpmPrograms,
    ProgramSource,
    PypiPrograms,
    Store,
    StoreKind,
    StoreRecord,
    list_store,
    load_index_settings,
    observe_host,
    open_program_tree,
    verify_host,
)

AGENT_PROGRAM_MISSING = ErrorCode(
    "agent-program-missing",
    MachineError,
    "An agent was installed, and its program is not where the adapter says: not for this kind of machine.",
    hint="name the program of this machine's platform in `install.program` of the adapter",
)


class InstalledTree(msgspec.Struct, frozen=True, kw_only=True):
    """What was installed for an agent."""

    path: Path
    """The tree, read-only."""
    key: Digest
    """Digest of the recipe with the tools that followed it."""
    tree_digest: Digest
    """Of what is in it."""
    size_bytes: int
    runtime: HostTool | None
    """What starts the program; null for an executable of its own."""


class InstalledAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that can be started."""

    name: str
    version: str
    program: str
    """Relative to the tree; absolute, or a name, for a program of the environment."""
    tree: InstalledTree | None
    """Null for a program of the environment."""


def install_agent(loaded: LoadedAdapter, settings: InstallationSettings) -> InstalledAgent:
    """Find an agent in the cache, or install it there; of several that ask at once, one installs it.

    Args:
        loaded: The agent.
        settings: The machine and its operator.

    Raises:
        HOST_TOOLS_UNMET: there is no Node.js or Python that fits.
        PACKAGE_BUILDER_MISSING: there is no npm, or Python cannot make environments.
        PACKAGE_INDEX_UNREACHABLE: no index could be reached.
        PACKAGE_VERSION_MISSING: the index does not have the version.
        PACKAGE_PLATFORM: a package is not for this machine.
        PACKAGE_BUILD_FAILED: the installation failed for another reason.
        AGENT_PROGRAM_MISSING: the program is not in what was installed.
        STORE_TAMPERED: what is in the cache was changed.
    """
    if isinstance(loaded.adapter.install, HostRecipe):
        return _build_host(loaded, loaded.adapter.install)
    store = Store(settings.cache / "store")
    runtime = find_runtime(loaded, settings)
    index = load_index_settings(settings.variables, home=settings.home)
    found = open_program_tree(build_source(loaded, runtime, store), store=store, settings=index)
    return _build_installed(loaded, runtime, found.path, found.entry.record)


def find_installed(loaded: LoadedAdapter, settings: InstallationSettings) -> InstalledAgent | None:
    """An agent that is in the cache, by its record: the tree is not verified; None if there is none.

    Raises:
        HOST_TOOLS_UNMET: there is no Node.js or Python that fits.
        PACKAGE_BUILDER_MISSING: there is no npm.
    """
    if isinstance(loaded.adapter.install, HostRecipe):
        return _build_host(loaded, loaded.adapter.install)
    store = Store(settings.cache / "store")
    runtime = find_runtime(loaded, settings)
    key = build_source(loaded, runtime, store).key
    for record in list_store(store, kinds=(StoreKind.AGENT,)):
        if isinstance(record, StoreRecord) and record.key == key:
            return _build_installed(loaded, runtime, store.locate(StoreKind.AGENT, key), record)
    return None


@contextmanager
def hold_agent(installed: InstalledAgent, settings: InstallationSettings) -> Iterator[None]:
    """Keep an agent from being pruned for as long as the block lasts."""
    if installed.tree is None:
        yield
        return
    with Store(settings.cache / "store").hold(StoreKind.AGENT, installed.tree.key):
        yield


@contextmanager
def open_agent(
    loaded: LoadedAdapter,
    settings: InstallationSettings,
    on_install: Callable[[str], None] | None = None,
) -> Iterator[InstalledAgent]:
    """Find or install an agent, and keep it from being pruned for as long as the block lasts.

    Args:
        loaded: The agent.
        settings: The machine and its operator.
        on_install: Told its name before it is installed; not where it is there already.

    Raises: as `install_agent` does.
    """
    if on_install is not None and find_installed(loaded, settings) is None:
        on_install(loaded.adapter.name)
    while True:
        installed = install_agent(loaded, settings)
        with hold_agent(installed, settings):
            # Between the two it may have been pruned: then it is made again.
            if installed.tree is None or installed.tree.path.is_dir():
                yield installed
                return


def find_runtime(loaded: LoadedAdapter, settings: InstallationSettings) -> HostTool:
    """The Node.js or Python that an agent is installed with.

    Raises:
        HOST_TOOLS_UNMET: there is none that fits.
    """
    (name, constraint), *_ = _list_tools(loaded.adapter.install).items()
    for preferred in _iter_locked(loaded):
        toolchain = _observe(name, f"{constraint},{preferred}", settings)
        if toolchain.tools:
            return toolchain.tools[name]
    toolchain = _observe(name, constraint, settings)
    verify_host(toolchain)
    return toolchain.tools[name]


def _observe(name: str, constraint: str, settings: InstallationSettings) -> HostToolchain:
    return _observe_once(name, constraint, settings.variables.get("PATH", ""), settings.home)


@lru_cache(maxsize=64)
def _observe_once(name: str, constraint: str, search_path: str, home: Path) -> HostToolchain:
    """Tools do not change while a command runs, and asking them takes long."""
    return observe_host(
        Environment(image="host", tools={name: constraint}), search_path=search_path, home=home
    )


def _list_tools(recipe: Recipe) -> dict[str, str]:
    match recipe:
        case NpmRecipe(node=constraint):
            return {"node": constraint}
        case PypiRecipe(python=constraint):
            return {"python": constraint}
        case HostRecipe():
            raise AssertionError("a program of the environment is not installed")


def _iter_locked(loaded: LoadedAdapter) -> Iterator[str]:
    """Constraints for interpreters that there is a lock for."""
    here = _name_platform("")
    for key in sorted(loaded.locks, reverse=True):
        if key.startswith(here) and (tag := key.removeprefix(here)):
            major, minor = int(tag[0]), int(tag[1:])
            yield f">={major}.{minor},<{major}.{minor + 1}"


def build_source(loaded: LoadedAdapter, runtime: HostTool, store: Store) -> ProgramSource:
    """What an agent's tree is made from."""
    match loaded.adapter.install:
        case NpmRecipe() as recipe:
            return NpmPrograms(
                recipe.packages, node=runtime, lock=loaded.locks.get("any"), has_scripts=recipe.scripts
            )
        case PypiRecipe() as recipe:
            return PypiPrograms(
                recipe.requirements,
                interpreter=runtime,
                store=store,
                lock=loaded.locks.get(_name_platform(runtime.version)),
                is_closed=not recipe.left_out,
            )
        case HostRecipe():
            raise AssertionError("a program of the environment is not installed")


def _name_platform(version: str) -> str:
    """As adapters name it: `linux-x86_64-cp312`."""
    tag = "".join(version.split(".")[:2])
    return f"{platform.system().lower()}-{platform.machine()}-cp{tag}"


def _build_host(loaded: LoadedAdapter, recipe: HostRecipe) -> InstalledAgent:
    return InstalledAgent(
        name=loaded.adapter.name, version=recipe.version, program=recipe.program[0], tree=None
    )


def _build_installed(
    loaded: LoadedAdapter, runtime: HostTool, path: Path, record: StoreRecord
) -> InstalledAgent:
    recipe = loaded.adapter.install
    for program in recipe.program:
        if (path / program).is_file():
            break
    else:
        raise AGENT_PROGRAM_MISSING.error(
            f"{loaded.adapter.name}: expected one of {', '.join(recipe.program)} on {platform.machine()}, "
            "found none of them in what was installed"
        )
    is_standalone = isinstance(recipe, NpmRecipe) and not recipe.has_node
    return InstalledAgent(
        name=loaded.adapter.name,
        version=loaded.version,
        program=program,
        tree=InstalledTree(
            path=path,
            key=record.key,
            tree_digest=record.tree_digest,
            size_bytes=record.size_bytes,
            runtime=None if is_standalone else runtime,
        ),
    )
