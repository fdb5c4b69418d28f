"""A pilot as reports take it: its plan at any time; outcomes after its end, or at a look that is paid for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.digest import digest_file
from repotrial.analysis import (
    CostModel,
    LoadedPlan,
    Pilot,
    PowerAnalysis,
    Registration,
    analyze_pilot,
    check_pilot,
    judge_planned,
)
from repotrial.conduct import iter_progress, load_conducted, load_documents
from repotrial.cost import load_price_book

if TYPE_CHECKING:
    from repotrial.report import FrozenVersion, PilotView, PlanView

_US_PER_SECOND: Final = 1_000_000
_POWER: Final = "power-analysis.json"
_COSTS: Final = "cost-model.csv"


def is_pilot(path: Path) -> bool:
    """Whether a directory is that of a pilot which was planned."""
    folder = path / LoadedPlan.FOLDER
    return (path / Pilot.FILE).is_file() and (folder / _POWER).is_file() and (folder / _COSTS).is_file()


def load_pilot_view(directory: Path, look_key: Path | None = None) -> PilotView | PlanView:
    """A pilot with every outcome after its end; before it, and without a look, its plan alone.

    Args:
        directory: The pilot's.
        look_key: The private key that signs a look; None: none is asked for.

    Raises:
        PILOT_BROKEN: a document is not as it was frozen, or a run is not the one that was conducted.
        LOOK_REFUSED: it is too early for a look.
    """
    from repotrial.report import PilotView

    if not (directory / Registration.FOLDER).is_dir():
        return _load_plan(directory)
    documents = load_documents(directory)
    if look_key is None and not documents.journal.has_ended:
        return _load_plan(directory, progress=tuple(iter_progress(directory)))
    pilot = load_conducted(directory, look_key)
    prices = None if pilot.prices is None else directory / pilot.prices
    trials = judge_planned(pilot)
    analysis = analyze_pilot(pilot, load_price_book(prices), trials)
    return PilotView(plan=_load_plan(directory), analysis=analysis, trials=trials)


def _load_plan(directory: Path, *, progress: tuple[str, ...] = ()) -> PlanView:
    from repotrial.report import PlanView

    pilot, problems = check_pilot((directory / Pilot.FILE).read_bytes())
    if pilot is None:
        raise Pilot.build_error(problems, where=directory)
    folder = directory / LoadedPlan.FOLDER
    power = msgspec.json.decode((folder / _POWER).read_bytes(), type=PowerAnalysis)
    names = (Pilot.FILE, *(f"{LoadedPlan.FOLDER}/{path.name}" for path in sorted(folder.iterdir())))
    return PlanView(
        pilot=pilot,
        tasks=power.tasks,
        power=power,
        power_curves=PowerAnalysis.trace(pilot, power.tasks),
        costs=CostModel.read_curve((folder / _COSTS).read_text(encoding="utf-8")),
        versions=tuple(_iter_versions(directory)),
        files={name: digest_file(directory / name) for name in names},
        progress=progress,
    )


def _iter_versions(directory: Path) -> Iterator[FrozenVersion]:
    from repotrial.report import FrozenVersion

    if not (directory / Registration.FOLDER).is_dir():
        return
    record = load_documents(directory).record
    stamps = record.describe_stamps(directory)
    for one in record.registrations:
        frozen = one.signed.predicate
        moment = datetime.fromtimestamp(frozen.frozen_at_us / _US_PER_SECOND, UTC)
        yield FrozenVersion(
            version=frozen.version,
            file=f"{Registration.FOLDER}/{one.path.name}",
            digest=one.digest,
            frozen_at=f"{moment:%Y-%m-%d %H:%M:%S}",
            reason=frozen.reason,
            stamp=stamps[frozen.version],
        )
