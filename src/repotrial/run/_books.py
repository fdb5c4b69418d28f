"""One run's money while it goes on: caps, envelopes and the price of time; what is open ends with it (B4)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

from repotrial._core.canonical import decimal_text
from repotrial._core.words import LifecyclePhase
from repotrial.contract import Check
from repotrial.cost import (
    BudgetCaps,
    Exhausted,
    RunBudget,
    RunMeter,
    Spending,
    TimeKind,
    measure_stored,
)
from repotrial.run._agents import HumanAgent, ModelAgent
from repotrial.run._request import CostAccess, PlannedRun, RunSettings
from repotrial.trace import MonitorAlert, RunPaths, Signal, TraceWriter

CHECK_SECONDS: Final = 600
"""The ceiling of a command of a check that declares none."""
ESTIMATE_RULE: Final = "estimate"
_LOOK_SECONDS: Final = 1.0
_LEAST_SHARE: Final = Decimal("0.05")
_MOST_SHARE: Final = Decimal("0.5")
"""Of a cost cap: what is kept for acceptance and logging, whatever the checks may take (P22)."""
_CAP_CODES: Final = {
    "usd": "cost-cap",
    "units": "cost-cap",
    "tokens": "token-cap",
    "tool-calls": "tool-call-cap",
    "failed-checks": "failed-check-cap",
    "wall-us": "wall-time",
}


def find_exhausted_code(exhausted: Exhausted) -> str:
    """What the record calls it; B4: what others spent is never held against this run."""
    return _CAP_CODES[exhausted.measure] if exhausted.is_run_cap else "shared-envelope"


def alert_exhausted(writer: TraceWriter, exhausted: Exhausted, phase: LifecyclePhase) -> int:
    """Put on record that a cap or an envelope does not allow more; its place."""
    signal = Signal(name=f"spent_{exhausted.measure}", value=exhausted.spent, threshold=exhausted.limit)
    rule = find_exhausted_code(exhausted)
    alert = MonitorAlert(monitor="budget", rule=rule, severity="critical", phase=phase, signals=(signal,))
    return writer.alert(alert).seq


class RunBooks:
    """The budget of one run, and a thread that holds room for the time to come.

    Args:
        budget: The run's caps, with the envelopes behind them.
        spending: What its time costs; None where time has no price.
    """

    def __init__(self, budget: RunBudget, spending: Spending | None = None) -> None:
        self.budget = budget
        self._ending: Exhausted | None = None
        self._spending = spending
        self._lock = threading.Lock()
        self._ending_lock = threading.Lock()
        self._ends: list[Callable[[Exhausted], None]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="repotrial-spending", daemon=True)

    def find_ending(self) -> Exhausted | None:
        """What is used up, in the phase that the run is in; None while there is room."""
        with self._lock:
            return self._ending

    @contextmanager
    def keep(self) -> Iterator[None]:
        """Hold room while the block lasts."""
        if self._spending is None:
            yield
            return
        self._take(self._spending.tick())
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()

    def take(self, refusal: Exhausted | None) -> None:
        """A refusal that came from elsewhere: before the first moment, there is no room for the run."""
        self._take(refusal)

    def enter(self, phase: LifecyclePhase, agent: object) -> None:
        """The run goes on to a phase; acceptance draws on what was kept for it."""
        if self._spending is None:
            if phase == "accept":
                self.budget.open_headroom()
            return
        kind: TimeKind = "overhead"
        if phase in ("act", "accept"):
            kind = "human" if phase == "act" and isinstance(agent, HumanAgent) else "exec"
        self._spending.enter(kind)
        if phase == "accept":
            self._spending.open_headroom()
            with self._lock:
                self._ending = None  # acting has ended by it; what was kept for acceptance is there
        self._take(self._spending.tick())

    @contextmanager
    def watch(self, end: Callable[[Exhausted], None]) -> Iterator[None]:
        """While this lasts, what is used up calls `end`, in another thread; at once if it is by now."""
        with self._lock:
            self._ends.append(end)
            ending = self._ending
        try:
            if ending is not None:
                end(ending)
            yield
        finally:
            # What is being ended has ended when the block is left: nothing of it comes later.
            with self._ending_lock, self._lock:
                self._ends.remove(end)

    def report(self, writer: TraceWriter, phase: LifecyclePhase) -> None:
        """Put on record what time has cost by now, and how that was projected (P22)."""
        if self._spending is None:
            return
        found = self._spending.estimate()
        signals = [
            Signal(name=f"cost_{name}_{found.unit}", value=value)
            for name, value in (("exec", found.exec), ("human", found.human), ("overhead", found.overhead))
            if value is not None
        ]
        alert = MonitorAlert(
            monitor="budget", rule=ESTIMATE_RULE, severity="info", phase=phase, signals=tuple(signals)
        )
        writer.alert(alert, found.method)

    def settle(self, paths: RunPaths) -> None:
        """The record is sealed: book what it says, and give back the rest."""
        if self._spending is not None:
            self._spending.settle(RunMeter.read(paths).build(stored_bytes=measure_stored(paths)))

    def _look_on(self) -> None:
        assert self._spending is not None
        while not self._is_over.wait(_LOOK_SECONDS):
            self._take(self._spending.tick())

    def _take(self, refusal: Exhausted | None) -> None:
        if refusal is None:
            return
        with self._ending_lock:
            with self._lock:
                if self._ending is not None:
                    return
                self._ending = refusal
                ends = tuple(self._ends)
            for end in ends:
                end(refusal)


@contextmanager
def open_books(plan: PlannedRun, settings: RunSettings, name: str) -> Iterator[RunBooks]:
    """The books of a run, open until what it held is settled.

    Args:
        plan: The run.
        settings: Of all runs.
        name: What the ledger calls this attempt.
    """
    costs = find_costs(plan, settings)
    if costs is None:
        yield RunBooks(RunBudget(_build_caps(plan, None, Decimal(0))))
        return
    with costs.open_envelopes(name, plan.spec) as parent:
        seconds = _count_check_seconds(plan.loaded.contract.checks)
        probe = Spending(costs.tariff, RunBudget(BudgetCaps()), parent=None)
        caps = _build_caps(plan, costs, probe.price_seconds(seconds, "exec"))
        budget = RunBudget(caps, parent=parent)
        if probe.is_idle:
            yield RunBooks(budget)
            return
        spending = Spending(costs.tariff, budget, parent=parent)
        books = RunBooks(budget, spending)
        kept = caps.headroom_units if costs.tariff.unit == "units" else caps.headroom_usd
        books.take(spending.keep_headroom(seconds, Decimal(kept)))
        with books.keep():
            yield books


def price_acceptance(plan: PlannedRun, settings: RunSettings) -> Decimal:
    """Dollars that envelopes must have before a run begins: its acceptance, as far as its cap keeps it."""
    costs = find_costs(plan, settings)
    if costs is None or costs.tariff.unit != "usd":
        return Decimal(0)
    seconds = _count_check_seconds(plan.loaded.contract.checks)
    value = Spending(costs.tariff, RunBudget(BudgetCaps()), parent=None).price_seconds(seconds, "exec")
    return min(value, Decimal(_choose_headroom(plan.limits.cost_usd, value)))


def find_costs(plan: PlannedRun, settings: RunSettings) -> CostAccess | None:
    """What prices a run; None: nothing does."""
    if isinstance(plan.agent, ModelAgent) and settings.models is not None:
        return settings.models.costs
    return settings.costs


def _count_check_seconds(checks: tuple[Check, ...]) -> int:
    """The most that acceptance may take by its own declarations, suites with wrong expectations included."""
    return sum(
        (check.timeout_seconds or CHECK_SECONDS) * len(check.all_runners) * check.repeats * 2
        for check in checks
    )


def _build_caps(plan: PlannedRun, costs: CostAccess | None, acceptance: Decimal) -> BudgetCaps:
    limits = plan.limits
    units = None if costs is None else costs.unit_cap
    is_units = costs is not None and costs.tariff.unit == "units"
    usd_needs, unit_needs = (Decimal(0), acceptance) if is_units else (acceptance, Decimal(0))
    return BudgetCaps(
        cost_usd=decimal_text(limits.cost_usd),
        cost_units=units,
        tokens=limits.tokens,
        tool_calls=limits.tool_calls,
        failed_checks=limits.failed_check_cycles,
        headroom_usd=_choose_headroom(limits.cost_usd, usd_needs),
        headroom_units="0" if units is None or not is_units else _choose_headroom(Decimal(units), unit_needs),
    )


def _choose_headroom(cap: Decimal, needs: Decimal) -> str:
    return decimal_text(min(cap * _MOST_SHARE, max(cap * _LEAST_SHARE, needs)))
