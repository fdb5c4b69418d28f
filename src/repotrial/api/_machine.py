"""Verbs on the machine: what it can do, what it keeps, and a look around in a contract's environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from repotrial._core.words import Level
from repotrial.api._contracts import load_contract
from repotrial.environment import InstallationSettings, SandboxRequest, open_installation
from repotrial.isolation import CommandResult, CommandSpec
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
from repotrial.run import ProxiedSetup


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
    """Remove prepared workspaces and environments that nobody uses; what was removed."""
    return prune_kept(cache, unused_seconds=unused_seconds, max_bytes=max_bytes)


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
