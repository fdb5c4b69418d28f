"""Expected cost of a plan in four terms, with a curve over the repeats: planning, not result (B1, Q21)."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from repotrial._core.absence import NotComputable
from repotrial._core.canonical import decimal_text
from repotrial.analysis._plan_build import TaskFacts
from repotrial.analysis._plan_document import Pilot
from repotrial.analysis._plan_rows import PlannedRow, render_csv
from repotrial.cost import PriceBook

_HEADER: Final = (
    "kind", "label", "stage", "repeats", "arm", "runs", "c_lm_usd", "c_exec_usd", "c_human_usd",
    "c_overhead_usd", "total_usd", "cumulative_usd", "basis",
)  # fmt: skip
_MINUTE_US: Final = 60_000_000
_UNKNOWN: Final = "not known before the first run"


class CostModel:
    """What runs are expected to cost."""

    def __init__(
        self, pilot: Pilot, tasks: Sequence[TaskFacts], book: PriceBook, asking: frozenset[str]
    ) -> None:
        """`asking`: arms that ask a model."""
        self._pilot = pilot
        self._book = book
        self._asking = asking
        self._tasks = {task.id: task for task in tasks}

    def price_run(self, arm: str) -> tuple[Decimal, str]:
        """C_LM of one run, and where the figure comes from."""
        found = next(each for each in self._pilot.arms if each.name == arm)
        if found.expected_usd is not None:
            return found.expected_usd, "declared in pilot.toml"
        if arm not in self._asking:
            return Decimal(0), "asks no model"
        return self._pilot.envelopes.run_usd, "the cap of a run: nothing was declared"

    def price_execution(self, task: str) -> Decimal | None:
        """C_exec of the checks of one run; None where they were not timed or have no price."""
        measured = self._tasks[task].complexity
        if measured is None or isinstance(measured.test_us, NotComputable):
            return None
        price = self._book.actions.get("exec:wall")
        return None if price is None else price.apply(measured.test_us)

    def price_author(self, arm: str) -> Decimal | None:
        """C_human of the declared work of an arm's author; None where people have no price."""
        minutes = next(each.author_minutes for each in self._pilot.arms if each.name == arm)
        if not minutes:
            return Decimal(0)
        price = self._book.actions.get("human:minute")
        return None if price is None else price.apply(minutes * _MINUTE_US)

    def price_repeats(self, repeats: int) -> Decimal:
        """All runs of all arms with so many repeats."""
        arms = [arm.name for arm in self._pilot.arms]
        models = sum((self.price_run(arm)[0] for arm in arms), start=Decimal(0)) * len(self._tasks)
        checks = sum((self.price_execution(task) or Decimal(0) for task in self._tasks), start=Decimal(0))
        people = sum((self.price_author(arm) or Decimal(0) for arm in arms), start=Decimal(0))
        return (models + checks * len(arms)) * repeats + people

    def render(self, rows: Sequence[PlannedRow]) -> str:
        """`cost-model.csv`: a line for each stage and arm, then the curve over repeats."""
        return render_csv(_HEADER, [*self._iter_stages(rows), *self._iter_curve()])

    @staticmethod
    def read_curve(text: str) -> tuple[tuple[int, Decimal], ...]:
        """The curve over repeats out of a `cost-model.csv`."""
        rows = csv.DictReader(text.splitlines())
        return tuple(
            (int(row["repeats"]), Decimal(row["total_usd"])) for row in rows if row["kind"] == "curve"
        )

    def _iter_stages(self, rows: Sequence[PlannedRow]) -> Iterator[tuple[object, ...]]:
        total = Decimal(0)
        counts = Counter((row.stage, row.arm) for row in rows)
        for (stage, arm), runs in sorted(counts.items()):
            per_run, basis = self.price_run(arm)
            checks = [self.price_execution(row.task) for row in rows if (row.stage, row.arm) == (stage, arm)]
            known = [value for value in checks if value is not None]
            execution = sum(known, start=Decimal(0)) if len(known) == len(checks) else None
            human = self.price_author(arm) if stage == 1 else Decimal(0)
            sums: Mapping[str, Decimal | None] = {"lm": per_run * runs, "exec": execution, "human": human}
            line = sum((value for value in sums.values() if value is not None), start=Decimal(0))
            total += line
            words = [_say(value) for value in sums.values()]
            yield "stage", "planning", stage, "", arm, runs, *words, _UNKNOWN, _say(line), _say(total), basis

    def _iter_curve(self) -> Iterator[tuple[object, ...]]:
        arms = len(self._pilot.arms)
        for repeats in range(1, self._pilot.stages.most + 1):
            cost = self.price_repeats(repeats)
            runs = repeats * arms * len(self._tasks)
            yield (
                "curve",
                "planning",
                "",
                repeats,
                "",
                runs,
                "",
                "",
                "",
                "",
                _say(cost),
                _say(cost),
                "projection",
            )


def _say(value: Decimal | None) -> str:
    return "not computable" if value is None else decimal_text(value)
