"""Everything that surrounds a contract's tree, and sandboxes opened with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.words import SandboxPhase, Stage
from repotrial.contract import Environment, Limits, LoadedContract
from repotrial.environment._installation._artifacts import build_artifact_bind, open_artifact
from repotrial.environment._installation._image_packages import ProgramSources
from repotrial.environment._installation._mounts import build_host_bind, build_scratch, verify_targets
from repotrial.environment._installation._place import ScratchPlace, read_pinned
from repotrial.environment._installation._programs import (
    InstallationFacts,
    InstalledPrograms,
    build_facts,
    hold_entry,
    open_programs,
)
from repotrial.environment._installation._sandbox import ContractSandbox
from repotrial.environment._installation._setup_network import SetupNetwork
from repotrial.environment._packages import load_index_settings
from repotrial.environment._store import Store
from repotrial.isolation import (
    Bind,
    Capabilities,
    OverlayMount,
    ResourceLimits,
    SandboxSpec,
    Scratch,
    open_sandbox,
)
from repotrial.syscalls import RecordSink

CONTROLLED_VARIABLES: Final = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "TZ": "UTC"}
"""Set unless the contract sets them (P8, P10): locale, time zone and the order of hashes."""

_DEFAULTS: Final = {
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    **CONTROLLED_VARIABLES,
}
"""The same on every machine, unless the contract says otherwise."""


SECRET_MISSING = ErrorCode(
    "secret-missing",
    UsageError,
    "The contract needs a secret, and the operator gave none of that name.",
    hint="give the secret by its name; the contract says what it is for",
)


def verify_secrets(environment: Environment, given: Mapping[str, str]) -> None:
    """See that every required secret is there, before anything runs.

    Raises:
        SECRET_MISSING: one is not.
    """
    missing = [item for item in environment.secrets if item.is_required and item.name not in given]
    if missing:
        named = "; ".join(f"{item.name} ({item.reason})" for item in missing)
        raise SECRET_MISSING.error(f"environment.secrets: expected a value for each, found none for {named}")


def build_variables(
    environment: Environment,
    *,
    phase: SandboxPhase,
    found: Mapping[str, str],
    secrets: Mapping[str, str],
    added: Mapping[str, str],
) -> dict[str, str]:
    """The whole environment of programs in one phase.

    Args:
        environment: As the contract declares it.
        phase: Decides which secrets are seen.
        found: What the place itself needs: the search path, and what an image says.
        secrets: All values that the operator gave, by name.
        added: What this one sandbox needs on top.
    """
    shown = {
        item.name: secrets[item.name]
        for item in environment.secrets
        if phase in item.phases and item.name in secrets
    }
    every = {**_DEFAULTS, **found, **environment.variables, **shown, **added}
    return {name: value for name, value in every.items() if name not in environment.absent}


_FORMAT: Final = "repotrial/environment@1"


class InstallationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an installation may know about the machine and its operator; never hashed."""

    cache: Path
    """Where prepared trees and environments are kept; the sandbox's user must be able to reach it."""
    home: Path
    """The operator's home, for tools that lie there and for the configuration of package managers."""
    variables: Mapping[str, str]
    """The operator's environment, for the same; programs in a sandbox never see it."""
    secrets: Mapping[str, str] = {}
    """Values of secrets, by the names that the contract declares; others are ignored."""
    network: SetupNetwork | None = None
    """Opens the network of steps of Setup that declare one; without it such contracts are refused."""


class SandboxRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one sandbox is to be, beyond what the contract says."""

    phase: SandboxPhase
    """What it is for; it decides about secrets and services."""
    stage: Stage = "write"
    """The stage to begin in."""
    binds: tuple[Bind, ...] = ()
    """What else is shown."""
    variables: Mapping[str, str] = {}
    """What else is set; never what the contract wants absent."""
    limits: ResourceLimits | None = None
    """Other ceilings than the contract's."""
    test_tools: tuple[str, ...] = ()
    """Programs that are masked until the test stage."""
    listener_port: int | None = None
    """A port inside that the harness serves."""
    has_services: bool = True
    """Whether the phase's services run."""


def build_resource_limits(limits: Limits, *, phase: SandboxPhase = "act") -> ResourceLimits:
    """A contract's limits as ceilings of a sandbox; the floor of each band is the machine's business.

    Processor time is counted against the agent only.
    """
    return ResourceLimits(
        memory_mb=max(16, limits.memory_mb.kill),
        processes=max(8, limits.processes),
        disk_mb=limits.disk_mb.kill,
        cpu_seconds=limits.cpu_seconds if phase == "act" else None,
    )


class ContractEnvironment:
    """A contract's environment without its tree; safe to use from several threads."""

    def __init__(
        self,
        loaded: LoadedContract,
        *,
        capabilities: Capabilities,
        programs: InstalledPrograms,
        binds: Sequence[Bind],
        secrets: Mapping[str, str],
        facts: InstallationFacts,
        environment_id: Digest,
    ) -> None:
        self.capabilities = capabilities
        self.facts = facts
        self.environment_id = environment_id
        self.binds = tuple(binds)
        self._contract = loaded.contract
        self._programs = programs
        self._secrets = secrets
        self._scratch, self._tmp_mb = build_scratch(loaded.contract.environment.mounts)

    def verify_targets(self, targets: Sequence[str]) -> None:
        """See that everything has a place where it can appear.

        Raises:
            TARGET_TAKEN: something has not.
        """
        services = [service.data for service in self._contract.environment.services if service.data]
        own = [bind.target for bind in self.binds]
        scratch = [mount.target for mount in self._scratch]
        verify_targets(self._programs.root, [*own, *scratch, *services, *targets])

    def build_variables(
        self, phase: SandboxPhase, added: Mapping[str, str], *, has_secrets: bool
    ) -> dict[str, str]:
        """What programs of a phase see."""
        return build_variables(
            self._contract.environment,
            phase=phase,
            found=self._programs.variables,
            secrets=self._secrets if has_secrets else {},
            added=added,
        )

    def open(
        self,
        workspace: Path,
        request: SandboxRequest,
        *,
        overlay: OverlayMount | None = None,
        sink: RecordSink | None = None,
    ) -> ContractSandbox:
        """A sandbox with the services of its phase running.

        Args:
            workspace: The tree.
            request: What it is to be.
            overlay: What to mount as the workspace instead.
            sink: Takes what the syscall supervisor sees once the services are ready.

        Raises:
            SERVICE_NOT_READY: a service does not become ready.
            SANDBOX_START: it could not be started.
        """
        environment = self._contract.environment
        services = [
            item for item in environment.services if request.has_services and request.phase in item.phases
        ]
        limits = request.limits or build_resource_limits(self._contract.limits, phase=request.phase)
        data = [
            Scratch(target=service.data, size_mb=self._contract.limits.disk_mb.kill)
            for service in services
            if service.data is not None
        ]
        spec = SandboxSpec(
            workspace=workspace,
            overlay=overlay,
            root=self._programs.root,
            stage=request.stage,
            binds=(*self.binds, *request.binds),
            scratch=(*self._scratch, *data),
            variables=self.build_variables(request.phase, request.variables, has_secrets=True),
            limits=limits if self._tmp_mb is None else msgspec.structs.replace(limits, tmp_mb=self._tmp_mb),
            test_tools=request.test_tools,
            allowed_system_calls=environment.system_calls,
            listener_port=request.listener_port,
        )
        level = self.capabilities.level
        return ContractSandbox(
            lambda inner_sink: open_sandbox(spec, level=level, sink=inner_sink), services=services, sink=sink
        )


def open_contract_environment(
    loaded: LoadedContract,
    settings: InstallationSettings,
    *,
    capabilities: Capabilities,
    place: ScratchPlace,
    stack: ExitStack,
) -> ContractEnvironment:
    """Find or make everything that the environment consists of."""
    environment = loaded.contract.environment
    store = Store(settings.cache / "store")
    index = load_index_settings(settings.variables, home=settings.home)
    sources = ProgramSources(
        store=store,
        index=index,
        search_path=settings.variables.get("PATH", ""),
        home=settings.home,
        memory=settings.cache / "tools",
        level=capabilities.level,
    )
    programs = open_programs(loaded, sources=sources, place=place, stack=stack)
    facts = build_facts(loaded, programs, index)
    binds = [*programs.binds]
    for artifact in environment.artifacts:
        entry = open_artifact(artifact, directory=loaded.directory, store=store, variables=index.transport)
        hold_entry(store, entry, stack)
        binds.append(build_artifact_bind(artifact, entry))
    for number, file in enumerate(environment.files):
        data = read_pinned(loaded, file.source)
        source = place.write(f"files/{number}", data, is_executable=file.is_executable)
        binds.append(Bind(source=source, target=file.target))
    private = (settings.home, settings.cache, loaded.directory)
    binds += [
        build_host_bind(mount, private=private)
        for mount in environment.mounts
        if mount.kind == "host-read-only"
    ]
    return ContractEnvironment(
        loaded,
        capabilities=capabilities,
        programs=programs,
        binds=binds,
        secrets=settings.secrets,
        facts=facts,
        environment_id=_build_id(loaded, programs, facts),
    )


def _build_id(loaded: LoadedContract, programs: InstalledPrograms, facts: InstallationFacts) -> Digest:
    """Equal where programs see the same, as far as digests reach; a directory of the host counts by name."""
    environment = loaded.contract.environment
    pins = {pin.path: pin.digest for pin in loaded.files}
    found: dict[str, JsonValue] = {
        "format": _FORMAT,
        "programs": msgspec.to_builtins(facts.environment),
        "python": None if programs.python is None else programs.python.tree_digest,
        "node": None if programs.node is None else programs.node.tree_digest,
        "artifacts": msgspec.to_builtins(environment.artifacts),
        "files": [[file.target, pins.get(file.source), file.is_executable] for file in environment.files],
        "mounts": msgspec.to_builtins(environment.mounts),
    }
    return canonical_digest(found)
