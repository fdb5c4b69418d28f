"""The sections of a conducted pilot, one method for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis import PilotFigures, RunRow
from repotrial.report._analysis_sources import name_source
from repotrial.report._document import Section, Table
from repotrial.report._pilot_figures import (
    SHARES,
    draw_failing,
    draw_incidence,
    draw_phases,
    draw_pilot_endings,
    draw_pilot_flow,
    draw_sensitivity,
    draw_strata,
    draw_verdict_errors,
    say_sentence,
    source_runs,
)
from repotrial.report._pilot_view import PilotView
from repotrial.report.figures.canvas import Cell, Figure
from repotrial.score import JudgedRun

NumberedRuns: TypeAlias = Mapping[str, Sequence[tuple[str, JudgedRun, RunRow]]]
"""By arm: the anchor of each run, the run, and its row."""
_PLACES: Final = 4
_WRONG: Final = "False positives and false negatives"


class PilotSections:
    """Builds them, each on its own."""

    def __init__(self, view: PilotView, found: PilotFigures, prefix: str) -> None:
        self._view = view
        self._analysis = view.analysis
        self._found = found
        self._prefix = prefix
        self._by_arm = {arm.name: arm for arm in view.analysis.arms}

    def _section(
        self, name: str, title: str, *parts: Figure | Table | None, words: tuple[str, ...] = ()
    ) -> Section:
        return Section(
            name=f"{self._prefix}{name}",
            title=title,
            words=words,
            figures=tuple(part for part in parts if isinstance(part, Figure)),
            tables=tuple(part for part in parts if isinstance(part, Table)),
        )

    def _draw(self, figure: Figure | None, *names: str) -> Figure | None:
        return source_runs(figure, self._analysis, names)

    def _name_arms(self) -> tuple[str, ...]:
        return tuple(name_source(self._analysis, self._prefix, one.computed_from) for one in self._found.arms)

    def _name_all(self, count: int) -> tuple[str, ...]:
        every = [one.name for one in self._analysis.artefacts if one.name.startswith("runs of ")]
        return (name_source(self._analysis, self._prefix, every),) * count

    def flow(self) -> Section:
        """Contracts and runs from the plan to the analysis."""
        rows: tuple[tuple[Cell, ...], ...] = tuple(self._found.flow.items())
        table = Table(
            title="Every count of the flow",
            name=f"{self._prefix}flows",
            columns=("what", "n"),
            rows=rows,
            sources=self._name_all(len(rows)),
            is_folded=True,
        )
        drawn = self._draw(draw_pilot_flow(self._found, self._prefix), "journal", "plan: plan.json")
        return self._section("pilot-flow", "Flow of contracts and runs", drawn, table)

    def endings(self, base: Section) -> Section:
        """Outcomes and causes."""
        drawn = self._draw(draw_pilot_endings(self._found, self._prefix))
        return msgspec.structs.replace(
            base,
            title="How runs ended",
            figures=(*base.figures, *([drawn] if drawn else [])),
            tables=(),
        )

    def differences(self, base: Section) -> Section:
        """Paired differences, over all tasks and by stratum."""
        drawn = self._draw(draw_strata(self._analysis, self._found, self._prefix))
        rows = tuple(
            (
                f"{one.first} less {one.second}", one.stratum, one.tasks, _round(one.difference),
                _round(one.low), _round(one.high),
            )
            for one in self._found.stratum_contrasts
        )  # fmt: skip
        table = Table(
            title="Paired differences by stratum (exploratory)",
            name=f"{self._prefix}stratum",
            columns=("contrast", "stratum", "tasks", "difference", "low", "high"),
            rows=rows,
            sources=tuple(
                name_source(self._analysis, self._prefix, one.computed_from)
                for one in self._found.stratum_contrasts
            ),
            note="Not adjusted: differences by stratum describe, and decide nothing.",
        )
        return msgspec.structs.replace(
            base,
            figures=(*base.figures, *([drawn] if drawn else [])),
            tables=(*base.tables, *([table] if rows else [])),
        )

    def costs(self, base: Section) -> Section:
        """Costs by phase, per task and per success."""
        phases = list(dict.fromkeys(name for one in self._found.arms for name in one.phases_usd))
        columns = ("arm", *(f"{name}, USD" for name in phases), "tokens of a task")
        rows = tuple(
            (one.arm, *(_round(one.phases_usd[name]) for name in phases), _round(one.tokens_per_task))
            for one in self._found.arms
        )
        columns, rows, absent = _fold_absent(columns, rows)
        table = Table(
            title="Costs by phase, and tokens per task",
            name=f"{self._prefix}phase",
            columns=columns,
            rows=rows,
            sources=self._name_arms(),
            note=f"Of all counted runs of an arm. What is not known is no zero.{absent}",
        )
        drawn = self._draw(draw_phases(self._found, self._prefix))
        return msgspec.structs.replace(
            base,
            figures=(*base.figures, *([drawn] if drawn else [])),
            tables=(table, *base.tables),
        )

    def times(self, base: Section) -> Section:
        """Cumulative incidence, and the map of tasks and arms."""
        drawn = [self._draw(draw_incidence(self._found, self._prefix, of=of)) for of in ("time", "cost")]
        own = [figure for figure in base.figures if not figure.name.endswith("time")]
        return msgspec.structs.replace(base, figures=(*(one for one in drawn if one is not None), *own))

    def failures(self) -> Section:
        """Gates, failure modes, and what the baseline shows."""
        found = self._found
        rows: list[tuple[Cell, ...]] = []
        for words, tasks in (
            ("already satisfied without a change", found.already_satisfied),
            ("already failing for another reason", found.already_failing),
        ):
            value: Cell = tasks if isinstance(tasks, NotComputable) else ", ".join(tasks) or "none"
            rows.append((words, value))
        discovery = found.discovery
        rows += [
            ("failure modes seen", len(discovery.modes)),
            ("chance that one more run shows another mode", _round(discovery.chance_of_another)),
            ("cost of one more failure mode, USD", _round(discovery.usd_for_another)),
        ]
        table = Table(
            title="What the baseline and the modes say",
            name=f"{self._prefix}mode",
            columns=("", "value"),
            rows=tuple(rows),
            sources=self._name_all(len(rows)),
        )
        drawn = self._draw(draw_failing(self._analysis, found, self._prefix))
        return self._section("failures", "Failure modes by gate", drawn, table)

    def verdicts(self) -> Section:
        """How often verdicts were wrong, with the definition (X1)."""
        errors = self._found.verdict_errors
        if isinstance(errors, NotComputable):
            words = (
                "False positive: a correct change was rejected. False negative: a defect was accepted.",
                f"Not computable: {errors.reason}.",
            )
            return self._section("verdict-errors", _WRONG, words=words)
        shares = {words: getattr(errors, name) for name, words in SHARES.items()}
        for mode in errors.modes:
            shares[f"{mode.mode}: rejected, correct"] = mode.false_positives
            shares[f"{mode.mode}: accepted, incorrect"] = mode.false_negatives
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (
                words,
                found.share if isinstance(found.share, NotComputable) else _round(found.share.estimate),
                None if isinstance(found.share, NotComputable) else _round(found.share.low),
                None if isinstance(found.share, NotComputable) else _round(found.share.high),
                _round(found.lowest),
                _round(found.highest),
                found.labels,
            )
            for words, found in shares.items()
        )
        table = Table(
            title="",
            name=f"{self._prefix}error",
            columns=("share", "estimate", "low", "high", "lowest", "highest", "labels"),
            rows=rows,
            sources=self._name_all(len(rows)),
            note=f"{errors.minutes} minutes of people; for each wrong verdict "
            f"{_say(errors.minutes_per_finding)}. A label never changes a verdict.",
        )
        drawn = self._draw(draw_verdict_errors(self._found, self._prefix))
        defined = (say_sentence(errors.definition),)
        return self._section("verdict-errors", _WRONG, drawn, table, words=defined)

    def bounds(self) -> Section:
        """What unknown outcomes could change (X2)."""
        arms = Table(
            title="Rates if all unknown outcomes went one way",
            name=f"{self._prefix}bounds",
            columns=("arm", "indeterminate", "doubtful", "rate, worst", "rate, best"),
            rows=tuple(
                (
                    one.arm,
                    self._by_arm[one.arm].indeterminate,
                    one.doubtful,
                    _round(one.worst_rate),
                    _round(one.best_rate),
                )
                for one in self._found.arms
            ),
            sources=self._name_arms(),
            note="Indeterminate: planned, and no attempt counts. Doubtful: a success with a review flag that "
            "no person has answered; a failure in the worst case.",
        )
        contrasts = Table(
            title="Differences if all unknown outcomes went one way",
            name=f"{self._prefix}tipping",
            columns=("contrast", "worst", "best", "tipping point"),
            rows=tuple(
                (one.name, _round(one.worst), _round(one.best), one.tipping_point)
                for one in self._found.contrasts
            ),
            sources=self._name_all(len(self._found.contrasts)),
            note="Tipping point: so few unknown outcomes, against the arm in front, would leave nothing told "
            "apart.",
        )
        return self._section("indeterminate", "Indeterminate runs: bounds and tipping point", arms, contrasts)

    def rubric(self) -> Section:
        """The rubric, and how far other weights move it."""
        names = ("correctness", "patch_validity", "safety", "efficiency", "score", "score_low", "score_high")
        rows: list[tuple[Cell, ...]] = []
        sources = []
        for one, source in zip(self._found.arms, self._name_arms(), strict=True):
            if not isinstance(one.rubric, NotComputable):
                shares = (_round(getattr(one.rubric, name)) for name in names)
                rows.append((one.arm, one.rubric.trials, *shares, _round(one.rubric.coherence)))
                sources.append(source)
        table = Table(
            title="",
            name=f"{self._prefix}rubric",
            columns=(
                "arm", "runs", "correctness", "patch validity", "safety", "efficiency", "mean",
                "mean, least favorable weights", "most favorable", "coherence",
            ),
            rows=tuple(rows),
            sources=tuple(sources),
            note="Shares of judged runs. Efficiency: ended within the caps of the run; a cap is a policy "
            "choice. Coherence stands beside the score, never in it.",
        )  # fmt: skip
        drawn = self._draw(draw_sensitivity(self._found, self._prefix))
        return self._section("rubric-weights", "Sensitivity to weights", drawn, table if rows else None)

    def counterfactual(self) -> Section:
        """Rates under stricter caps, provisional (Q18)."""
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (one.arm, one.cap, one.share, _round(one.rate), one.label) for one in self._found.counterfactual
        )
        by_arm = dict(zip((one.arm for one in self._found.arms), self._name_arms(), strict=True))
        table = Table(
            title="Rates if a cap had been stricter",
            name=f"{self._prefix}cap",
            columns=("arm", "cap (policy choice)", "share of it", "rate", ""),
            rows=rows,
            sources=tuple(by_arm[one.arm] for one in self._found.counterfactual),
            note="Provisional and not comparable with the rates: an agent that knew of a stricter cap might "
            "have worked otherwise. A cap is a policy choice.",
            is_folded=True,
        )
        return self._section(
            "stricter-caps", "Under stricter caps (a policy choice), provisional", table if rows else None
        )

    def trust(self, numbered: NumberedRuns) -> Section:
        """How far verdicts are protected, and who vouches for the records."""
        rows: list[tuple[Cell, ...]] = []
        sources = []
        by_arm = dict(zip((one.arm for one in self._found.arms), self._name_arms(), strict=True))
        for arm, runs in numbered.items():
            counts = Counter((run.entry.assurance_words or "none", row.trust) for _, run, row in runs)
            for (assurance, trust), count in sorted(counts.items()):
                rows.append((arm, count, assurance, trust))
                sources.append(by_arm[arm])
        table = Table(
            title="",
            name=f"{self._prefix}trust",
            columns=("arm", "runs", "assurance of verdicts", "who vouches for the record"),
            rows=tuple(rows),
            sources=tuple(sources),
            note="Assurance: how far a verdict is protected against the code that it judges.",
        )
        return self._section("assurance", "Assurance and trust", table if rows else None)

    def trials(self, numbered: NumberedRuns) -> Section:
        """Every planned run as a row."""
        known = {anchor: row for runs in numbered.values() for anchor, _, row in runs}
        rows: list[tuple[Cell, ...]] = []
        anchors = []
        for place, one in enumerate(self._view.trials):
            anchor = f"{self._prefix}run{place}"
            row = known.get(anchor)
            anchors.append(anchor)
            rows.append(
                (
                    one.planned.task,
                    one.planned.arm,
                    one.planned.repeat,
                    one.planned.stratum,
                    one.trial.outcome if row is None else row.status,
                    *((None,) * 7 if row is None else _list_facts(row)),
                )
            )
        table = Table(
            title="",
            name=f"{self._prefix}trial",
            columns=(
                "task", "arm", "rep", "stratum", "status", "ended", "G1", "G2", "G3", "G4",
                "cost, USD", "time, s",
            ),
            rows=tuple(rows),
            sources=tuple(anchor if anchor in known else "" for anchor in anchors),
            anchors=tuple(anchors),
            is_sortable=True,
            note="In the order of the plan until a heading is chosen; every planned run is a row. Empty: no "
            "record states it; such rows come last whichever way the table is sorted. Errors and invalid "
            "runs are rows like all others, and count 0 in the rates.",
        )  # fmt: skip
        return self._section("all-trials", "All planned runs", table)

    def deviations(self) -> Section:
        """Departures from the protocol (X6)."""
        found = self._found
        words = [say_sentence(text) for text in found.deviations] or ["None is on record."]
        words += [
            f"{contract}: runs differ in {', '.join(fields)}."
            for contract, fields in found.mixed_conditions.items()
        ]
        return Section(
            name=f"{self._prefix}deviations",
            title="Deviations from the protocol",
            words=tuple(words),
            is_list=True,
        )

    def scope(self) -> Section:
        """What the result is about (Q19)."""
        return Section(
            name=f"{self._prefix}scope",
            title="Scope and shelf life",
            words=tuple(map(say_sentence, self._found.scope)),
            is_list=True,
        )


def _fold_absent(
    columns: tuple[str, ...], rows: tuple[tuple[Cell, ...], ...]
) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...], str]:
    """Columns without one known value become a sentence of the note: a table of reasons hides the numbers."""
    gone = {
        place: cells[0]
        for place, cells in enumerate(zip(*rows, strict=True))
        if isinstance(cells[0], NotComputable) and len(set(cells)) == 1
    }
    kept = [place for place in range(len(columns)) if place not in gone]
    words = "".join(f" Not computable for any arm: {columns[n]} ({cell.reason})." for n, cell in gone.items())
    return tuple(columns[n] for n in kept), tuple(tuple(row[n] for n in kept) for row in rows), words


def _list_facts(row: RunRow) -> tuple[Cell, ...]:
    wall = None if row.wall_seconds is None else round(row.wall_seconds, 1)
    return (row.ended, row.patch, row.build, row.acceptance, row.safety, row.cost_usd, wall)


def _round(value: float | NotComputable) -> Cell:
    return value if isinstance(value, NotComputable) else round(value, _PLACES)


def _say(value: float | NotComputable) -> str:
    return f"not computable ({value.reason})" if isinstance(value, NotComputable) else f"{value:.3g}"
