"""Attempts of a worker: the plan's run becomes one of this machine, conducted as the pool does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path

from repotrial._core.errors import RepoTrialError
from repotrial._core.schema import resolve_documents
from repotrial.contract import LoadedContract
from repotrial.cost import Amount, PriceBook
from repotrial.environment import InstallationSettings
from repotrial.fleet._board import RecordWord
from repotrial.fleet._pool import (
    FleetEvent,
    PhaseListener,
    SharedInstallations,
    find_excuse,
    find_models,
    has_begun,
)
from repotrial.fleet._shared_plan import SharedPlan, SharedRun, to_micro_usd
from repotrial.fleet._upstream_gate import UpstreamGate
from repotrial.fleet._worker import Conduct, Conducted, NotConducted
from repotrial.run import RUN_STOPPED, ModelAccess, PlannedRun, RunSettings, Stopper, conduct_run
from repotrial.score import REPEATED_AT_ONCE, judge_run, price_run, write_verdict


@contextmanager
def open_conductor(
    plan: SharedPlan,
    settings: RunSettings,
    *,
    contracts: Mapping[str, LoadedContract],
    models: Sequence[ModelAccess | None],
    installation: InstallationSettings,
    book: PriceBook,
) -> Iterator[Conduct]:
    """What carries out attempts on this machine, for all slots of a worker.

    Args:
        plan: Whose runs they are.
        settings: Of all attempts.
        contracts: By their names in the plan.
        models: As the plan numbers them.
        installation: How contracts are set up here.
        book: What models cost.
    """
    resolve_documents()  # before any thread decodes one
    with SharedInstallations(installation, settings.stopper) as installations:
        yield _Conductor(
            plan=plan,
            contracts=contracts,
            models=models,
            settings=settings,
            installations=installations,
            gate=UpstreamGate(),
            book=book,
        )


@dataclass(frozen=True, kw_only=True)
class _Conductor:
    """Conducts attempts on this machine; shared by all slots."""

    plan: SharedPlan
    contracts: Mapping[str, LoadedContract]
    """By their names in the plan."""
    models: Sequence[ModelAccess | None]
    """As the plan numbers them."""
    settings: RunSettings
    installations: SharedInstallations
    gate: UpstreamGate
    book: PriceBook

    def __call__(self, shared: SharedRun, epoch: int, stopper: Stopper) -> Conducted | NotConducted:
        """Carry out one attempt, and judge it."""
        run = PlannedRun(
            loaded=self.contracts[shared.contract],
            agent=self.plan.agents[shared.agent],
            spec=shared.spec,
            number=epoch,
        )
        models = None if shared.models is None else self.models[shared.models]
        settings = replace(self.settings, stopper=stopper, models=models)
        try:
            stopper.verify_going()
            self.gate.verify_open(find_models(run, settings))
            ended = conduct_run(
                run,
                settings,
                partial(self.installations.open, run),
                listener=PhaseListener(shared.run_id, _hear),
            )
        except RepoTrialError as error:
            stopped = error.code == RUN_STOPPED
            return NotConducted(fault=None if stopped else f"{error.code}: {error.message}")
        cause = find_excuse(run, settings, ended, self.gate)
        judged = judge_run(ended.paths.root)
        write_verdict(ended.paths.root, judged.evidence, judged.card)
        word: RecordWord = "invalid" if judged.entry.status == "invalid" else "valid"
        if ended.is_stopped:
            word = "superseded"
        elif cause in REPEATED_AT_ONCE:
            word = "excused"
        return Conducted(
            directory=ended.paths.root,
            word=word,
            cost_micro_usd=self._find_cost(ended.paths.root, shared),
            fault=None if word != "excused" or has_begun(ended) else ended.fault,
        )

    def _find_cost(self, directory: Path, shared: SharedRun) -> int:
        """What models cost; what is not known is taken to be all that was reserved."""
        if shared.models is None:
            return 0
        cost = price_run(directory, self.book)
        amount = cost.statement.lm
        if cost.is_notional or not isinstance(amount, Amount) or amount.unit != "usd":
            return 0 if cost.is_notional else shared.reserved_micro_usd
        return to_micro_usd(Decimal(amount.value))


def _hear(event: FleetEvent) -> None:
    """Phases of single runs are in their own records."""
    del event
