"""Verbs on runs beyond one machine: a plan in a store, workers on it, and what people ask of them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from repotrial import __version__
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.machine_class import read_cpu_class, read_memory_class
from repotrial._core.words import Level
from repotrial.api._contracts import load_contract
from repotrial.api._machine import MachineSettings, build_installation_settings, leave_out
from repotrial.api._models import BUDGET_UNITS, ModelChoice, open_model_access
from repotrial.api._trials import TrialPlan
from repotrial.contract import LoadedContract, build_invalid_error, check_lock
from repotrial.cost import load_price_book
from repotrial.fleet import (
    EngineName,
    EngineOrder,
    EngineSettings,
    EngineStarted,
    FleetSite,
    FleetStatus,
    Pulled,
    SharedEnvelopes,
    SharedPlan,
    SharedRun,
    Worker,
    WorkerEvent,
    WorkerSettings,
    open_conductor,
    start_workers,
)
from repotrial.policy import read_thresholds
from repotrial.redaction import SecretRedactor
from repotrial.run import HumanAgent, ModelAccess, ModelAgent, PlannedRun, RunSettings, Stopper
from repotrial.signing import SigningKey
from repotrial.store import is_store_url, open_store, verify_claims_hold

_TTL_SECONDS: Final = 60.0

FLEET_PERSON = ErrorCode(
    "fleet-person",
    UsageError,
    "A person cannot be put on trial by a worker on another machine.",
    hint="conduct those runs here: `repotrial run start … --agent human` without --store",
)
OTHER_CLASS = ErrorCode(
    "other-class",
    UsageError,
    "This machine is of another class than the one that worked on the plan first: figures would not compare.",
    hint="place workers on machines of one class, or say --other-class label: each record names its machine",
)


class WorkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker works."""

    slots: int = 1
    idle_seconds: float = 90
    key_file: Path
    """The study's key, which vouches for the worker's own."""
    labels_other_class: bool = False
    work: Path | None = None
    """Where attempts are conducted; None: a temporary directory."""


class Fleet:
    """Runs that machines share by way of a store."""

    def __init__(self, url: str, variables: Mapping[str, str]) -> None:
        """Name a store.

        Args:
            url: `file:DIR`, `s3://BUCKET/PREFIX`, or another kind that is known.
            variables: Credentials and the like, by the names that the tools of a provider read.
        """
        self._url = url
        self._variables = variables

    def share_trials(self, plan: TrialPlan, *, key_file: Path) -> str:
        """Write a plan of trials into the store; nothing is started. What the store was seen to promise.

        Raises:
            STORE_IN_USE: the store has another plan.
            STORE_CONDITIONS: the store does not keep what claims need.
            BUDGET_UNITS: a shared plan keeps its budgets in dollars.
        """
        choice = plan.request.models
        if choice.is_abstract:
            raise BUDGET_UNITS.error("expected prices in dollars for a shared plan, found --prices none")
        alone = msgspec.structs.replace(choice, task_budget=None, total_budget=None, ledger=None)
        return self.share(
            [(run, None if choice.upstream is None else alone) for run in plan.fleet.runs],
            envelopes=SharedEnvelopes.build(total=choice.total_budget, task=choice.task_budget),
            key=SigningKey.load(key_file),
        )

    def share(
        self,
        runs: Sequence[tuple[PlannedRun, ModelChoice | None]],
        *,
        envelopes: SharedEnvelopes,
        key: SigningKey,
        ttl_seconds: float = _TTL_SECONDS,
    ) -> str:
        """Write a plan into the store, with everything that its runs need; what the store promises.

        Raises:
            STORE_IN_USE: the store has another plan.
            STORE_CONDITIONS: the store does not keep what claims need.
            FLEET_PERSON: a person is among the agents.
        """
        if any(isinstance(run.agent, HumanAgent) for run, _ in runs):
            raise FLEET_PERSON.error("expected agents that workers can start, found human")
        store = open_store(self._url, self._variables, may_make=True)
        promises = verify_claims_hold(store)
        packing = _Packing()
        shared = tuple(packing.add(run, choice) for run, choice in runs)
        plan = SharedPlan(
            conditions=_find_conditions(packing.choices, Level(shared[0].spec.configuration.isolation)),
            study_keys=(key.public_key.pem,),
            ttl_seconds=ttl_seconds,
            envelopes=envelopes,
            models=tuple(packing.models),
            agents={each.agent: run.agent for each, (run, _) in zip(shared, runs, strict=True)},
            runs=shared,
        )
        FleetSite.create(store, plan, packing.files)
        return promises.sentence

    def start(
        self, engine: EngineName, engine_file: Path | None, *, key_file: Path, directory: Path
    ) -> EngineStarted:
        """Have an engine start workers on the plan that is in the store.

        Raises:
            ENGINE_FILE: the engine file lacks something.
            ENGINE_UNAVAILABLE: the engine is not here, or refused.
        """
        order = EngineOrder(
            store=self._url,
            plan=self._open().plan.digest,
            program=(sys.executable, "-m", "repotrial"),
            key_file=key_file,
            settings=EngineSettings.load(engine_file),
            directory=directory,
        )
        return start_workers(engine, order)

    def read_status(self) -> FleetStatus:
        """How far the runs are."""
        return self._open().read_status()

    def read_log(self) -> list[WorkerEvent]:
        """What all workers said."""
        return self._open().read_log()

    def stop(self) -> bool:
        """Tell all workers to end; false: they were told before."""
        return self._open().stop()

    def pull(self, target: Path, *, is_counted_only: bool = False) -> Iterator[Pulled]:
        """Bring records into a directory of runs; digests are checked."""
        return self._open().pull(target, is_counted_only=is_counted_only)

    def work(
        self,
        request: WorkRequest,
        machine: MachineSettings,
        *,
        stopper: Stopper,
        on_install: Callable[[str], None] | None = None,
    ) -> Generator[WorkerEvent, None, None]:
        """Claim runs, conduct them and hand them in, until there is nothing to claim.

        Raises:
            STORE_CONDITIONS: the store does not keep what claims need.
            FLEET_MISMATCH: this machine would measure something else.
            OTHER_CLASS: its figures would not compare.
            CONTRACTS_UNAVAILABLE: it lacks what contracts need.
        """
        site = self._open()
        verify_claims_hold(site.store)
        node = re.sub(r"[^A-Za-z0-9]+", "-", platform.node()).strip("-") or "worker"
        name = f"{node}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        with _open_work(request.work, name) as work, ExitStack() as opened:
            prepared = _prepare(site, request, machine, work)
            key = site.admit(name, study=SigningKey.load(request.key_file), work=work)
            models = [_open_models(each, site.plan, machine, opened, on_install) for each in prepared.choices]
            secrets = dict(pair for each in models if each is not None for pair in each.secrets.items())
            redactor = SecretRedactor({**secrets, **machine.secrets})
            conduct = opened.enter_context(
                open_conductor(
                    site.plan,
                    RunSettings(
                        runs=work / "runs", key=key, redactor=redactor, custody=machine.load_custody()
                    ),
                    contracts=prepared.contracts,
                    models=models,
                    installation=build_installation_settings(machine),
                    book=load_price_book(None),
                )
            )
            worker = Worker(
                WorkerSettings(
                    store=site.store,
                    plan=site.plan,
                    conduct=conduct,
                    name=name,
                    work=work,
                    slots=request.slots,
                    idle_seconds=request.idle_seconds,
                    stopper=stopper,
                )
            )
            with closing(worker.work()) as events:
                yield from events

    def _open(self) -> FleetSite:
        return FleetSite.open(open_store(self._url, self._variables))


class _Prepared(msgspec.Struct, frozen=True, kw_only=True):
    contracts: dict[str, LoadedContract]
    choices: list[ModelChoice]


def _prepare(site: FleetSite, request: WorkRequest, machine: MachineSettings, work: Path) -> _Prepared:
    """What the plan needs, unpacked here; a machine on which it would be something else is refused."""
    inputs, plan = work / "inputs", site.plan
    site.unpack_inputs(inputs)
    (work / "runs").mkdir()
    contracts = {name: _load(inputs / name) for name in {run.contract for run in plan.runs}}
    choices = [_decode_choice(named, inputs) for named in plan.models]
    level = Level(plan.runs[0].spec.configuration.isolation)
    plan.verify_conditions(_find_conditions(choices, level))
    leave_out([*contracts.values()], machine, level=level, skips_unavailable=False)
    other = site.find_other_class({"cpu_class": read_cpu_class(), "memory_class": read_memory_class()})
    if other and not request.labels_other_class:
        raise OTHER_CLASS.error(other)
    return _Prepared(contracts=contracts, choices=choices)


class _Packing:
    """What a plan's runs need, each thing once."""

    def __init__(self) -> None:
        self.files: dict[str, Path] = {}
        self.models: list[dict[str, object]] = []
        self.choices: list[ModelChoice] = []
        self._contracts: dict[Path, str] = {}

    def add(self, run: PlannedRun, choice: ModelChoice | None) -> SharedRun:
        directory = run.loaded.directory
        if directory not in self._contracts:
            name = f"contracts/{len(self._contracts):04d}-{run.loaded.contract.id}"
            self._contracts[directory] = name
            self.files[name] = directory
        asking = choice if isinstance(run.agent, ModelAgent) else None
        reserved = run.spec.configuration.caps.cost_usd or run.loaded.contract.limits.cost_usd
        is_paid = asking is not None and (asking.upstream or "").startswith("provider:")
        return SharedRun.build(
            run,
            contract=self._contracts[directory],
            models=None if asking is None else self._add_choice(asking),
            reserved_usd=reserved if is_paid else Decimal(0),
        )

    def _add_choice(self, choice: ModelChoice) -> int:
        if choice not in self.choices:
            place = f"models/{len(self.choices)}"
            named: dict[str, object] = {
                name: value
                for name, value in msgspec.to_builtins(choice, enc_hook=str).items()
                if value is not None
            }
            for field in ("prices", "thresholds"):
                path = getattr(choice, field)
                if path is not None:
                    named[field] = self._take(f"{place}/{field}{path.suffix}", path)
            kind, _, rest = (choice.upstream or "").partition(":")
            if kind != "provider" or Path(rest).exists():
                named["upstream"] = f"{kind}:{self._take(f'{place}/upstream{Path(rest).suffix}', Path(rest))}"
            self.choices.append(choice)
            self.models.append(named)
        return self.choices.index(choice)

    def _take(self, name: str, path: Path) -> str:
        self.files[name] = path
        return name


def _find_conditions(choices: list[ModelChoice], level: Level) -> dict[str, str]:
    books = [load_price_book(choice.prices).digest for choice in choices] or [load_price_book(None).digest]
    thresholds = [digest_bytes(read_thresholds(choice.thresholds)) for choice in choices]
    return {
        "release": __version__,
        "level": level.value,
        "price book": ", ".join(dict.fromkeys(books)),
        "thresholds": ", ".join(dict.fromkeys(thresholds or [digest_bytes(read_thresholds())])),
    }


def _decode_choice(named: dict[str, object], inputs: Path) -> ModelChoice:
    """A model source as the plan names it, with its files where they were unpacked."""
    found = dict(named)
    for field in ("prices", "thresholds"):
        if field in found:
            found[field] = str(inputs / str(found[field]))
    scheme, _, rest = str(found.get("upstream", "")).partition(":")
    if rest.startswith("models/"):
        found["upstream"] = f"{scheme}:{inputs / rest}"
    return msgspec.convert(found, ModelChoice, strict=False, dec_hook=lambda kind, value: kind(value))


def _open_models(
    choice: ModelChoice,
    plan: SharedPlan,
    machine: MachineSettings,
    opened: ExitStack,
    on_install: Callable[[str], None] | None,
) -> ModelAccess | None:
    asking = {
        agent.adapter.digest: agent.adapter for agent in plan.agents.values() if isinstance(agent, ModelAgent)
    }
    return opened.enter_context(
        open_model_access(choice, machine, agents=asking.values(), on_install=on_install)
    )


@contextmanager
def _open_work(work: Path | None, name: str) -> Iterator[Path]:
    """A place for attempts; records that could not be handed in stay there."""
    if work is not None:
        place = work.absolute() / name
        place.mkdir(parents=True)
    else:
        place = Path(tempfile.mkdtemp(prefix="repotrial-worker-"))
        place.chmod(0o755)
    yield place
    runs = place / "runs"
    if not runs.is_dir() or not any(path.is_dir() and path.name[0] != "." for path in runs.iterdir()):
        shutil.rmtree(place, ignore_errors=True)


def _load(directory: Path) -> LoadedContract:
    loaded = load_contract(directory)
    problems = check_lock(loaded)
    if any(problem.severity == "error" for problem in problems):
        raise build_invalid_error(problems, where=directory)
    return loaded


@contextmanager
def open_places(places: list[Path], variables: Mapping[str, str]) -> Iterator[list[Path]]:
    """Directories as they are named; addresses of stores as directories with the runs that count."""
    with ExitStack() as opened:
        yield [_open_place(place, variables, opened) for place in places]


def _open_place(place: Path, variables: Mapping[str, str], opened: ExitStack) -> Path:
    text = str(place)
    if not is_store_url(text) or place.exists():
        return place
    scheme, _, rest = text.partition(":")
    url = text if scheme == "file" else f"{scheme}://{rest.lstrip('/')}"  # a path has no double slashes
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="repotrial-runs-")))
    for _ in Fleet(url, variables).pull(folder / "runs", is_counted_only=True):
        continue
    return folder / "runs"
