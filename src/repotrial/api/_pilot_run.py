"""Verbs on frozen pilots: conduct, status."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.api._models import open_costs, open_model_access
from repotrial.api._pilots import build_choice, load_study
from repotrial.conduct import (
    ConductSettings,
    PilotNotice,
    PilotStatus,
    StageChecked,
    Study,
)
from repotrial.fleet import FleetEvent
from repotrial.redaction import SecretRedactor
from repotrial.run import ModelAgent, RunSettings, Stopper
from repotrial.signing import SigningKey


def run_pilot(
    directory: Path,
    machine: MachineSettings,
    *,
    key_file: Path,
    stopper: Stopper,
    jobs: int,
    until: int,
    on_install: Callable[[str], None] | None = None,
) -> Generator[FleetEvent | StageChecked | PilotNotice, None, None]:
    """Conduct a frozen pilot up to a stage; what was conducted is kept.

    Raises:
        PILOT_NOT_FROZEN: there is no registration.
        PILOT_BROKEN: the pilot is not as it was frozen.
    """
    study = load_study(directory, machine)
    with ExitStack() as opened:
        study, secrets = _open_arms(study, machine, opened, on_install)
        settings = ConductSettings(
            run=RunSettings(
                runs=study.runs,
                key=SigningKey.load(key_file),
                redactor=SecretRedactor({**secrets, **machine.secrets}),
                custody=machine.load_custody(),
                stopper=stopper,
                costs=opened.enter_context(open_costs(build_choice(directory, study.pilot, None))),
            ),
            installation=build_installation_settings(machine),
            jobs=jobs,
            until=until,
        )
        yield from settings.conduct(study)


def show_pilot(directory: Path, machine: MachineSettings) -> PilotStatus:
    """How a frozen pilot stands: progress, spend, causes, blinded power; never a rate."""
    return PilotStatus.load(load_study(directory, machine))


def _open_arms(
    study: Study, machine: MachineSettings, opened: ExitStack, on_install: Callable[[str], None] | None
) -> tuple[Study, dict[str, str]]:
    """Each arm with its own model source, open until the last run is over."""
    arms, secrets = dict(study.arms), dict[str, str]()
    for name, arm in study.arms.items():
        asking = {
            agent.adapter.digest: agent.adapter
            for agent in arm.agents.values()
            if isinstance(agent, ModelAgent)
        }
        if asking:
            choice = build_choice(study.directory, study.pilot, arm.arm)
            access = opened.enter_context(
                open_model_access(choice, machine, agents=asking.values(), on_install=on_install)
            )
            arms[name] = replace(arm, models=access)
            secrets |= {} if access is None else access.secrets
    return replace(study, arms=arms), secrets
