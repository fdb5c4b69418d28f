"""Changes of flaky contracts are judged again, as often as registered, out of the same envelopes (B11)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from repotrial._core.words import Level
from repotrial.analysis import PlannedRow
from repotrial.conduct._journal import AGAIN
from repotrial.conduct._stages import PilotState
from repotrial.conduct._state import PilotRun
from repotrial.contract import RunCaps
from repotrial.cost import Amount
from repotrial.run import PatchAgent, PlannedRun, build_spec
from repotrial.score import price_run

_NAME = "judged-again"


class Judgment(NamedTuple):
    """One more judgment of a change that a planned run made."""

    row: PlannedRow
    run: PlannedRun


class Adjudicator:
    """What is still to be judged again, by the journal and the runs alone: a crash loses nothing."""

    def __init__(self, state: PilotState) -> None:
        self._state = state

    def list_open(self, run_ids: set[str]) -> list[Judgment]:
        """The next judgment of each of these planned runs that the rule wants judged again.

        A run whose own budget is used up gets none: that is on record then, and decides (B11).
        """
        found = []
        for one in self._state.list_runs(1, 2, 3):
            if one.row.run_id in run_ids and one.adjudicated is not None and one.adjudicated.outcome is None:
                rest = self._find_rest(one)
                if rest > 0:
                    found.append(Judgment(row=one.row, run=self._build(one, rest)))
                else:
                    self.end(one.row, "run-envelope")
        return found

    def start(self, judgment: Judgment) -> None:
        """Put on record that it begins."""
        self._state.journal.append(
            "started", run_id=judgment.run.spec.run_id, data={AGAIN: judgment.row.run_id}
        )

    def end(self, row: PlannedRow, reason: str) -> None:
        """Put on record that an envelope does not allow another judgment."""
        self._state.journal.append("adjudicated", run_id=row.run_id, data={"reason": reason})

    def _find_rest(self, one: PilotRun) -> Decimal:
        """What is left of B_run."""
        statements = [self._state.price(one)]
        book = self._state.study.book
        statements += [price_run(run.directory, book).statement for run in one.again]
        spent = sum(
            (
                term.decimal
                for statement in statements
                for term in (statement.lm, statement.exec, statement.human, statement.overhead)
                if isinstance(term, Amount) and term.unit == "usd"
            ),
            start=Decimal(0),
        )
        return self._state.pilot.envelopes.run_usd - spent

    def _build(self, one: PilotRun, rest: Decimal) -> PlannedRun:
        study, row = self._state.study, one.row
        change = one.judged.evidence.change
        assert isinstance(change, bytes), "is_adjudicated refuses runs without a change"
        # Its name makes each run's judgments its own, also where two arms made the same change.
        agent = PatchAgent(name=f"{_NAME}-{row.run_id.rpartition('-')[2]}", patch=change)
        loaded = study.contracts[row.task]
        spec = build_spec(
            loaded,
            agent,
            level=Level(study.pilot.isolation),
            root_seed=study.pilot.seed,
            replicate=len(one.again) + 1,
            caps=RunCaps(cost_usd=rest),
        )
        return PlannedRun(loaded=loaded, agent=agent, spec=spec)


def iter_unfinished(state: PilotState) -> Iterator[str]:
    """Planned runs whose change is still to be judged again."""
    for one in state.list_runs(1, 2, 3):
        if one.adjudicated is not None and one.adjudicated.outcome is None:
            yield one.row.run_id
