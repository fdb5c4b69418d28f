"""Putting agents on trial: plan, conduct, judge."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial._core.words import Level
from repotrial.api._agents import Roster, build_roster
from repotrial.api._availability import LeftOut, leave_out
from repotrial.api._contracts import is_certified, load_contract, verify_usable
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.api._models import (
    ModelChoice,
    describe_upstream,
    find_adapters_directory,
    open_model_access,
    verify_budgets,
    verify_price,
)
from repotrial.api._runs import score_run
from repotrial.contract import ContractInvalidError, LoadedContract, check_lock
from repotrial.fleet import (
    FleetEvent,
    FleetPlan,
    FleetSettings,
    RunConditions,
    RunEnded,
    RunSkipped,
    conduct_fleet,
    plan_runs,
)
from repotrial.run import (
    Agent,
    Handover,
    HumanAgent,
    ModelAccess,
    ModelAccessMissingError,
    ModelAgent,
    Stopper,
    refuse_handover,
)
from repotrial.score import RunEntry, judge_run
from repotrial.trace import load_or_create_key


class TrialRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who is put on trial, with what, how often and where."""

    contracts: tuple[Path, ...]
    """Directories of locked contracts."""
    agents: tuple[str, ...]
    """By name; see `AGENT_FORMS`."""
    runs: Path
    """Run directories are made here, and earlier ones looked for."""
    level: Level
    """Isolation of all runs."""
    root_seed: int
    """From which replicate streams are spawned (P8)."""
    repeats: int = 1
    """Replicates of each agent on each contract."""
    jobs: int = 1
    """Runs at a time."""
    is_fresh: bool = False
    """Whether what was conducted before is conducted again."""
    models: ModelChoice = ModelChoice()
    """Who answers for models, and at what price."""
    skips_unavailable: bool = False
    """Whether contracts that this machine cannot run are left out; otherwise nothing is run."""


class PlannedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One run that is wanted."""

    run_id: str
    """Of the specification; attempts share it."""
    contract: str
    """The contract's id."""
    agent: str
    """Who works."""
    agent_version: str
    """Which of that name, exactly."""
    model: str | None
    """The model that it is to ask; null where it asks none."""
    replicate: int
    """Counted from 0."""
    conducted: str | None
    """Where it was carried through before; null where it was not."""


class TrialPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What would run, how long at most, and what it may cost at most."""

    trials: tuple[PlannedTrial, ...]
    """In the order of their start."""
    missing: int
    """How many of them have still to be conducted."""
    ceiling_seconds: int
    """Longest that those may take one after the other, by the contracts' own limits."""
    ceiling_usd: Decimal
    """Most that those may cost."""
    unmatched: tuple[str, ...]
    """Instances of predictions for which no contract was named."""
    has_person: bool
    """Whether somebody has to sit at a terminal."""
    uncertified: tuple[str, ...]
    """Directories of contracts that nobody certified as they are now."""
    left_out: tuple[LeftOut, ...] = ()
    """Contracts that this machine cannot run."""


class RunScored(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="scored"):
    """The verdict on a run that is over."""

    run_id: str
    """Of the specification; attempts share it."""
    entry: RunEntry
    """The verdict in short; `score.json` has all of it."""


class RunUnscored(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="unscored"):
    """There is a record of the run, and no verdict could be computed or written."""

    run_id: str
    """Of the specification; attempts share it."""
    directory: str
    """The record."""
    fault: str
    """Why."""
    hint: str = ""
    """What to do about it; empty where nobody knows."""


TrialEvent: TypeAlias = FleetEvent | RunScored | RunUnscored


def plan_trials(request: TrialRequest, machine: MachineSettings) -> TrialPlan:
    """What `conduct_trials` would do now; nothing is started.

    Raises:
        ContractsUnavailableError: this machine lacks what contracts need.
        RepoTrialError: a contract or an agent cannot be used.
    """
    contracts, left_out = _load_all(request, machine)
    fleet, roster = _plan(contracts, request, machine)
    trials = tuple(
        PlannedTrial(
            run_id=run.spec.run_id,
            contract=run.spec.contract_id,
            agent=run.spec.agent.name,
            agent_version=run.spec.agent.version,
            model=run.spec.agent.model,
            replicate=run.spec.replicate,
            conducted=None if run.conducted is None else str(run.conducted),
        )
        for run in fleet.runs
    )
    return TrialPlan(
        trials=trials,
        missing=len(fleet.missing),
        ceiling_seconds=fleet.ceiling_seconds,
        ceiling_usd=fleet.ceiling_usd,
        unmatched=roster.unmatched,
        has_person=any(isinstance(run.agent, HumanAgent) for run in fleet.missing),
        uncertified=tuple(str(loaded.directory) for loaded in contracts if not is_certified(loaded)),
        left_out=left_out,
    )


def conduct_trials(
    request: TrialRequest,
    *,
    machine: MachineSettings,
    key_file: Path,
    stopper: Stopper,
    handover: Handover = refuse_handover,
    on_install: Callable[[str], None] | None = None,
) -> Generator[TrialEvent, None, None]:
    """Conduct what is missing and judge it; what was conducted before is judged, too, and left as it is.

    Stop it with `stopper`, and it tells what was stopped; or close it. What is recorded is kept. Agents that
    are not installed are, before the first run; `on_install` is told their names.
    """
    contracts, _ = _load_all(request, machine)
    fleet, _ = _plan(contracts, request, machine)
    asking = {
        run.agent.adapter.digest: run.agent.adapter
        for run in fleet.missing
        if isinstance(run.agent, ModelAgent)
    }
    access = open_model_access(request.models, machine, agents=asking.values(), on_install=on_install)
    with access as models:
        settings = _build_settings(request, machine, models, key_file, stopper, handover)
        events = conduct_fleet(fleet, settings)
        try:
            for event in events:
                yield event
                yield from _judge(event)
        finally:
            events.close()


def _build_settings(
    request: TrialRequest,
    machine: MachineSettings,
    models: ModelAccess | None,
    key_file: Path,
    stopper: Stopper,
    handover: Handover,
) -> FleetSettings:
    return FleetSettings(
        runs=request.runs,
        installation=build_installation_settings(machine),
        level=request.level,
        key=load_or_create_key(key_file),
        jobs=request.jobs,
        models=models,
        handover=handover,
        stopper=stopper,
    )


def _judge(event: FleetEvent) -> Iterator[TrialEvent]:
    if not isinstance(event, RunEnded | RunSkipped):
        return
    directory = Path(event.directory)
    try:
        entry = score_run(directory).entry if isinstance(event, RunEnded) else judge_run(directory).entry
        yield RunScored(run_id=event.run_id, entry=entry)
    except RepoTrialError as error:
        fault = f"{error.code}: {error.message}"
        yield RunUnscored(run_id=event.run_id, directory=event.directory, fault=fault, hint=error.hint)
    except Exception as error:  # noqa: BLE001 - one verdict must not cost the others their runs
        fault = f"harness-exception: {type(error).__name__}: {error}"
        yield RunUnscored(run_id=event.run_id, directory=event.directory, fault=fault)


def _plan(
    contracts: Sequence[LoadedContract], request: TrialRequest, machine: MachineSettings
) -> tuple[FleetPlan, Roster]:
    roster = build_roster(
        request.agents,
        [loaded.contract.id for loaded in contracts],
        adapters=find_adapters_directory(machine),
        model=request.models.model,
    )
    agents = _bind_models(roster, request.models, machine)
    conditions = RunConditions(level=request.level, root_seed=request.root_seed)
    plan = plan_runs(
        contracts,
        agents,
        conditions=conditions,
        repeats=request.repeats,
        runs=request.runs,
        is_fresh=request.is_fresh,
    )
    return plan, roster


def _bind_models(
    roster: Roster, models: ModelChoice, machine: MachineSettings
) -> tuple[tuple[Agent, str | None], ...]:
    """Who answers is part of what an agent is: a canned model makes another one of it.

    Raises:
        ModelAccessMissingError: an agent asks a model, and nobody answers.
    """
    asking = [agent for agent, _ in roster.agents if isinstance(agent, ModelAgent)]
    if not asking:
        return roster.agents
    if models.upstream is None:
        raise ModelAccessMissingError(
            f"{asking[0].name}: expected somebody who answers for its model, found none"
        )
    for agent in asking:
        verify_price(models, agent.model)
        verify_budgets(models, agent.model)
    parameters = {"upstream": describe_upstream(models.upstream, machine)}
    return tuple(
        (msgspec.structs.replace(agent, parameters=parameters), only)
        if isinstance(agent, ModelAgent)
        else (agent, only)
        for agent, only in roster.agents
    )


def _load_all(
    request: TrialRequest, machine: MachineSettings
) -> tuple[list[LoadedContract], tuple[LeftOut, ...]]:
    """The contracts that this machine can run, and those that it cannot."""
    contracts = [_load(directory) for directory in request.contracts]
    return leave_out(contracts, machine, level=request.level, skips_unavailable=request.skips_unavailable)


def _load(directory: Path) -> LoadedContract:
    """A contract that is as it was locked, and usable: otherwise, only the judged run would show it."""
    loaded = load_contract(directory)
    problems = check_lock(loaded)
    if any(problem.severity == "error" for problem in problems):
        raise ContractInvalidError(problems, where=directory)
    verify_usable(loaded)
    return loaded
