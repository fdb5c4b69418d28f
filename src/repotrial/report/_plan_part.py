"""What a pilot planned, with the two figures of planning: weights, and projected cost (Q22)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.digest import digest_bytes
from repotrial.report._document import ReportPart, Section, Source, Table
from repotrial.report._pilot_view import PlanView
from repotrial.report.figures.axes import show_share
from repotrial.report.figures.blocks import draw_bars
from repotrial.report.figures.canvas import Cell, Figure
from repotrial.report.figures.plots import Curve, Frame, draw_curves
from repotrial.score import load_artifact, load_weights

_RUBRIC: Final = ("correctness", "patch validity", "safety", "efficiency")
_NO_OUTCOME: Final = (
    "This page has no outcome of any arm: rates come with the end of the pilot, or with a look that is asked "
    "for, paid for and on record."
)
_ON_WEIGHTS: Final = (
    "Gates come first and have no weights: one that does not pass makes a run no success. Weights order "
    "successes (s) and describe arms (rubric); no verdict depends on them."
)
_GATES: Final = ("G1 patch validity", "G2 build", "G3 acceptance", "G4 safety")


def build_plan_part(view: PlanView, *, prefix: str) -> ReportPart:
    """The page of a pilot that was planned and has no result yet: no outcome of any arm is in it."""
    pilot = view.pilot
    power = view.power
    most = view.costs[-1] if view.costs else None
    cost = "" if most is None else f" {most[0]} repeats are expected to cost {most[1]:.2f} USD (planning)."
    effect = f"{power.relevant_effect * 100:.0f} points or more"
    aim = f"Planned: {len(pilot.arms)} arms on {view.tasks} tasks, to find a difference of {effect}.{cost}"
    sections = [*iter_plan_sections(view, prefix), *iter_protocol_sections(view, prefix)]
    return ReportPart(
        title=f"Pilot {pilot.id}: the plan",
        lead=(aim, _NO_OUTCOME, *view.progress),
        sections=tuple(sections),
        sources=tuple(
            Source(name=f"{prefix}plan{n}", file=file, digest=digest, words="of its bytes")
            for n, (file, digest) in enumerate(view.files.items())
        ),
    )


def iter_plan_sections(view: PlanView, prefix: str) -> Iterator[Section]:
    """Power, projected cost and weights: planning, not results."""
    figures = [draw_power(view, prefix)]
    if (projected := draw_projection(view, prefix)) is not None:
        figures.append(projected)
    yield Section(
        name=f"{prefix}planning",
        title="Planning, not results: power and cost",
        figures=tuple(figures),
        tables=(_build_power(view, prefix),),
    )
    yield Section(
        name=f"{prefix}weights",
        title="What counts how much",
        words=(_ON_WEIGHTS,),
        figures=(draw_weights(prefix),),
    )


def draw_power(view: PlanView, prefix: str) -> Figure:
    """Chance to find the smallest relevant effect, by tasks and repeats."""
    power = view.power
    planned = view.pilot.stages.most
    own = next((row for row in power.rows if row.repeats == planned), power.rows[-1])
    frame = Frame(
        name=f"{prefix}power",
        title=f"{view.tasks} tasks with {own.repeats} repeats find a difference of "
        f"{power.relevant_effect * 100:.0f} points with a chance of {own.power:.0%}",
        words="Planning: the chance that a contrast finds the smallest relevant difference, by the number of "
        f"tasks, at the level of one contrast ({power.level:.3g}) and with the presumed correlations "
        f"(of two runs on one task {power.icc:g}, of two arms on one task {power.pair_correlation:g}).",
        x_label="tasks",
        y_label="power",
        show_y=show_share,
    )
    curves = [
        Curve(label=f"{repeats} repeat" + ("" if repeats == 1 else "s"), points=points)
        for repeats, points in sorted(view.power_curves.items())
    ]
    lines = ((power.power, f"registered power {power.power:.0%}"),)
    drawn = draw_curves(frame, curves, around_x=(0.0,), lines=lines)
    return _source(drawn, view, "power-analysis.json", "pilot.toml")


def draw_projection(view: PlanView, prefix: str) -> Figure | None:
    """Expected cost by repeats; None if nothing was projected."""
    if not view.costs:
        return None
    repeats, most = view.costs[-1]
    limit = float(view.pilot.envelopes.total_usd)
    frame = Frame(
        name=f"{prefix}projection",
        title=f"Planning: {repeats} repeats are expected to cost {most:.2f} USD, of {limit:.2f} USD at most",
        words="A projection used for planning and budgeting, not an empirical result: expected cost of all "
        "runs of all arms, by the number of repeats. The line is the envelope of the pilot: a cap, and a cap "
        "is a policy choice.",
        x_label="repeats of each arm on each task",
        y_label="USD, expected",
    )
    points = ((0.0, 0.0), *((float(n), float(usd)) for n, usd in view.costs))
    drawn = draw_curves(
        frame,
        [Curve(label="expected cost", points=points)],
        around_x=(0.0,),
        around_y=(0.0,),
        lines=((limit, f"envelope {limit:.2f} USD (a cap: policy choice)"),),
    )
    return _source(drawn, view, "cost-model.csv")


def draw_weights(prefix: str) -> Figure:
    """Gates and weights of graded dimensions and of the rubric, as published with this release."""
    weights = load_weights().weights
    graded = [(name, float(getattr(weights, name))) for name in weights.__struct_fields__]
    share = 1 / len(_RUBRIC)
    rows = [
        *((gate, (1.0, 0.0, 0.0)) for gate in _GATES),
        *((f"s: {name}", (0.0, value, 0.0)) for name, value in graded),
        *((f"rubric: {name}", (0.0, 0.0, share)) for name in _RUBRIC),
    ]
    heaviest = max(graded, key=lambda item: item[1])
    frame = Frame(
        name=f"{prefix}weight",
        title=f"Four gates decide; {heaviest[0]} weighs most among what orders successes ({heaviest[1]:g})",
        words="Gates: each must pass (1 = necessary). s: weights of the graded dimensions, unless a contract "
        "declares others. Rubric: its four components weigh alike. Weights are a policy choice: pages of "
        "results show how far others could move a score.",
        x_label="weight",
        show_x=lambda value: f"{value:g}",
    )
    drawn = draw_bars(frame, ("gate: must pass", "graded dimension", "rubric component"), rows)
    digest = digest_bytes(load_artifact("weights.json"))
    return msgspec.structs.replace(drawn, sources=(("weights.json (published with the release)", digest),))


def _source(figure: Figure, view: PlanView, *names: str) -> Figure:
    used = tuple((file, digest) for file, digest in view.files.items() if file.endswith(names))
    return msgspec.structs.replace(figure, sources=used)


def _build_power(view: PlanView, prefix: str) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (row.repeats, row.deviation, row.smallest_effect, row.power, row.simulated, float(row.expected_usd))
        for row in view.power.rows
    )
    place = next((n for n, file in enumerate(view.files) if file.endswith("power-analysis.json")), None)
    endless = view.power.endless
    limit = (
        f"not computable ({endless.reason})"
        if isinstance(endless, NotComputable)
        else f"{endless * 100:.1f} points"
    )
    return Table(
        title="What a number of repeats can show",
        name=f"{prefix}powers",
        columns=(
            "repeats",
            "SD of a task's difference",
            "smallest effect",
            "power",
            "simulated",
            "USD, expected",
        ),
        rows=rows,
        sources=() if place is None else tuple(f"{prefix}plan{place}" for _ in rows),
        note=f"Endless repeats on these tasks could show {limit} at least. {view.power.source}. "
        + " ".join(f"{note[:1].upper()}{note[1:]}." for note in view.power.notes),
    )


def iter_protocol_sections(view: PlanView, prefix: str) -> Iterator[Section]:
    """Pre-registration, and the registers of assumptions and risks."""
    pilot = view.pilot
    versions = Table(
        title="",
        name=f"{prefix}registration",
        columns=("version", "frozen at (UTC)", "digest", "time stamp of others", "why"),
        rows=tuple(
            (one.version, one.frozen_at, one.digest, one.stamp or "none", one.reason or "pre-registration")
            for one in view.versions
        ),
        note="The clock is the one of the machine that froze; only a time stamp of others shows that the "
        "plan came before the runs.",
    )
    yield Section(
        name=f"{prefix}registrations",
        title="Pre-registration",
        words=() if view.versions else ("Nothing was frozen yet.",),
        tables=(versions,) if view.versions else (),
    )
    yield Section(
        name=f"{prefix}assumptions",
        title="Assumptions and risks",
        tables=(
            Table(
                title="Assumptions",
                columns=("assumption", "source", "refuted by"),
                rows=tuple((one.text, one.source, one.refuted_by) for one in pilot.assumptions),
            ),
            Table(
                title="Risks",
                columns=("asset", "threat", "mitigation", "cost", "harm"),
                rows=tuple(
                    (one.asset, f"{one.boundary}: {one.threat}", one.mitigation, one.cost_impact, one.harm)
                    for one in pilot.risks
                ),
                note="A cap, an envelope or a breaker's threshold is a policy choice.",
                is_folded=True,
            ),
        ),
    )
