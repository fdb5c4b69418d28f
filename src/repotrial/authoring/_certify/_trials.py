"""The runs that a certificate rests on: planned, conducted by the machine's own pool, and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.seed import ROOT_SEED
from repotrial._core.words import Level
from repotrial.authoring._certify._model import NOT_APPLIED
from repotrial.contract import Check, LoadedContract, build_lock
from repotrial.fleet import FleetEvent, FleetPlan, RunNotConducted
from repotrial.run import Agent, PlannedRun, RunEnded, build_spec
from repotrial.score import Evidence, Scorable, ScoreCard, build_score_card, load_evidence
from repotrial.trace import RunPaths

_UNAPPLIED: Final = frozenset({NOT_APPLIED, "evaluation-error"})
"""Tags that, where they name no check, are about applying the change."""


CERTIFICATION_BROKEN = ErrorCode(
    "certification-broken",
    MachineError,
    "A run of a certification was not carried through, so that nothing can be said about the contract.",
    hint="`repotrial doctor` shows what this machine can do; certify again",
)


class CertificationTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One run that is wanted."""

    purpose: str
    """What it is for; trials of one purpose differ in `replicate`."""
    agent: Agent
    loaded: LoadedContract
    replicate: int = 0

    def plan(self, level: Level) -> PlannedRun:
        """The run."""
        spec = build_spec(self.loaded, self.agent, level=level, root_seed=ROOT_SEED, replicate=self.replicate)
        return PlannedRun(loaded=self.loaded, agent=self.agent, spec=spec)


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """A run, scored."""

    trial: CertificationTrial
    run_id: str
    """The name of its directory."""
    card: ScoreCard
    evidence: Evidence
    seal_digest: Digest

    @property
    def verdict(self) -> str:
        """In a word."""
        return self.card.status.verdict if isinstance(self.card.status, Scorable) else "invalid"

    @property
    def is_success(self) -> bool:
        return self.verdict == "success"

    @property
    def untried(self) -> str | None:
        """Why nothing judged the change: it does not apply, and no rule of the contract refuses it."""
        is_unapplied = any(tag.id in _UNAPPLIED and "check" not in tag.attributes for tag in self.card.tags)
        if not is_unapplied or any(rule.severity == "hard" for rule in self.card.violations):
            return None
        return next(iter(self.card.gates[0].why), "no reason was recorded")


def collect_results(
    trials: Sequence[CertificationTrial],
    plan: FleetPlan,
    events: Iterable[FleetEvent],
    on_result: Callable[[TrialResult], None],
) -> list[TrialResult]:
    """Score every trial as its run ends; results come in the order of the trials.

    Raises:
        CERTIFICATION_BROKEN: the machine did not carry one through.
    """
    by_run = {run.spec.run_id: trial for run, trial in zip(plan.runs, trials, strict=True)}
    found: dict[str, TrialResult] = {}
    for event in events:
        match event:
            case RunNotConducted(run_id=run_id, fault=fault):
                raise CERTIFICATION_BROKEN.error(
                    f"{run_id}: expected a conducted run, found: {fault or 'none'}"
                )
            case RunEnded(run_id=run_id, directory=directory, fault=None):
                found[run_id] = _score(by_run[run_id], Path(directory))
                on_result(found[run_id])
            case RunEnded(run_id=run_id, fault=fault):
                raise CERTIFICATION_BROKEN.error(f"{run_id}: expected a conducted run, found: {fault}")
            case _:
                continue
    return [found[run.spec.run_id] for run in plan.runs]


def _score(trial: CertificationTrial, directory: Path) -> TrialResult:
    evidence = load_evidence(directory)
    return TrialResult(
        trial=trial,
        run_id=directory.name,
        card=build_score_card(evidence),
        evidence=evidence,
        seal_digest=digest_bytes(RunPaths(directory).seal.read_bytes()),
    )


def reorder_checks(loaded: LoadedContract) -> LoadedContract | None:
    """The same contract with its checks in another order that `needs` allows; None if there is none."""
    checks = _order(reversed(loaded.contract.checks))
    if checks == loaded.contract.checks or loaded.lock is None:
        return None
    return _put_checks(loaded, checks)


def end_at_failure(loaded: LoadedContract) -> LoadedContract:
    """The same contract, in which a mandatory check that fails spares the acceptance checks after it.

    Success takes all of them, so that an agent succeeds here exactly if it succeeds there; a
    cheat is refused by the first check that it does not get past. What must turn comes first.
    """
    checks = loaded.contract.checks
    turning_first = _order(sorted(checks, key=lambda check: (check.baseline != "fail", checks.index(check))))
    deciding: list[str] = []
    chained: list[Check] = []
    for check in turning_first:
        needs = tuple(dict.fromkeys((*check.needs, *deciding)))
        chained.append(msgspec.structs.replace(check, needs=needs) if check.gate == "acceptance" else check)
        # Outputs go to checks that need them: a need added here must bring none.
        if check.gate == "acceptance" and check.is_mandatory and not check.outputs:
            deciding.append(check.id)
    return _put_checks(loaded, tuple(chained))


def _put_checks(loaded: LoadedContract, checks: tuple[Check, ...]) -> LoadedContract:
    """Checks and their order are part of the version, so that it is locked anew, in memory."""
    assert loaded.lock is not None
    other = replace(loaded, contract=msgspec.structs.replace(loaded.contract, checks=checks))
    return replace(other, lock=build_lock(other, loaded.lock.repository))


def _order(wanted: Iterable[Check]) -> tuple[Check, ...]:
    """As wanted, as far as `needs` allows."""
    left, done = list(wanted), list[Check]()
    while left:
        known = {check.id for check in done}
        ready = next((check for check in left if known.issuperset(check.needs)), left[0])
        left.remove(ready)
        done.append(ready)
    return tuple(done)
