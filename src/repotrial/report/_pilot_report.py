"""A conducted pilot as a page: the decision, everything it rests on, and every run behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from repotrial.analysis import PilotFigures, RunRow, TrialTable, build_run_row
from repotrial.report._analysis_report import build_analysis_part
from repotrial.report._document import ReportPart, Source
from repotrial.report._pilot_sections import NumberedRuns, PilotSections
from repotrial.report._pilot_view import PilotView
from repotrial.report._plan_part import iter_plan_sections, iter_protocol_sections
from repotrial.report._runs_report import iter_views
from repotrial.report._side_by_side import build_side_by_side
from repotrial.score import JudgedRun


def build_pilot_part(
    view: PilotView, *, prefix: str, is_shared: bool, pages: Mapping[Path, str]
) -> ReportPart:
    """All of a pilot.

    Args:
        view: The pilot.
        prefix: Before all anchors, so that several pilots fit into one report.
        is_shared: Whether source code, prompts and outputs are left out.
        pages: For each run directory its own page, as a link.
    """
    analysis, found = view.analysis, view.analysis.pilot
    assert isinstance(found, PilotFigures)
    numbered = _number(view, prefix)
    table = TrialTable(
        file="runs",
        digest=analysis.artefacts[0].digest,
        trials=tuple(one.trial for one in view.trials),
    )
    part = build_analysis_part(analysis, table, prefix=prefix, cells=_find_cells(view, prefix, pages))
    base = {section.name.removeprefix(prefix): section for section in part.sections}
    build = PilotSections(view, found, prefix)
    sections = [
        build.flow(),
        base["success"],
        build.endings(base["outcomes-by-arm"]),
        build.differences(base["paired"]),
        build.costs(base["costs"]),
        build.times(base["tasks"]),
        build.failures(),
        build.verdicts(),
        build.bounds(),
        build.rubric(),
        base["repeats"],
        build.counterfactual(),
        build.trust(numbered),
        build.trials(numbered),
        *build_side_by_side(numbered, is_shared=is_shared, prefix=prefix),
        build.deviations(),
        *iter_plan_sections(view.plan, prefix),
        *iter_protocol_sections(view.plan, prefix),
        build.scope(),
        base["notes"],
    ]
    return msgspec.structs.replace(
        part,
        title=f"Pilot {found.pilot}: {part.title}",
        sections=tuple(section for section in sections if section.figures or section.tables or section.words),
        runs=tuple(iter_views(numbered, is_shared=is_shared, pages=pages)),
        sources=(*part.sources, *_iter_runs(numbered), *_iter_plan(view, prefix)),
    )


def _number(view: PilotView, prefix: str) -> dict[str, list[tuple[str, JudgedRun, RunRow]]]:
    numbered: dict[str, list[tuple[str, JudgedRun, RunRow]]] = {arm.name: [] for arm in view.analysis.arms}
    for place, one in enumerate(view.trials):
        if one.run is not None:
            numbered[one.planned.arm].append((f"{prefix}run{place}", one.run, build_run_row(one.run)))
    return numbered


def _find_cells(view: PilotView, prefix: str, pages: Mapping[Path, str]) -> dict[tuple[str, str], str]:
    """Where the cell of a task and an arm leads: the page of its first run, else its row."""
    found: dict[tuple[str, str], str] = {}
    for place, one in enumerate(view.trials):
        if one.run is not None:
            link = pages.get(one.run.directory) or f"#{prefix}run{place}-all"
            found.setdefault((one.planned.task, one.planned.arm), link)
    return found


def _iter_runs(numbered: NumberedRuns) -> Iterator[Source]:
    for runs in numbered.values():
        for anchor, run, row in runs:
            yield Source(
                name=anchor,
                file=f"runs/{run.directory.name}/trace.jsonl",
                digest=row.head_hash or "none: no event of the trace holds",
                words="hash of the last verified event",
            )


def _iter_plan(view: PilotView, prefix: str) -> Iterator[Source]:
    for place, (file, digest) in enumerate(view.plan.files.items()):
        yield Source(name=f"{prefix}plan{place}", file=file, digest=digest, words="of its bytes")
