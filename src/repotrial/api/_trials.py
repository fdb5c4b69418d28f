"""Putting agents on trial: plan, conduct, judge."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, MachineError, RepoTrialError
from repotrial.api._contracts import is_certified, load_contract, verify_usable
from repotrial.api._machine import LeftOut, MachineSettings, build_installation_settings, leave_out
from repotrial.api._models import (
    UNUSED_ORDER,
    ModelChoice,
    describe_upstream,
    find_own_policy,
    open_costs,
    open_model_access,
    verify_budgets,
    verify_dialect,
    verify_price,
)
from repotrial.api._runs import score_run
from repotrial.contract import LoadedContract, build_invalid_error, check_lock
from repotrial.fleet import (
    FleetEvent,
    FleetPlan,
    RunConditions,
    RunSkipped,
    build_roster,
    conduct_fleet,
    plan_runs,
)
from repotrial.gateway import ask_control
from repotrial.redaction import SecretRedactor
from repotrial.run import (
    HUMAN_UNAVAILABLE,
    MODEL_ACCESS_MISSING,
    Agent,
    Handover,
    HumanAgent,
    ModelAccess,
    ModelAgent,
    RunEnded,
    RunSettings,
    Stopper,
)
from repotrial.score import RunEntry, judge_run, label_versions
from repotrial.signing import SigningKey


class TrialRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who is put on trial, with what, how often and where."""

    contracts: tuple[Path, ...]
    """Directories of locked contracts."""
    agents: tuple[str, ...]
    """By name; see `AGENT_FORMS`."""
    conditions: RunConditions
    """Of all runs, and where they are recorded."""
    jobs: int = 1
    """Runs at a time."""
    models: ModelChoice = ModelChoice()
    """Who answers for models, and at what price."""
    skips_unavailable: bool = False
    """Whether contracts that this machine cannot run are left out; otherwise nothing is run."""
    skips_upstream_check: bool = False
    """Whether the first run begins without a provider having answered one small request."""


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """What will run: loaded, checked and planned once, shown as it will be conducted."""

    request: TrialRequest
    machine: MachineSettings
    fleet: FleetPlan
    """The runs, in the order of their start."""
    unmatched: tuple[str, ...]
    """Instances of predictions for which no contract was named."""
    uncertified: tuple[str, ...]
    """Directories of contracts that are not certified as they are now."""
    left_out: tuple[LeftOut, ...] = ()
    """Contracts that this machine cannot run."""

    @property
    def has_person(self) -> bool:
        """Whether a person has to sit at a terminal."""
        return any(isinstance(run.agent, HumanAgent) for run in self.fleet.missing)

    @property
    def agent_labels(self) -> list[str]:
        """The agent of each run; with its version where several go by one name."""
        agents = [run.spec.agent for run in self.fleet.runs]
        return label_versions(
            [(agent.name, "/".join(filter(None, (agent.version, agent.model)))) for agent in agents]
        )

    def verify_person(self, *, has_terminal: bool) -> None:
        """Refuse a plan with a person who could not be asked.

        Raises:
            HUMAN_UNAVAILABLE: there is no terminal, or several runs at a time.
        """
        if not self.has_person:
            return
        if self.request.jobs > 1:
            raise HUMAN_UNAVAILABLE.error(
                f"expected one run at a time for a person, found --jobs {self.request.jobs}"
            )
        if not has_terminal:
            raise HUMAN_UNAVAILABLE.error("expected a person at a terminal, found none")

    def to_dict(self) -> dict[str, object]:
        """For programs."""
        trials = [
            {
                "run_id": run.spec.run_id,
                "contract": run.spec.contract_id,
                "agent": run.spec.agent.name,
                "agent_version": run.spec.agent.version,
                "model": run.spec.agent.model,
                "replicate": run.spec.replicate,
                "conducted": None if run.conducted is None else str(run.conducted),
            }
            for run in self.fleet.runs
        ]
        return {
            "trials": trials,
            "missing": len(self.fleet.missing),
            "ceiling_seconds": self.fleet.ceiling_seconds,
            "ceiling_usd": self.fleet.ceiling_usd,
            "unmatched": self.unmatched,
            "has_person": self.has_person,
            "uncertified": self.uncertified,
            "left_out": self.left_out,
        }


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
    """What to do about it; empty if unknown."""


class UpstreamChecked(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="upstream"):
    """Before the first run: whether a provider answers for a model that will be asked for."""

    run_id: str = ""
    """None of the runs."""
    upstream: str
    """The provider."""
    model: str
    """As agents ask for it."""
    status: int | None
    """Of its answer to one small request; null if that was skipped."""


TrialEvent: TypeAlias = FleetEvent | RunScored | RunUnscored | UpstreamChecked


def plan_trials(request: TrialRequest, machine: MachineSettings) -> TrialPlan:
    """Load, check and plan; nothing is started.

    Raises:
        CONTRACTS_UNAVAILABLE: this machine lacks what contracts need.
        RepoTrialError: a contract or an agent cannot be used.
    """
    contracts, left_out = leave_out(
        [_load(directory) for directory in request.contracts],
        machine,
        level=request.conditions.level,
        skips_unavailable=request.skips_unavailable,
    )
    roster = build_roster(
        request.agents,
        [loaded.contract.id for loaded in contracts],
        adapters=machine.find_adapters(),
        model=request.models.model,
    )
    agents = _bind_models(roster.agents, request.models, machine)
    return TrialPlan(
        request=request,
        machine=machine,
        fleet=plan_runs(
            contracts,
            agents,
            msgspec.structs.replace(request.conditions, policy=find_own_policy(request.models)),
        ),
        unmatched=roster.unmatched,
        uncertified=tuple(str(loaded.directory) for loaded in contracts if not is_certified(loaded)),
        left_out=left_out,
    )


def conduct_trials(
    plan: TrialPlan,
    *,
    key_file: Path,
    stopper: Stopper,
    handover: Handover | None = None,
    on_install: Callable[[str], None] | None = None,
) -> Generator[TrialEvent, None, None]:
    """Conduct what is missing and judge it; what was conducted before is judged, too, and left as it is.

    Stop it with `stopper`, and it tells what was stopped; or close it. What is recorded is kept. Agents that
    are not installed are, before the first run; `on_install` is told their names.
    """
    request, machine, fleet = plan.request, plan.machine, plan.fleet
    asking = {
        run.agent.adapter.digest: run.agent.adapter
        for run in fleet.missing
        if isinstance(run.agent, ModelAgent)
    }
    with (
        open_costs(request.models) as costs,
        open_model_access(
            request.models, machine, costs=costs, agents=asking.values(), on_install=on_install
        ) as opened,
    ):
        models = opened
        if models is not None and fleet.missing:
            for checked in _check_upstream(request, fleet, models):
                yield checked
                models = replace(models, preflight="skipped" if checked.status is None else "answered")
        settings = RunSettings(
            runs=request.conditions.runs,
            key=SigningKey.load(key_file),
            redactor=SecretRedactor({**({} if models is None else models.secrets), **machine.secrets}),
            custody=machine.load_custody(),
            stopper=stopper,
            models=models,
            costs=costs,
            handover=handover,
        )
        installation = build_installation_settings(machine)
        events = conduct_fleet(fleet, settings, installation=installation, jobs=request.jobs)
        try:
            for event in events:
                yield event
                yield from _judge(event)
        finally:
            events.close()


UPSTREAM_UNREADY = ErrorCode(
    "upstream-unready",
    MachineError,
    "A provider does not answer for a model that the runs will ask for, so no run was started.",
    hint="look at the key, the model's name and the provider's state; --skip-upstream-check does not ask",
)


def _check_upstream(
    request: TrialRequest, fleet: FleetPlan, models: ModelAccess
) -> Iterator[UpstreamChecked]:
    """One small request for each model and wire format: key, name and dialect are right before the first run.

    Raises:
        UPSTREAM_UNREADY: the provider refuses it, or does not answer.
    """
    if not (request.models.upstream or "").startswith("provider:"):
        return
    asked = {
        (run.agent.adapter.adapter.dialect, run.agent.model)
        for run in fleet.missing
        if isinstance(run.agent, ModelAgent)
    }
    for dialect, model in sorted(asked):
        status = None
        if not request.skips_upstream_check:
            upstream = models.open_upstream(UNUSED_ORDER)
            try:
                found = models.loop.run(ask_control(upstream, dialect, model))
            finally:
                models.loop.run(upstream.close())
            if not found.is_answered:
                raise UPSTREAM_UNREADY.error(
                    f"{models.description}: expected an answer of {model} ({dialect}), found "
                    f"{found.status}: {found.detail}"
                )
            status = found.status
        yield UpstreamChecked(upstream=models.description, model=model, status=status)


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


def _bind_models(
    agents: tuple[tuple[Agent, str | None], ...], models: ModelChoice, machine: MachineSettings
) -> tuple[tuple[Agent, str | None], ...]:
    """Who answers is part of what an agent is: a canned model makes another one of it.

    Raises:
        MODEL_ACCESS_MISSING: an agent asks a model, and there is no model source.
    """
    asking = [agent for agent, _ in agents if isinstance(agent, ModelAgent)]
    if not asking:
        return agents
    if models.upstream is None:
        raise MODEL_ACCESS_MISSING.error(f"{asking[0].name}: expected a model source, found none")
    for agent in asking:
        verify_price(models, agent.model)
        verify_budgets(models, agent.model)
        verify_dialect(models, agent.adapter.adapter.dialect, agent.name)
    parameters = {"upstream": describe_upstream(models.upstream, machine)}
    return tuple(
        (msgspec.structs.replace(agent, parameters=parameters), only)
        if isinstance(agent, ModelAgent)
        else (agent, only)
        for agent, only in agents
    )


def _load(directory: Path) -> LoadedContract:
    """A contract that is as it was locked, and usable: otherwise, only the judged run would show it."""
    loaded = load_contract(directory)
    problems = check_lock(loaded)
    if any(problem.severity == "error" for problem in problems):
        raise build_invalid_error(problems, where=directory)
    verify_usable(loaded)
    return loaded
