"""Small contracts that are locked for real, and installations of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from repotrial._core.words import Level
from repotrial.authoring import lock_contract
from repotrial.contract import load_contract
from repotrial.environment import Installation, InstallationSettings, SandboxRequest, open_installation
from repotrial.environment._installation._contract_environment import SandboxPhase
from repotrial.environment._installation._setup_network import SetupNetwork
from repotrial.isolation import CommandResult, CommandSpec
from support.contracts import write_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

__all__ = ["Trial", "open_trial", "shell"]

_CONTRACT = """\
schema = "repotrial/contract@1"
id = "trial"
title = "A place to look around in"
kind = "bug-fix"

[repository]
kind = "directory"
source = "repo"

[limits]
memory_mb = {{ request = 64, kill = 512 }}
disk_mb = {{ request = 8, kill = 64 }}
output_mb = 1

[environment]
image = {image}
{environment}

{setup}

[[checks]]
id = "unit"
gate = "acceptance"
run = "true"
judge = "out-of-process"
"""


class Trial:
    """A contract directory and a cache."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.directory = place / "contract"
        self.cache = place / "cache"

    def write(
        self,
        environment: str = "",
        setup: str = "",
        *,
        files: Mapping[str, str | bytes] | None = None,
        repo: Mapping[str, str] | None = None,
        image: str = '"host"',
    ) -> None:
        """A locked contract with these tables."""
        tree = {f"repo/{name}": text for name, text in (repo or {"readme": "hello\n"}).items()}
        text = _CONTRACT.format(environment=environment, setup=setup, image=image)
        write_contract(self.directory, text, files={**tree, **(files or {})})
        lock_contract(self.directory)

    def open(
        self,
        *,
        level: Level | None = None,
        secrets: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        network: SetupNetwork | None = None,
    ) -> Installation:
        settings = InstallationSettings(
            cache=self.cache,
            home=self.place / "home",
            variables=variables or {},
            secrets=secrets or {},
            network=network,
        )
        return open_installation(load_contract(self.directory), settings, level=level)

    def list_leftovers(self) -> list[Path]:
        """What was not taken away."""
        return [*self.cache.glob("workspaces/*"), *self.cache.glob("bases/making/*")]


@contextlib.contextmanager
def open_trial(
    environment: str = "",
    setup: str = "",
    *,
    files: Mapping[str, str | bytes] | None = None,
    repo: Mapping[str, str] | None = None,
) -> Iterator[Trial]:
    require_sandboxes()
    with scratch() as place:
        trial = Trial(place)
        trial.write(environment, setup, files=files, repo=repo)
        yield trial


def shell(installation: Installation, script: str, *, phase: SandboxPhase = "act") -> CommandResult:
    """One command line in a sandbox of its own."""
    command = CommandSpec(argv=("bash", "-c", script), timeout_seconds=300)
    with (
        installation.open_workspace() as workspace,
        installation.open_sandbox(workspace, SandboxRequest(phase=phase)) as sandbox,
    ):
        return sandbox.run(command)
