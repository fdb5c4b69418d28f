"""Doing a recorded run again, without its agent."""

from __future__ import annotations

from pathlib import Path

from repotrial._core.absence import Unknown
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.words import Level
from repotrial.api._contracts import load_contract
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.environment import open_installation
from repotrial.run import Replay, RunSettings
from repotrial.run import replay_run as replay
from repotrial.score import build_run_paths, load_evidence, verify_record
from repotrial.trace import RunPaths, SecretRedactor, SigningKey, load_manifest

NOTHING_TO_REPLAY = ErrorCode(
    "nothing-to-replay",
    UsageError,
    "The run ended before a change was taken from its workspace, so there is nothing to judge again.",
    hint="name a run that was judged: `repotrial run list` shows which were",
)


def replay_run(
    run_directory: Path, contract: Path, *, runs: Path, key_file: Path, machine: MachineSettings
) -> Replay:
    """Rebuild a final tree from its trace, judge it again under the same isolation, and compare (P28).

    Raises:
        NOTHING_TO_REPLAY: the run ended before a change was taken.
        RECORD_BROKEN: the record is not whole.
    """
    paths = build_run_paths(run_directory)
    _verify_change(paths)
    loaded = load_contract(contract)
    recorded = load_manifest(paths.manifest).configuration.sandbox_level
    level = recorded if isinstance(recorded, Level) else None
    settings = build_installation_settings(machine)
    shared = RunSettings(runs=runs, key=SigningKey.load(key_file), redactor=SecretRedactor(machine.secrets))
    with open_installation(loaded, settings, level=level) as installation:
        return replay(paths, loaded, installation=installation, settings=shared)


def _verify_change(paths: RunPaths) -> None:
    """Before anything is set up: that there is a change, and that the trace can be believed about it."""
    evidence = load_evidence(paths.root)
    verify_record(evidence, paths.root, action="be replayed")
    if isinstance(evidence.change, Unknown):
        raise NOTHING_TO_REPLAY.error(
            f"{paths.root}: expected a run with a change, found that it ended before one was taken "
            f"({evidence.change.reason})"
        )
