"""The page of a pilot, narrow and wide: one task, no success, nothing conducted, many arms; and its plan."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from repotrial.analysis import Pilot, PilotArm, PowerAnalysis, analyze_pilot, check_pilot, judge_planned
from repotrial.conduct import render_pilot
from repotrial.cost import load_price_book
from repotrial.report import PilotView, PlanView, ReportDocument, build_document, render_document
from repotrial.report.figures.canvas import Figure
from support.miniature_pilots import conduct_pilot
from support.pages import read_report


@cache
def build_plan(arms: int = 2, tasks: int = 12) -> PlanView:
    names = [f"a{number}" for number in range(arms)]
    text = render_pilot(
        "p1", "suite.toml", [PilotArm(name=name, agent="noop") for name in names], tasks=tasks
    )
    pilot, problems = check_pilot(text.encode())
    assert isinstance(pilot, Pilot), problems
    power = PowerAnalysis.build(pilot, tasks, lambda repeats: Decimal(7) * repeats)
    return PlanView(
        pilot=pilot,
        tasks=tasks,
        power=power,
        power_curves=PowerAnalysis.trace(pilot, tasks),
        costs=tuple((each, Decimal(7) * each) for each in (1, 2, 3)),
        versions=(),
        files={"plan/power-analysis.json": "sha256:aa", "plan/cost-model.csv": "sha256:bb"},
    )


def build_view(root: Path, words: dict[str, list[str]]) -> ReportDocument:
    pilot = conduct_pilot(root, words, contrasts=(), rule={
        "contrast": "none", "adopt_above": 0.0, "reject_below": 0.0, "most_usd_per_success": 5.0,
    })  # fmt: skip
    trials = judge_planned(pilot)
    analysis = analyze_pilot(pilot, load_price_book(None), trials)
    return build_document(pilots=[PilotView(plan=build_plan(), analysis=analysis, trials=trials)])


CASES = {
    "one task": {"a": ["s"], "b": ["f"]},
    "no success": {"a": ["f", "f"], "b": ["e", "f"]},
    "nothing conducted": {"a": ["-", "-"], "b": ["-", "-"]},
    "one arm": {"a": ["s", "f"]},
    "every ending": {"a": ["s", "l", "d"], "b": ["b", "e", "-"]},
    "40 arms": {f"arm-{number:02}": ["-"] for number in range(40)},
}


@pytest.mark.parametrize("case", CASES)
def test_narrow_and_wide_pilots_are_pages(case: str, tmp_path: Path) -> None:
    document = build_view(tmp_path, CASES[case])
    page = read_report(render_document(document, "html").decode())
    assert {"p1-rates", "p1-all-trials", "p1-weight", "sources"} <= set(page.ids)
    assert "nan" not in page.text.lower().split()
    text = render_document(document, "md").decode()
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert max(map(len, tables), default=0) <= 100, "tables fit a terminal"


def find_figures(document: ReportDocument) -> dict[str, Figure]:
    return {figure.name: figure for section in document.sections for figure in section.figures}


def test_planning_figures_show_weights_power_and_projected_cost_and_say_that_they_are_planning() -> None:
    plan = build_plan()
    figures = find_figures(build_document(pilots=[plan]))
    weight, cost, power = (figures[f"p1-{name}"] for name in ("weight", "projection", "power"))
    shares = {str(row[0]): row[1:4] for row in weight.rows}
    assert shares["s: minimal"] == (0.0, 0.4, 0.0)
    assert sum(float(str(values[1])) for values in shares.values()) == pytest.approx(1)
    assert sum(float(str(values[2])) for values in shares.values()) == pytest.approx(1)
    assert [name for name in shares if shares[name][0]] == [
        "G1 patch validity", "G2 build", "G3 acceptance", "G4 safety",
    ]  # fmt: skip
    assert [row[1:3] for row in cost.rows] == [(0.0, 0.0), (1.0, 7.0), (2.0, 14.0), (3.0, 21.0)]
    assert cost.title.startswith("Planning: 3 repeats are expected to cost 21.00 USD")
    assert "not an empirical result" in cost.words
    assert "policy choice" in cost.words
    known = {(row.repeats, row.power) for row in plan.power.rows}
    drawn = {(int(str(row[0]).split()[0]), row[2]) for row in power.rows if row[1] == plan.tasks}
    assert drawn == known, "the curves pass through the table"
    assert cost.sources == (("plan/cost-model.csv", "sha256:bb"),)


def test_differences_by_stratum_are_those_of_the_tasks_of_the_stratum(tmp_path: Path) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["s", "f"] * 4, "b": ["f", "f"] * 4})
    trials = judge_planned(pilot)
    analysis = analyze_pilot(pilot, load_price_book(None), trials)
    found = {one.stratum: one for one in getattr(analysis.pilot, "stratum_contrasts", ())}
    assert {name: (one.tasks, one.difference) for name, one in found.items()} == {
        "rust": (4, 1.0),
        "python": (4, 0.0),
    }
