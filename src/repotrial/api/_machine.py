"""Verbs on the machine: what it can do, what it keeps, and a look around in a contract's environment."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec

from repotrial._core.errors import UsageError
from repotrial.api._contracts import load_contract
from repotrial.contract import LoadedContract
from repotrial.sandbox import (
    BaseCache,
    BaseRequest,
    Bind,
    CacheEntry,
    CommandResult,
    CommandSpec,
    DoctorReport,
    HostRoot,
    HostToolchain,
    Level,
    OverlayWorkspace,
    SandboxSpec,
    Store,
    execute_doctor,
    find_identity,
    load_index_settings,
    observe_host,
    open_python_environment,
    open_sandbox,
    verify_host,
)

__all__ = [
    "CacheEntry",
    "CommandResult",
    "DoctorReport",
    "EnvironmentNotSupportedError",
    "MachineSettings",
    "execute_in_contract",
    "list_cache",
    "prune_cache",
    "run_doctor",
]


_LINKS_TARGET = "/opt/repotrial/links"


class EnvironmentNotSupportedError(UsageError):
    """The contract asks for a kind of environment that `sandbox exec` cannot set up."""

    code = "environment-not-supported"
    default_hint = 'use a contract with `image = "host"`'


class MachineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may know about the machine and its operator; never hashed."""

    cache: Path
    """Where prepared trees and environments are kept; the sandbox's user must be able to reach it."""
    home: Path
    """The operator's home, for the configuration of package managers."""
    variables: Mapping[str, str]
    """The operator's environment, for the same; programs in a sandbox never see it."""


def run_doctor() -> DoctorReport:
    """Find out, by trying, what this machine can do."""
    return execute_doctor()


def list_cache(cache: Path) -> list[CacheEntry]:
    """The prepared workspaces that are kept."""
    return BaseCache(cache / "bases").list_entries() if (cache / "bases").is_dir() else []


def prune_cache(cache: Path, *, unused_seconds: int, max_bytes: int | None) -> list[CacheEntry]:
    """Remove prepared workspaces that nobody uses; what was removed."""
    if not (cache / "bases").is_dir():
        return []
    return BaseCache(cache / "bases").prune(unused_seconds=unused_seconds, max_bytes=max_bytes)


def execute_in_contract(
    directory: Path, argv: tuple[str, ...], *, machine: MachineSettings, timeout_seconds: int | None
) -> CommandResult:
    """Run one command where the contract's checks would run: its snapshot, its tools, no network.

    Changes are thrown away. The snapshot is as the agent gets it; oracle files are not laid over it.
    """
    loaded = load_contract(directory)
    _verify_supported(loaded)
    toolchain = observe_host(loaded.contract.environment)
    verify_host(toolchain)
    cache = machine.cache
    # The workspace must belong to whoever works in it: for root that is not root.
    bases = BaseCache(cache / "bases", owner=find_identity())
    with ExitStack() as stack:
        base = stack.enter_context(bases.prepare_base(BaseRequest.from_contract(loaded)))
        workspace = stack.enter_context(OverlayWorkspace(base, cache / "workspaces"))
        packages = _find_python_packages(loaded, toolchain, machine, stack)
        links = _make_links(toolchain.links, cache, stack)
        directories = [*(f"{bind.target}/bin" for bind in packages), *(bind.target for bind in links)]
        spec = SandboxSpec(
            workspace=workspace.path,
            overlay=workspace.mount,
            root=HostRoot(tool_roots=toolchain.tool_roots),
            binds=(*packages, *links),
            variables={
                "PATH": ":".join([*directories, toolchain.search_path]),
                "HOME": "/tmp",  # noqa: S108 - the sandbox's own
                **loaded.contract.environment.variables,
            },
            allowed_system_calls=loaded.contract.environment.system_calls,
        )
        sandbox = stack.enter_context(open_sandbox(spec, level=Level.L3))
        return sandbox.run(CommandSpec(argv=argv, timeout_seconds=timeout_seconds))


def _verify_supported(loaded: LoadedContract) -> None:
    """Refuse what would be left out in silence: an author would see another place than the checks do."""
    environment = loaded.contract.environment
    declared = {
        "setup": loaded.contract.setup,
        "environment.image": () if environment.image == "host" else (environment.image,),
        "environment.node": () if environment.node is None else (environment.node,),
        **{
            f"environment.{name}": getattr(environment, name)
            for name in ("secrets", "files", "absent_files", "artifacts", "mounts", "services")
        },
    }
    found = [name for name, value in declared.items() if value]
    if found:
        raise EnvironmentNotSupportedError(
            f"{loaded.directory}: expected host tools and a Python lock at most, found {', '.join(found)}"
        )


def _find_python_packages(
    loaded: LoadedContract, toolchain: HostToolchain, machine: MachineSettings, stack: ExitStack
) -> tuple[Bind, ...]:
    environment = loaded.contract.environment.python
    if environment is None:
        return ()
    store = Store(machine.cache / "store")
    packages = open_python_environment(
        environment,
        base=loaded.directory,
        interpreter=toolchain.tools["python"],
        store=store,
        settings=load_index_settings(machine.variables, home=machine.home),
    )
    stack.enter_context(store.hold(packages.entry.record.kind, packages.entry.record.key))
    return (packages.bind,)


def _make_links(links: Mapping[str, Path], cache: Path, stack: ExitStack) -> tuple[Bind, ...]:
    """A directory with the names that commands use and `PATH` does not lead to."""
    if not links:
        return ()
    (cache / "links").mkdir(parents=True, exist_ok=True)
    home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=cache / "links")))
    home.chmod(0o755)
    for name, target in links.items():
        (home / name).symlink_to(target)
    return (Bind(source=home, target=_LINKS_TARGET),)
