"""Verbs on the machine: what it can do, what it keeps, and a look around in a contract's environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from repotrial._core.errors import ErrorCode, MachineError, RepoTrialError
from repotrial._core.words import Level
from repotrial.api._contracts import load_contract
from repotrial.contract import LoadedContract
from repotrial.environment import InstallationSettings, SandboxRequest, check_machine, open_installation
from repotrial.isolation import Capabilities, CommandResult, CommandSpec, find_back_end, probe_machine
from repotrial.machine import (
    DoctorFix,
    DoctorReport,
    KeptItem,
    ProbeReport,
    execute_doctor,
    execute_doctor_fix,
    execute_probe,
    list_kept,
    prune_kept,
)
from repotrial.redaction import CustodyPolicy
from repotrial.run import ProxiedSetup
from repotrial.trace import Exited, NotStarted, Signaled

_SIGNALED = 128  # what shells add to a signal's number
_STOPPED = 124  # what timeout(1) gives
_NOT_FOUND = 127  # what shells give for a program that is not there


class MachineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may know about the machine and its operator; never hashed."""

    cache: Path
    """Where prepared trees and environments are kept; the sandbox's user must be able to reach it."""
    home: Path
    """The operator's home, for the configuration of package managers."""
    variables: Mapping[str, str]
    """The operator's environment, for the same; programs in a sandbox never see it."""
    secrets: Mapping[str, str] = {}
    """Values of secrets, by the names that contracts declare."""
    custody_file: Path | None = None
    """Says who may open the originals of redacted texts; None: only their digests are kept."""

    def load_custody(self) -> CustodyPolicy | None:
        """The policy that the operator named.

        Raises:
            CUSTODY_POLICY: the file is none.
            CUSTODY_EXTRA: originals could not be encrypted here.
        """
        return None if self.custody_file is None else CustodyPolicy.load(self.custody_file)

    def find_adapters(self) -> Path | None:
        """Where the operator keeps adapters of their own; None if there is no such directory."""
        config = self.variables.get("XDG_CONFIG_HOME")
        directory = (Path(config) if config else self.home / ".config") / "repotrial" / "agents"
        return directory if directory.is_dir() else None


def build_installation_settings(machine: MachineSettings) -> InstallationSettings:
    """What contracts are set up with here; a Setup that declares a network has it through our proxy."""
    return InstallationSettings(
        cache=machine.cache,
        home=machine.home,
        variables=machine.variables,
        secrets=machine.secrets,
        network=ProxiedSetup(),
    )


def run_doctor() -> DoctorReport:
    """Find out, by trying, what this machine can do."""
    return execute_doctor()


def fix_machine(variables: Mapping[str, str]) -> DoctorFix:
    """Install what isolation needs, where that may be done; then find out what this machine can do."""
    return execute_doctor_fix(variables)


def probe_sandbox(level: Level) -> ProbeReport:
    """Try to get out of a sandbox of this level, in every way that is known here."""
    return execute_probe(level)


def list_cache(cache: Path) -> list[KeptItem]:
    """The prepared workspaces and environments that are kept."""
    return list_kept(cache)


def prune_cache(cache: Path, *, unused_seconds: int, max_bytes: int | None) -> list[KeptItem]:
    """Remove prepared workspaces and environments that are not in use; what was removed."""
    return prune_kept(cache, unused_seconds=unused_seconds, max_bytes=max_bytes)


class ShellStatus(NamedTuple):
    """How a command ended, as a shell reports it."""

    code: int
    trouble: str | None = None
    """What happened, if the command did not end by itself."""
    reason: str = ""
    """Why."""


def find_shell_status(result: CommandResult) -> ShellStatus:
    """The exit code that a shell would give for what became of a command."""
    match result.exit:
        case Exited(code=code):
            return ShellStatus(code)
        case Signaled(signal=signal):
            return ShellStatus(_SIGNALED + signal)
        case NotStarted(reason=reason):
            return ShellStatus(_NOT_FOUND, "not started", reason)
        case _:
            return ShellStatus(_STOPPED, "ended by the sandbox", result.cause)


def execute_in_contract(
    directory: Path, argv: tuple[str, ...], *, machine: MachineSettings, timeout_seconds: int | None
) -> CommandResult:
    """Run one command where the contract's checks would run: its snapshot, its environment, no network.

    Changes are thrown away. The snapshot is as the agent gets it; oracle files are not laid over it.
    """
    with (
        open_installation(load_contract(directory), build_installation_settings(machine)) as installation,
        installation.open_workspace() as workspace,
        installation.open_sandbox(workspace, SandboxRequest(phase="accept")) as sandbox,
    ):
        return sandbox.run(CommandSpec(argv=argv, timeout_seconds=timeout_seconds))


CONTRACTS_UNAVAILABLE = ErrorCode(
    "contracts-unavailable",
    MachineError,
    "This machine lacks what contracts need: tools, or an isolation level.",
    hint="get what is listed, or run the contracts on a machine that has it",
)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A contract that this machine cannot run."""

    contract: str
    """The contract's id."""
    directory: str
    """The contract's directory."""
    lacks: str
    """What was expected and what was found."""
    hint: str
    """How to get it."""


def choose_available(
    directories: Sequence[Path], machine: MachineSettings
) -> tuple[list[Path], tuple[LeftOut, ...]]:
    """The directories of contracts that this machine can run, and the others.

    What is no contract counts as available, so that a command on it can say what is wrong.

    Raises:
        CONTRACTS_UNAVAILABLE: no contract can be run here.
    """
    loaded: list[LoadedContract] = []
    for directory in directories:
        with suppress(RepoTrialError):
            loaded.append(load_contract(directory))
    _, left_out = leave_out(loaded, machine, level=None, skips_unavailable=True)
    unavailable = {item.directory for item in left_out}
    return [directory for directory in directories if str(directory) not in unavailable], left_out


def list_shared_by_runs(level: Level | None) -> tuple[str, ...]:
    """By what runs side by side could still disturb each other here; at the strongest level unless told."""
    findings = probe_machine() if level is None else (find_back_end(level).probe(),)
    reached = [finding for finding in findings if isinstance(finding, Capabilities)]
    return reached[0].list_shared() if reached else ()


def leave_out(
    contracts: Sequence[LoadedContract],
    machine: MachineSettings,
    *,
    level: Level | None,
    skips_unavailable: bool,
) -> tuple[list[LoadedContract], tuple[LeftOut, ...]]:
    """The contracts that this machine can run, and the others.

    Raises:
        CONTRACTS_UNAVAILABLE: there are others and they are not to be skipped, or there are only those.
    """
    settings = build_installation_settings(machine)
    found = check_machine([loaded.contract for loaded in contracts], settings, level=level)
    usable = [loaded for loaded, error in zip(contracts, found, strict=True) if error is None]
    left_out = tuple(
        LeftOut(
            contract=loaded.contract.id,
            directory=str(loaded.directory),
            lacks=error.message,
            hint=error.hint,
        )
        for loaded, error in zip(contracts, found, strict=True)
        if error is not None
    )
    if left_out and not (skips_unavailable and usable):
        way = "; or leave such contracts out with --skip-unavailable" if usable else ""
        hints = "; ".join(dict.fromkeys(item.hint for item in left_out))
        names: dict[str, list[str]] = {}
        for item in left_out:
            names.setdefault(item.lacks, []).append(item.contract)
        lines = [f"{', '.join(found)}: {lacks}" for lacks, found in names.items()]
        raise CONTRACTS_UNAVAILABLE.error("\n".join(lines), hint=f"{hints}{way}")
    return usable, left_out
