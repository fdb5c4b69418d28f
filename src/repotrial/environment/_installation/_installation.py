"""A contract made ready on this machine: opened once, used by every phase of every run."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from pathlib import Path, PurePosixPath

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.canonical import JsonValue
from repotrial._core.clock import SystemClock
from repotrial._core.closing import Closing
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.words import Level
from repotrial.contract import LoadedContract
from repotrial.environment._executions import HostExecution, build_execution, tell_execution, telling
from repotrial.environment._installation._contract_environment import (
    ContractEnvironment,
    InstallationSettings,
    SandboxRequest,
    open_contract_environment,
    verify_secrets,
)
from repotrial.environment._installation._level import choose_level
from repotrial.environment._installation._mounts import build_outputs
from repotrial.environment._installation._place import ScratchPlace
from repotrial.environment._installation._programs import InstallationFacts
from repotrial.environment._installation._sandbox import ContractSandbox
from repotrial.environment._installation._setup import ContractSetup, write_scripts
from repotrial.environment._installation._setup_network import (
    SetupAccess,
    find_setup_access,
    verify_setup_network,
)
from repotrial.environment._versions import PACKAGE_MANAGERS, build_question, find_lockfiles, parse_answers
from repotrial.isolation import WORKSPACE, Account, Capabilities, CommandSpec, find_identity
from repotrial.syscalls import RecordSink
from repotrial.trace import Exited, ImageEnvironment
from repotrial.workspace import (
    Base,
    BaseCache,
    BaseRequest,
    CopyWorkspace,
    OverlayWorkspace,
    SetupNetworkRecord,
    SetupPlace,
    Workspace,
    WorkspacePlace,
    reap_workspaces,
)

_LOOK = 'for path do if [ -e "$path" ] || [ -L "$path" ]; then printf "%s\\n" "$path"; fi; done'
_LOOK_SECONDS = 60


FILES_PRESENT = ErrorCode(
    "files-present",
    ContractError,
    "Files that must not exist in the sandbox do.",
    hint="take them out of the image or the tree, or out of `absent_files`",
)


class Installation(Closing):
    """Everything that a contract's runs need on this machine, held until it is closed.

    Several threads may use it; it is closed after their workspaces and sandboxes are.
    """

    def __init__(
        self,
        loaded: LoadedContract,
        *,
        base: Base,
        environment: ContractEnvironment,
        workspaces: WorkspacePlace,
        held: ExitStack,
        executions: list[HostExecution],
    ) -> None:
        self.loaded = loaded
        self.base = base
        self._environment = environment
        self._outputs = build_outputs(loaded.contract)
        self._workspaces = workspaces
        self._held = held
        self._executions = executions

    @property
    def executions(self) -> tuple[HostExecution, ...]:
        """Programs that made it ready, now or when something that it uses was made."""
        return tuple(self._executions)

    @property
    def level(self) -> Level:
        """How strong its sandboxes are."""
        return self._environment.capabilities.level

    @property
    def capabilities(self) -> Capabilities:
        """What its sandboxes can do."""
        return self._environment.capabilities

    @cached_property
    def facts(self) -> InstallationFacts:
        """For the manifest."""
        found = self._environment.facts
        if isinstance(found.environment, ImageEnvironment):
            versions = self._ask_image()
            found = msgspec.structs.replace(
                found,
                toolchain={name: found for name, found in versions.items() if name not in PACKAGE_MANAGERS},
                package_managers={
                    name: found for name, found in versions.items() if name in PACKAGE_MANAGERS
                },
            )
        locks = find_lockfiles(self.base.path)
        if isinstance(locks, Unknown) or isinstance(found.lockfiles, Unknown):
            return msgspec.structs.replace(found, lockfiles=locks)
        return msgspec.structs.replace(found, lockfiles=(*found.lockfiles, *locks))

    @property
    def setup_network(self) -> SetupNetworkRecord | None:
        """What Setup reached and made, now or when the base was made; None if it had no network.

        Raises:
            SETUP_RECORD_UNREADABLE: it cannot be read.
        """
        return self.base.network

    @property
    def environment_id(self) -> str:
        """Digest over everything but the tree."""
        return self._environment.environment_id

    @property
    def shown(self) -> tuple[Path, ...]:
        """What an agent sees beside the tree: packages, artifacts and files of the contract's environment."""
        return tuple(bind.source for bind in self._environment.binds)

    @property
    def search_path(self) -> str:
        """`PATH` of programs in its sandboxes, unless the caller sets another."""
        return self._environment.build_variables("act", {}, has_secrets=False).get("PATH", "")

    def open_workspace(self) -> Workspace:
        """A new tree to work in: an overlay where the level has them."""
        if self.capabilities.has_overlay:
            return OverlayWorkspace(self.base, self._workspaces)
        return CopyWorkspace(self.base, self._workspaces)

    def open_plain_workspace(self) -> CopyWorkspace:
        """A new tree that can be used without a sandbox."""
        return CopyWorkspace(self.base, self._workspaces)

    def open_scratch(self) -> ScratchPlace:
        """A directory of the harness's that sandboxes can be shown."""
        return ScratchPlace(self._workspaces, owner=self.base.owner)

    def open_sandbox(
        self, workspace: Workspace, request: SandboxRequest, *, sink: RecordSink | None = None
    ) -> ContractSandbox:
        """A sandbox on a workspace, with the phase's secrets and services.

        Args:
            workspace: One of this installation's.
            request: What it is to be.
            sink: Takes what the syscall supervisor sees once the services are ready.

        Raises:
            SERVICE_NOT_READY: a service does not become ready.
            SANDBOX_START: it could not be started.
        """
        outputs = self._outputs.build_binds(self.base.outputs, is_writable=False)
        return self._environment.open(
            workspace.path,
            msgspec.structs.replace(request, binds=(*outputs, *request.binds)),
            overlay=workspace.mount if isinstance(workspace, OverlayWorkspace) else None,
            sink=sink,
        )

    def verify_absent_files(self) -> None:
        """Look inside whether what must not exist does not.

        Raises:
            FILES_PRESENT: something does.
        """
        paths = self.loaded.contract.environment.absent_files
        if not paths:
            return
        command = CommandSpec(argv=("/bin/sh", "-c", _LOOK, "sh", *paths), timeout_seconds=_LOOK_SECONDS)
        with (
            self.open_workspace() as workspace,
            self.open_sandbox(workspace, SandboxRequest(phase="act", has_services=False)) as sandbox,
        ):
            started_us = SystemClock().now_us()
            result = sandbox.run(command)
        tell_execution(
            build_execution("control", "absent files", command.argv, result, started_us=started_us)
        )
        found = result.stdout.prefix.decode(errors="replace").split("\n")[:-1]
        if found or result.exit != Exited(code=0):
            raise FILES_PRESENT.error(
                f"environment.absent_files: expected none, found {', '.join(found) or result.exit}"
            )

    def _ask_image(self) -> dict[str, str | Unknown]:
        """Versions of the tools that an image has, said by themselves inside."""
        command = CommandSpec(argv=("bash", "-c", build_question()), timeout_seconds=_LOOK_SECONDS)
        with (
            self.open_workspace() as workspace,
            self.open_sandbox(workspace, SandboxRequest(phase="act", has_services=False)) as sandbox,
        ):
            result = sandbox.run(command)
        if result.exit != Exited(code=0):
            return {"bash": Unknown(reason=f"expected a shell that asks the tools, found {result.exit}")}
        return parse_answers(result.stdout.prefix.decode(errors="replace"))

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        self._held.close()


def open_installation(
    loaded: LoadedContract, settings: InstallationSettings, *, level: Level | None = None
) -> Installation:
    """Make a contract's environment ready: programs, packages, and the tree as Setup leaves it.

    Args:
        loaded: A locked contract.
        settings: What the machine and its operator bring.
        level: Exactly this isolation level; the strongest that this machine reaches unless told.

    Raises:
        CONTRACT_UNLOCKED: the contract has no lock.
        SECRET_MISSING: a required secret was not given.
        SETUP_NETWORK: a step of Setup wants the network, and there is none for it.
        ISOLATION_LEVEL: the machine cannot give what the contract needs.
        HOST_TOOLS_UNMET: tools are missing.
        SETUP_FAILED: a step of Setup fails.
        FILES_PRESENT: what must not exist does.
    """
    executions: list[HostExecution] = []
    with telling(executions.append):
        return _open(loaded, settings, level=level, executions=executions)


def _open(
    loaded: LoadedContract,
    settings: InstallationSettings,
    *,
    level: Level | None,
    executions: list[HostExecution],
) -> Installation:
    verify_secrets(loaded.contract.environment, settings.secrets)
    request = BaseRequest.from_contract(loaded)
    capabilities = choose_level(loaded.contract, level)
    verify_setup_network(loaded.contract.setup, settings.network, capabilities)
    workspaces = settings.cache / "workspaces"
    reap_workspaces(workspaces)
    identity = find_identity()
    with ExitStack() as stack:
        place = stack.enter_context(ScratchPlace(workspaces, owner=None))
        environment = open_contract_environment(
            loaded, settings, capabilities=capabilities, place=place, stack=stack
        )
        access = find_setup_access(loaded, settings.network, place=place, secrets=settings.secrets)
        setup = _build_setup(loaded, environment, access, place=place, owner=identity)
        if setup is not None:
            request = msgspec.structs.replace(request, environment_id=environment.environment_id)
        # The workspace belongs to the account that works in it: for root that is not root.
        bases = BaseCache(settings.cache / "bases", owner=identity)
        base = stack.enter_context(bases.prepare_base(request, setup=setup))
        if setup is not None and not setup.is_executed:
            setup.tell_again(base)
        # One label and one lock for all of its trees: for each they would cost as much as a small program.
        shared = WorkspacePlace(workspaces, owner=base.owner)
        stack.callback(shared.remove)
        installation = Installation(
            loaded,
            base=base,
            environment=environment,
            workspaces=shared,
            held=stack.pop_all(),
            executions=executions,
        )
    try:
        installation.verify_absent_files()
    except BaseException:
        installation.close()
        raise
    return installation


def _build_setup(
    loaded: LoadedContract,
    environment: ContractEnvironment,
    access: SetupAccess | None,
    *,
    place: ScratchPlace,
    owner: Account,
) -> ContractSetup | None:
    """Setup, where there is anything to do: steps to run, outputs to keep, or places to mount upon."""
    outputs = build_outputs(loaded.contract)
    environment.verify_targets(outputs.targets)
    mounted = [bind.target for bind in environment.binds if _is_in_workspace(bind.target)]
    if not (loaded.contract.setup or outputs.targets or mounted):
        return None
    scripts = write_scripts(loaded, place)
    variables = environment.build_variables("setup", {}, has_secrets=False)
    names: list[JsonValue] = [
        secret.name for secret in loaded.contract.environment.secrets if "setup" in secret.phases
    ]
    facts: dict[str, JsonValue] = {
        "mounted": list[JsonValue](mounted),
        "variables": dict[str, JsonValue](variables),
        "secrets": names,
    }

    def open_place(setup_place: SetupPlace) -> ContractSandbox:
        shown = [*([] if scripts is None else [scripts]), *([] if access is None else access.binds)]
        # What is mounted in the tree gets its mount points there by being mounted.
        binds = outputs.build_binds(setup_place.outputs, is_writable=True)
        request = SandboxRequest(phase="setup", binds=(*binds, *shown))
        return environment.open(setup_place.tree, request, sink=None if access is None else access.watch)

    return ContractSetup(
        loaded, outputs=outputs, facts=facts, owner=owner, open_place=open_place, access=access
    )


def _is_in_workspace(target: str) -> bool:
    return PurePosixPath(WORKSPACE) in PurePosixPath(target).parents
