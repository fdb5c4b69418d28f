"""From a pilot and a suite to a plan: strata, one random order, runs blocked by task (B7, P29)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from repotrial._core.absence import NotComputable
from repotrial._core.digest import Digest
from repotrial._core.seed import ROOT_SEED
from repotrial.analysis._plan_document import Pilot, StratumFactor
from repotrial.analysis._plan_rows import LoadedPlan, PilotPlan, PlannedRow, PlannedTask
from repotrial.contract import Complexity, GraphSize

_LARGEST_STAGE_1: Final = 4
"""Stage 1 takes at most one in so many tasks."""
_FACTORS: Final[tuple[StratumFactor, ...]] = ("ecosystem", "kind", "test-seconds", "dependencies", "tier")
_UNKNOWN: Final = "unknown"
_REST: Final = "merged"


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan knows of a contract."""

    id: str
    version_id: Digest
    ecosystem: str | None
    kind: str
    complexity: Complexity | None
    """What was measured; None if nothing was."""


def find_factors(pilot: Pilot, task: TaskFacts) -> dict[str, str]:
    """Every factor of a task, as a word."""
    strata, measured = pilot.strata, task.complexity
    seconds = lines = packages = None
    if measured is not None:
        seconds = None if isinstance(measured.test_us, NotComputable) else measured.test_us / 1e6
        lines = sum(measured.lines.values())
        packages = measured.dependencies.nodes if isinstance(measured.dependencies, GraphSize) else 0
    return {
        "ecosystem": task.ecosystem or _UNKNOWN,
        "kind": task.kind,
        "test-seconds": _cut(seconds, strata.test_seconds),
        "dependencies": _cut(packages, strata.dependencies),
        "tier": _cut(lines, strata.tier_lines),
    }


def _cut(value: float | None, cuts: Sequence[int]) -> str:
    if value is None:
        return _UNKNOWN
    above = sum(value >= cut for cut in cuts)
    if above == 0:
        return f"<{cuts[0]}" if cuts else "all"
    return f">={cuts[above - 1]}" if above == len(cuts) else f"{cuts[above - 1]}-{cuts[above]}"


def merge_cells(cells: Sequence[tuple[str, ...]], smallest: int) -> dict[tuple[str, ...], str]:
    """The stratum of each cell: small cells join the smallest other cell of the same first factor.

    Cells that have none come last, and join the smallest of all. The smallest cell comes first, and equal
    ones by name, so that the result does not depend on the order of tasks.
    """
    sizes = Counter(cells)
    groups = {cell: [cell] for cell in sizes}
    while True:
        alike = {
            name: [other for other in groups if other != name and other[:1] == name[:1]] for name in groups
        }
        small = sorted(
            (not alike[name], sum(sizes[each] for each in members), name)
            for name, members in groups.items()
            if sum(sizes[each] for each in members) < smallest
        )
        if not small or len(groups) == 1:
            break
        name = small[0][-1]
        others = alike[name] or [other for other in groups if other != name]
        target = min(others, key=lambda other: (sum(sizes[each] for each in groups[other]), other))
        groups[target] = sorted([*groups[target], *groups.pop(name)])
    return {
        cell: " + ".join(" / ".join(each) for each in members)
        for members in groups.values()
        for cell in members
    }


def build_plan(
    pilot: Pilot,
    digests: tuple[Digest, Digest],
    tasks: Sequence[TaskFacts],
    arms: Mapping[str, Digest],
    find_run_id: Callable[[str, str, int, int], str],
) -> LoadedPlan:
    """The plan of a pilot.

    Args:
        pilot: The pilot.
        digests: Of `pilot.toml`, and the suite's id.
        tasks: Its contracts.
        arms: What each arm is, exactly.
        find_run_id: The run's id, by task, arm, replicate and stage.
    """
    ordered = sorted(tasks, key=lambda task: task.id)
    factors = {task.id: find_factors(pilot, task) for task in ordered}
    cells = {task.id: tuple(factors[task.id][name] for name in pilot.strata.factors) for task in ordered}
    strata = merge_cells([*cells.values()], pilot.strata.smallest_cell)
    order_stream, arm_stream = np.random.SeedSequence(pilot.seed).spawn(2)
    order = [ordered[place] for place in np.random.default_rng(order_stream).permutation(len(ordered))]
    first = _choose_stage_1([strata[cells[task.id]] for task in order])
    doubled = math.ceil(pilot.stages.doubled_share * len(order))
    planned = tuple(
        PlannedTask(
            id=task.id,
            version_id=task.version_id,
            stratum=strata[cells[task.id]],
            cell=" / ".join(cells[task.id]),
            factors=factors[task.id],
            stage_1=place in first,
            is_doubled=place < doubled,
        )
        for place, task in enumerate(order)
    )
    plan = PilotPlan(
        pilot=pilot.id,
        pilot_digest=digests[0],
        suite_id=digests[1],
        seed=pilot.seed,
        tasks=planned,
        arms=dict(arms),
        merged={task.cell: task.stratum for task in planned if task.cell != task.stratum},
        deviations=()
        if pilot.seed == ROOT_SEED
        else (f"the root seed is {pilot.seed}, not the planned {ROOT_SEED}",),
    )
    return LoadedPlan(plan=plan, rows=tuple(_iter_rows(pilot, planned, arm_stream, find_run_id)))


def _choose_stage_1(strata: Sequence[str]) -> frozenset[int]:
    """The first task of each stratum in the random order; at most a quarter of all, and at least one."""
    most = max(1, len(strata) // _LARGEST_STAGE_1)
    first: dict[str, int] = {}
    for place, stratum in enumerate(strata):
        first.setdefault(stratum, place)
    return frozenset(sorted(first.values())[:most])


def _iter_rows(
    pilot: Pilot,
    tasks: Sequence[PlannedTask],
    stream: np.random.SeedSequence,
    find_run_id: Callable[[str, str, int, int], str],
) -> Iterator[PlannedRow]:
    generator = np.random.default_rng(stream)
    names = sorted(arm.name for arm in pilot.arms)
    order = 0
    done = dict.fromkeys((task.id for task in tasks), 0)
    for stage in (1, 2, 3):
        for block, task in enumerate(tasks):
            until = _count_runs(pilot, task, stage)
            for replicate in range(done[task.id], until):
                for place in generator.permutation(len(names)):
                    arm = names[place]
                    yield PlannedRow(
                        order=order,
                        stage=stage,
                        block=block,
                        task=task.id,
                        stratum=task.stratum,
                        arm=arm,
                        replicate=replicate,
                        run_id=find_run_id(task.id, arm, replicate, stage),
                    )
                    order += 1
            done[task.id] = max(done[task.id], until)


def _count_runs(pilot: Pilot, task: PlannedTask, stage: int) -> int:
    """Runs of each arm on a task after a stage."""
    if stage == 1:
        return int(task.stage_1)
    if stage == 2:  # noqa: PLR2004 - the second of three
        return max(pilot.stages.stage_2, 2 if task.is_doubled else 1)
    return pilot.stages.most
