"""This machine's pool: so many runs at a time, each in a thread; the work itself happens in sandboxes."""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from repotrial._core.errors import RepoTrialError
from repotrial._core.resolve import resolve_documents
from repotrial._core.words import Level
from repotrial.contract import LoadedContract
from repotrial.environment import (
    Installation,
    InstallationSettings,
    Interrupt,
    interruptible,
    open_installation,
)
from repotrial.fleet._claim import claim_run, tidy_claims
from repotrial.fleet._descriptors import allow_open_files
from repotrial.fleet._events import FleetEvent, RunEnded, RunPhase, RunSkipped, RunStarted, RunUndone
from repotrial.fleet._plan import FleetPlan, PlannedRun, find_conducted_since
from repotrial.run import (
    Handover,
    ModelAccess,
    RunRequest,
    RunStoppedError,
    Stopper,
    conduct_run,
    refuse_handover,
    remove_unfinished,
)
from repotrial.trace import CheckOutcome, Phase, SecretRedactor, SigningKey

_LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class FleetSettings:
    """Where and how a fleet works."""

    runs: Path
    """Run directories are made here."""
    installation: InstallationSettings
    level: Level
    key: SigningKey
    jobs: int = 1
    """Runs at a time."""
    models: ModelAccess | None = None
    """For agents that ask a model."""
    handover: Handover = refuse_handover
    stopper: Stopper = field(default_factory=Stopper)


def conduct_fleet(plan: FleetPlan, settings: FleetSettings) -> Generator[FleetEvent, None, None]:
    """Conduct what is missing, and tell what happens as it happens.

    Stopping with the settings' stopper lets it come to its end: what runs is sealed as stopped, what has not
    begun is told as undone. The generator may also be closed at any time, to the same effect but without a
    word. Nothing that was recorded is lost either way.

    Raises:
        OpenFilesError: this user may not open as many files as so many runs at a time need.
    """
    for run in plan.runs:
        if run.conducted is not None:
            yield RunSkipped(run_id=run.spec.run_id, directory=str(run.conducted))
    remove_unfinished(settings.runs)
    resolve_documents()  # before any thread decodes one
    missing = plan.missing
    allow_open_files(min(settings.jobs, len(missing)))
    news = _News(len(missing))
    with (
        _loaded_things_left_alone(),
        tidy_claims(settings.runs),
        _Shelf(settings) as shelf,
        ThreadPoolExecutor(settings.jobs, thread_name_prefix="run") as pool,
    ):
        try:
            for run in missing:
                pool.submit(_conduct, run, settings, shelf, news.put)
            yield from news
        finally:
            if not news.is_over:
                settings.stopper.stop()  # leaving early must not wait for hours of work


class _News:
    """What runs tell, for one who listens.

    Who listens looks up a few times in a second, and at the end: to be woken by every word would take the
    interpreter from runs that are at work, hundreds of times in a second.
    """

    def __init__(self, runs: int) -> None:
        self._told: deque[FleetEvent] = deque()
        self._left = runs
        self._lock = threading.Lock()
        self._over = threading.Event()
        if not runs:
            self._over.set()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def put(self, event: FleetEvent) -> None:
        self._told.append(event)
        if isinstance(event, RunEnded | RunSkipped | RunUndone):
            with self._lock:
                self._left -= 1
                if not self._left:
                    self._over.set()

    def __iter__(self) -> Iterator[FleetEvent]:
        is_over = False
        while not is_over:
            is_over = self._over.wait(_LOOK_SECONDS)
            while self._told:
                yield self._told.popleft()


@contextmanager
def _loaded_things_left_alone() -> Iterator[None]:
    """Spare the garbage collector to look through modules and contracts again during every run."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _conduct(
    run: PlannedRun, settings: FleetSettings, shelf: _Shelf, put: Callable[[FleetEvent], None]
) -> None:
    run_id = run.spec.run_id
    try:
        settings.stopper.verify_going()
        put(
            RunStarted(
                run_id=run_id,
                contract=run.spec.contract_id,
                agent=run.agent.name,
                replicate=run.spec.replicate,
            )
        )
        listener = _Listener(run_id, put)
        with claim_run(settings.runs, run_id):
            put(_conduct_claimed(run, settings, _build_request(run, settings, shelf, listener)))
    except RunStoppedError:
        put(RunUndone(run_id=run_id, fault=None))
    except RepoTrialError as error:
        put(RunUndone(run_id=run_id, fault=f"{error.code}: {error.message}", hint=error.hint))
    except BaseException as error:  # whoever counts the runs must hear of every one of them
        put(RunUndone(run_id=run_id, fault=f"harness-exception: {type(error).__name__}: {error}"))
        raise


def _conduct_claimed(run: PlannedRun, settings: FleetSettings, request: RunRequest) -> RunEnded | RunSkipped:
    """Conduct it, unless another harness has, in the meantime."""
    if (directory := find_conducted_since(run, settings.runs)) is not None:
        return RunSkipped(run_id=run.spec.run_id, directory=str(directory))
    ended = conduct_run(request)
    return RunEnded(
        run_id=run.spec.run_id,
        directory=str(ended.paths.root),
        fault=ended.fault,
        hint=ended.hint,
        is_stopped=ended.is_stopped,
    )


def _build_request(
    run: PlannedRun, settings: FleetSettings, shelf: _Shelf, listener: _Listener
) -> RunRequest:
    return RunRequest(
        loaded=run.loaded,
        agent=run.agent,
        spec=run.spec,
        runs=settings.runs,
        open_installation=partial(shelf.open, run.loaded),
        key=settings.key,
        redactor=shelf.redactor,
        listener=listener,
        stopper=settings.stopper,
        models=settings.models,
        handover=settings.handover,
    )


class _Shelf:
    """What runs share: installations, opened once for each contract, failures included; and the redactor."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        keys = {} if settings.models is None else settings.models.secrets
        self.redactor = SecretRedactor({**keys, **settings.installation.secrets})
        self._lock = threading.Lock()
        self._locks: dict[Path, threading.Lock] = {}
        self._known: dict[Path, Installation | RepoTrialError] = {}
        self._interrupt = Interrupt()
        settings.stopper.tell(self._interrupt.throw)

    def open(self, loaded: LoadedContract) -> Installation:
        """The installation of a contract.

        Raises:
            RepoTrialError: it cannot be opened on this machine.
            RunStoppedError: it was not opened because somebody wants an end.
        """
        with self._lock:
            lock = self._locks.setdefault(loaded.directory, threading.Lock())
        with lock:
            if loaded.directory not in self._known:
                self._known[loaded.directory] = self._try(loaded)
        found = self._known[loaded.directory]
        if isinstance(found, RepoTrialError):
            self._settings.stopper.verify_going()
            raise found
        return found

    def _try(self, loaded: LoadedContract) -> Installation | RepoTrialError:
        try:
            with interruptible(self._interrupt):
                return open_installation(loaded, self._settings.installation, level=self._settings.level)
        except RepoTrialError as error:
            return error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for found in self._known.values():
                if isinstance(found, Installation):
                    stack.callback(found.close)


class _Listener:
    def __init__(self, run_id: str, put: Callable[[FleetEvent], None]) -> None:
        self._run_id = run_id
        self._put = put
        self._phase: Phase = "bind"
        self._checks: dict[str, str] = {}

    def on_phase(self, phase: Phase) -> None:
        self._phase = phase
        self._tell()

    def on_check(self, check_id: str, outcome: CheckOutcome) -> None:
        # A pass of a later attempt does not take back what an earlier one said.
        tag = str(outcome.__struct_config__.tag)
        if self._checks.get(check_id, "pass") == "pass":
            self._checks[check_id] = tag
        self._tell()

    def _tell(self) -> None:
        self._put(RunPhase(run_id=self._run_id, phase=self._phase, checks=dict(self._checks)))
