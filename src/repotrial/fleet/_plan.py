"""Which runs are wanted, and which of them there are already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import EvidenceError
from repotrial._core.words import Level
from repotrial.contract import LoadedContract, RunCaps
from repotrial.run import Agent, AttemptIndex, OwnPolicy, PlannedRun, build_spec, find_variants
from repotrial.score import MOST_ATTEMPTS, Cause, judge_run
from repotrial.trace import (
    AcceptanceExecution,
    BuildCheck,
    Errored,
    Event,
    MonitorAlert,
    RunPaths,
    StaticCheck,
    Termination,
    iter_events,
)

_DEFAULT_SECONDS: Final = 600
"""Of a check that sets no limit."""


class RunConditions(msgspec.Struct, frozen=True, kw_only=True):
    """What all runs of a plan have in common, and how many there are."""

    runs: Path
    """Run directories are made here, and earlier ones looked for."""
    level: Level
    """Isolation of all runs."""
    root_seed: int
    """From which replicate streams are spawned (P8)."""
    repeats: int = 1
    """Replicates of each agent on each contract."""
    is_fresh: bool = False
    """Whether what was conducted before is conducted again."""
    caps: RunCaps = RunCaps()
    """Limits in place of the contracts' own."""
    policy: OwnPolicy = OwnPolicy()
    """Thresholds and prices in place of the release's own."""
    cause: Cause | None = None
    """Only runs whose last attempt is excused for this; None: all that are not conducted yet."""


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All runs that are wanted, in the order of their start."""

    runs: tuple[PlannedRun, ...]

    @property
    def missing(self) -> tuple[PlannedRun, ...]:
        """Those that have still to be conducted."""
        return tuple(run for run in self.runs if run.conducted is None)

    @property
    def ceiling_usd(self) -> Decimal:
        """Most that the missing runs may cost; agents that ask no model cost nothing."""
        costs = (_find_cost(run) for run in self.missing if run.spec.agent.model is not None)
        return sum(costs, start=Decimal(0))

    @property
    def ceiling_seconds(self) -> int:
        """Longest that the missing runs may take one after the other, by the contracts' own limits."""
        return sum(_find_ceiling(run) for run in self.missing)


def plan_runs(
    contracts: Sequence[LoadedContract],
    agents: Sequence[tuple[Agent, str | None]],
    conditions: RunConditions,
) -> FleetPlan:
    """Every contract with every agent, each as often as wanted.

    Args:
        contracts: Locked ones.
        agents: Each with the id of the only contract it is for, or none.
        conditions: Of all runs.

    Raises:
        REFERENCE_MISSING: the reference is to be tried on a contract that has none.
    """
    planned: dict[Digest, PlannedRun] = {}
    known = AttemptIndex(conditions.runs)
    # Replicates outermost: a fleet that is stopped has tried everything about as often.
    for replicate in range(conditions.repeats):
        for loaded in contracts:
            for agent, only in agents:
                if only is not None and only != loaded.contract.id:
                    continue
                spec = build_spec(
                    loaded,
                    agent,
                    level=conditions.level,
                    root_seed=conditions.root_seed,
                    replicate=replicate,
                    caps=conditions.caps,
                    policy=conditions.policy,
                )
                attempts = known.find(spec.run_id)
                if conditions.cause is not None and find_last_cause(attempts) != conditions.cause:
                    continue
                run = PlannedRun(
                    loaded=loaded,
                    agent=agent,
                    spec=spec,
                    conducted=None if conditions.is_fresh else _find_conducted(attempts),
                    attempts=frozenset(attempts),
                )
                # A contract or an agent that is named twice is still one.
                planned.setdefault(spec.run_spec_id, run)
    return FleetPlan(runs=tuple(planned.values()))


def find_conducted_since(run: PlannedRun, runs: Path) -> Path | None:
    """What another harness has conducted since the plan was made."""
    attempts = AttemptIndex(runs).find(run.spec.run_id)
    return _find_conducted(path for path in attempts if path not in run.attempts)


def _find_conducted(attempts: Iterable[Path]) -> Path | None:
    """The first sealed attempt that counts; the last, where there may be no more repeats."""
    sealed = [path for path in attempts if RunPaths(path).seal.is_file()]
    found = next((path for path in sealed if not _is_excused(RunPaths(path))), None)
    return sealed[-1] if found is None and len(sealed) >= MOST_ATTEMPTS else found


def find_last_cause(attempts: Iterable[Path]) -> Cause | None:
    """What excuses the last sealed attempt; None if nothing does."""
    sealed = [path for path in attempts if RunPaths(path).seal.is_file()]
    if not sealed or not _is_excused(RunPaths(sealed[-1])):
        return None
    return judge_run(sealed[-1]).cause.cause


def _is_excused(paths: RunPaths) -> bool:
    """Whether its cause takes it out of the rates; most records show at a glance that nothing does."""
    is_terminated = False
    try:
        for event in iter_events(paths.trace):
            if _is_remarkable(event):
                break
            is_terminated |= isinstance(event.payload, Termination)
        else:
            return not is_terminated
    except EvidenceError:
        return True
    return judge_run(paths.root).cause.is_excused


def _is_remarkable(event: Event) -> bool:
    match event.payload:
        case Termination(category="harness-fault" | "operator-abort") | Termination(code="shared-envelope"):
            return True
        case MonitorAlert(monitor="harness" | "provider"):
            return True
        case (
            AcceptanceExecution(outcome=Errored())
            | BuildCheck(outcome=Errored())
            | StaticCheck(outcome=Errored())
        ):
            return True
        case _:
            return False


def _find_cost(run: PlannedRun) -> Decimal:
    caps = run.spec.configuration.caps
    return caps.cost_usd or run.loaded.contract.limits.cost_usd


def _find_ceiling(run: PlannedRun) -> int:
    """Every command of every check at its limit, in all variants, each with a control on the reference."""
    loaded = run.loaded
    checks = sum(
        (check.timeout_seconds or _DEFAULT_SECONDS)
        * check.repeats
        * len(check.all_runners)
        * len(find_variants(check))
        * (1 if loaded.reference is None else 2)
        for check in loaded.contract.checks
    )
    wall_seconds = run.spec.configuration.caps.wall_seconds or loaded.contract.limits.wall_seconds
    return wall_seconds + checks
