"""Doing a recorded run again, without its agent."""

from __future__ import annotations

from pathlib import Path

from repotrial.api._contracts import load_contract
from repotrial.api._directories import build_run_paths
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.run import Divergence, Replay, ReplayRequest
from repotrial.run import replay_run as replay
from repotrial.sandbox import Level, open_installation
from repotrial.trace import SecretRedactor, load_manifest, load_or_create_key

__all__ = ["Divergence", "Replay", "replay_run"]


def replay_run(
    run_directory: Path, contract: Path, *, runs: Path, key_file: Path, machine: MachineSettings
) -> Replay:
    """Rebuild a final tree from its trace, judge it again under the same isolation, and compare (P28)."""
    paths = build_run_paths(run_directory)
    loaded = load_contract(contract)
    recorded = load_manifest(paths.manifest).configuration.sandbox_level
    level = Level(recorded) if isinstance(recorded, str) else None
    settings = build_installation_settings(machine)
    with open_installation(loaded, settings, level=level) as installation:
        return replay(
            ReplayRequest(
                paths=paths,
                loaded=loaded,
                open_installation=lambda: installation,
                runs=runs,
                key=load_or_create_key(key_file),
                redactor=SecretRedactor(machine.secrets),
            )
        )
