"""A pilot in its directory: the document, the suite, the arms as agents, and what is planned for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from repotrial import __version__
from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.files import write_atomic
from repotrial._core.schema import build_document_schema
from repotrial._core.seed import ROOT_SEED
from repotrial._core.words import Level
from repotrial.analysis import (
    CostModel,
    LoadedPlan,
    Pilot,
    PilotArm,
    PowerAnalysis,
    ReviewLabel,
    TaskFacts,
    build_plan,
)
from repotrial.contract import Complexity, LoadedContract, RunCaps, RunSpec, SuiteLock
from repotrial.cost import PriceBook
from repotrial.run import Agent, ModelAccess, ModelAgent, PlannedRun, build_spec
from repotrial.score import load_taxonomy

_LAST: Final = 3
_MEASURE: Final = "run `repotrial contract complexity` on them"
ROWS: Final = "randomization-plan.csv"


@dataclass(frozen=True, kw_only=True)
class StudyArm:
    """An arm, resolved to agents."""

    arm: PilotArm
    agents: Mapping[str, Agent]
    """By task."""
    models: ModelAccess | None = None
    """Its own model source; opened for conducting only."""

    @property
    def asks_model(self) -> bool:
        return any(isinstance(agent, ModelAgent) for agent in self.agents.values())


@dataclass(frozen=True, kw_only=True)
class Study:
    """Everything that a pilot is made of, read once."""

    directory: Path
    pilot: Pilot
    suite: SuiteLock
    contracts: Mapping[str, LoadedContract]
    """By id."""
    arms: Mapping[str, StudyArm]
    book: PriceBook
    files: Mapping[str, Path]
    """What is digested at freezing, by the name in the registration: `pilot.toml`, prices, scripts …"""

    @property
    def runs(self) -> Path:
        return self.directory / LoadedPlan.RUNS

    @cached_property
    def tasks(self) -> tuple[TaskFacts, ...]:
        """What the plan knows of the contracts."""
        versions = {entry.id: entry.version_id for entry in self.suite.contracts}
        return tuple(
            TaskFacts(
                id=name,
                version_id=versions[name],
                ecosystem=loaded.contract.ecosystem,
                kind=loaded.contract.kind,
                complexity=Complexity.load(loaded.directory),
            )
            for name, loaded in sorted(self.contracts.items())
        )

    @property
    def cost_model(self) -> CostModel:
        asking = frozenset(name for name, arm in self.arms.items() if arm.asks_model)
        return CostModel(self.pilot, self.tasks, self.book, asking)

    def build_spec(self, task: str, arm: str, replicate: int, stage: int) -> RunSpec:
        """The run of an arm on a task; its id is in the plan."""
        own = self.arms[arm]
        return build_spec(
            self.contracts[task],
            own.agents[task],
            level=Level(self.pilot.isolation),
            root_seed=self.pilot.seed,
            replicate=replicate,
            caps=self.find_caps(own.arm, stage),
        )

    def find_caps(self, arm: PilotArm, stage: int) -> RunCaps:
        """Caps of an arm: its own before those of all; B_run is one of them (B4); stage 3 may relax some."""
        shared, own = (msgspec.structs.asdict(caps) for caps in (self.pilot.caps, arm.caps or RunCaps()))
        merged = {name: own[name] if own[name] is not None else value for name, value in shared.items()}
        if merged["cost_usd"] is None or merged["cost_usd"] > self.pilot.envelopes.run_usd:
            merged["cost_usd"] = self.pilot.envelopes.run_usd
        if stage == _LAST:
            merged |= {each.field: each.value for each in self.pilot.relaxations}
        return RunCaps(**merged)

    def build_run(self, task: str, arm: str, replicate: int, *, stage: int) -> PlannedRun:
        """A run that is to be conducted."""
        own = self.arms[arm]
        return PlannedRun(
            loaded=self.contracts[task],
            agent=own.agents[task],
            spec=self.build_spec(task, arm, replicate, stage),
            models=own.models,
        )

    def build_plan(self) -> LoadedPlan:
        """The plan that the pilot leads to; the same pilot always has the same."""
        return build_plan(
            self.pilot,
            (digest_bytes(self.files[Pilot.FILE].read_bytes()), self.suite.suite_id),
            self.tasks,
            {name: self.digest_arm(name) for name in self.arms},
            lambda *cell: self.build_spec(*cell).run_id,
        )

    def digest_arm(self, arm: str) -> Digest:
        """What an arm is, exactly."""
        specs = [self.build_spec(task.id, arm, 0, 1).run_spec_id for task in self.tasks]
        return canonical_digest(["repotrial/arm@1", arm, [*specs]])


class PlanResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `pilot plan` found; nothing was spent."""

    directory: str
    loaded: LoadedPlan
    power: PowerAnalysis
    files: tuple[str, ...]
    """What was written."""

    @classmethod
    def build(cls, study: Study) -> PlanResult:
        """Plan a pilot and write all its artefacts (Q21).

        Raises:
            PILOT_INVALID: the plan could not show what would matter; nothing is written.
        """
        power = PowerAnalysis.build(study.pilot, len(study.tasks), study.cost_model.price_repeats)
        _verify(study, power)
        loaded = study.build_plan()
        folder = study.directory / LoadedPlan.FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        texts = _build_artefacts(study, loaded, power)
        for name, text in texts.items():
            write_atomic(folder / name, text if isinstance(text, bytes) else text.encode())
        return cls(directory=str(study.directory), loaded=loaded, power=power, files=tuple(sorted(texts)))


def _verify(study: Study, power: PowerAnalysis) -> None:
    problems = []
    if (refusal := power.refusal) is not None:
        needed = power.needed_tasks
        hint = "add tasks, or accept that only larger effects can be shown: raise smallest_effect"
        if isinstance(needed, int):
            hint = f"{needed} tasks would do; or raise smallest_effect"
        problems.append(Pilot.build_problem("smallest_effect", refusal, hint))
    unknown = [name for name in study.pilot.adjudication.contracts if name not in study.contracts]
    for name in unknown:
        message = f"expected a contract of the suite, found {name!r}"
        problems.append(Pilot.build_problem("adjudication.contracts", message, "mend or remove it"))
    measured = {"test-seconds", "dependencies", "tier"} & {*study.pilot.strata.factors}
    missing = [task.id for task in study.tasks if task.complexity is None]
    if measured and missing:
        message = f"expected measured contracts for {', '.join(sorted(measured))}, found {', '.join(missing)}"
        problems.append(Pilot.build_problem("strata.factors", message, _MEASURE))
    if problems:
        raise Pilot.build_error(problems, where=study.directory)


def _build_artefacts(study: Study, loaded: LoadedPlan, power: PowerAnalysis) -> dict[str, str | bytes]:
    return {
        "plan.json": _render(loaded.plan),
        ROWS: loaded.render_rows(),
        "cost-model.csv": study.cost_model.render(loaded.rows),
        "power-analysis.json": _render(power),
        "rubric-template.csv": ReviewLabel.render_template(),
        "rubric.schema.json": _render(build_document_schema(ReviewLabel, "review-label@1", title="A label")),
        "failure-modes.jsonl": b"".join(msgspec.json.encode(mode) + b"\n" for mode in load_taxonomy()),
        "protocol-manifest.json": _render(
            {
                "schema": "repotrial/protocol-manifest@1",
                "harness_version": __version__,
                "suite_id": study.suite.suite_id,
                "seeds": {"planned": ROOT_SEED, "observed": study.pilot.seed},
                "streams": ["order of tasks", "order of arms within a task", "sample for review"],
                "deviations": [*loaded.plan.deviations],
            }
        ),
    }


def _render(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def digest_files(study: Study) -> dict[str, Digest]:
    """Digests of everything that a registration covers, by name; a missing file has none."""
    folder = study.directory / LoadedPlan.FOLDER
    found = {f"plan/{path.name}": path for path in sorted(folder.iterdir())} if folder.is_dir() else {}
    return {
        name: digest_bytes(path.read_bytes())
        for name, path in {**study.files, **found}.items()
        if path.is_file()
    }
