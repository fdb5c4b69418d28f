"""This machine's pool: so many runs at a time, each in a thread; the work itself happens in sandboxes."""

from __future__ import annotations

import gc
import resource
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, MachineError, RepoTrialError
from repotrial._core.schema import resolve_documents
from repotrial._core.words import Level, LifecyclePhase
from repotrial.environment import (
    PREPARATION_STOPPED,
    Installation,
    InstallationSettings,
    Interrupt,
    interruptible,
    open_installation,
)
from repotrial.fleet._claim import claim_run, tidy_claims
from repotrial.fleet._plan import FleetPlan, find_conducted_since
from repotrial.fleet._upstream_gate import UpstreamGate
from repotrial.run import (
    RUN_STOPPED,
    ModelAccess,
    ModelAgent,
    PlannedRun,
    RunEnded,
    RunSettings,
    Stopper,
    conduct_run,
    remove_unfinished,
)
from repotrial.score import LOSSES, MOST_ATTEMPTS, REPEATED_AT_ONCE, Cause, judge_run
from repotrial.trace import CheckOutcome

_OWN: Final = 256
_EACH_RUN: Final = 64
"""Pipes, sockets, control groups, its trace: up to 20 were seen at once; twice 18 to measure its files."""


OPEN_FILES = ErrorCode(
    "open-files",
    MachineError,
    "This user may not open as many files as so many runs at a time need.",
    hint="use fewer --jobs, or have the hard limit raised (`ulimit -Hn`)",
)


_LOOK_SECONDS: Final = 0.05


def allow_open_files(jobs: int) -> None:
    """Raise this process's own ceiling where it is too low; programs in sandboxes have their own.

    Raises:
        OPEN_FILES: the system does not allow it.
    """
    needed = _OWN + _EACH_RUN * jobs
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise OPEN_FILES.error(
            f"expected {needed} open files to be allowed for {jobs} runs at a time, found {hard}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    run_id: str
    """Of the specification; attempts share it."""


class RunStarted(_Event, frozen=True, kw_only=True, tag="started"):
    """A run began."""

    contract: str
    """The contract's id."""
    agent: str
    """Who works."""
    replicate: int
    """Counted from 0."""


class RunPhase(_Event, frozen=True, kw_only=True, tag="phase"):
    """A run went on."""

    phase: LifecyclePhase
    """Where it is now."""
    checks: dict[str, str] = {}
    """Outcomes so far: pass, fail or error, by check."""


class RunSkipped(_Event, frozen=True, kw_only=True, tag="skipped"):
    """A run was conducted before."""

    directory: str
    """Where."""


class RunRepeated(_Event, frozen=True, kw_only=True, tag="repeated"):
    """The machine or the harness ended an attempt, and the run is conducted again."""

    directory: str
    """The attempt, which does not count."""
    cause: Cause
    """Why."""


class RunNotConducted(_Event, frozen=True, kw_only=True, tag="undone"):
    """A run was not conducted, and has no sealed record."""

    fault: str | None
    """Why; None if it had not begun when the fleet was stopped."""
    hint: str = ""
    """What to do about it; empty if that is not known."""


FleetEvent: TypeAlias = RunStarted | RunPhase | RunRepeated | RunEnded | RunSkipped | RunNotConducted


def conduct_fleet(
    plan: FleetPlan, settings: RunSettings, *, installation: InstallationSettings, jobs: int = 1
) -> Generator[FleetEvent, None, None]:
    """Conduct what is missing, and tell what happens as it happens.

    Stopping with the settings' stopper lets it come to its end: what runs is sealed as stopped, what has not
    begun is told as undone. The generator may also be closed at any time, to the same effect but without a
    word. Nothing that was recorded is lost either way.

    Args:
        plan: All runs.
        settings: Of all runs.
        installation: How contracts are set up on this machine.
        jobs: Runs at a time.

    Raises:
        OPEN_FILES: this user may not open as many files as so many runs at a time need.
    """
    for run in plan.runs:
        if run.conducted is not None:
            yield RunSkipped(run_id=run.spec.run_id, directory=str(run.conducted))
    remove_unfinished(settings.runs)
    resolve_documents()  # before any thread decodes one
    missing = plan.missing
    allow_open_files(min(jobs, len(missing)))
    events = _EventQueue(len(missing))
    gate = UpstreamGate()
    with (
        _gc_frozen(),
        tidy_claims(settings.runs),
        SharedInstallations(installation, settings.stopper) as installations,
        ThreadPoolExecutor(jobs, thread_name_prefix="run") as pool,
    ):
        try:
            for run in missing:
                own = settings if run.models is None else replace(settings, models=run.models)
                pool.submit(_conduct, run, own, installations, events.put, gate)
            yield from events
        finally:
            if not events.is_over:
                settings.stopper.stop()  # leaving early must not wait for hours of work


class _EventQueue:
    """Events of all runs, for one reader.

    The reader polls: waking it for each event would take the interpreter from the runs at work, hundreds of
    times in a second.
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
        if isinstance(event, RunEnded | RunSkipped | RunNotConducted):
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
def _gc_frozen() -> Iterator[None]:
    """Keep the garbage collector from scanning modules and contracts again during every run."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _conduct(
    run: PlannedRun,
    settings: RunSettings,
    installations: SharedInstallations,
    put: Callable[[FleetEvent], None],
    gate: UpstreamGate,
) -> None:
    run_id = run.spec.run_id
    try:
        settings.stopper.verify_going()
        gate.verify_open(find_models(run, settings))
        put(
            RunStarted(
                run_id=run_id,
                contract=run.spec.contract_id,
                agent=run.agent.name,
                replicate=run.spec.replicate,
            )
        )
        with claim_run(settings.runs, run_id):
            # Another harness may have conducted it in the meantime.
            if (directory := find_conducted_since(run, settings.runs)) is not None:
                put(RunSkipped(run_id=run_id, directory=str(directory)))
            else:
                put(_conduct_with_repeats(run, settings, installations, put, gate))
    except RepoTrialError as error:
        if error.code == RUN_STOPPED:
            put(RunNotConducted(run_id=run_id, fault=None))
        else:
            put(RunNotConducted(run_id=run_id, fault=f"{error.code}: {error.message}", hint=error.hint))
    except BaseException as error:  # every run needs a last event: the queue counts them
        put(RunNotConducted(run_id=run_id, fault=f"harness-exception: {type(error).__name__}: {error}"))
        raise


def _conduct_with_repeats(
    run: PlannedRun,
    settings: RunSettings,
    installations: SharedInstallations,
    put: Callable[[FleetEvent], None],
    gate: UpstreamGate,
) -> RunEnded:
    """Conduct a run; what the machine or the harness itself ended is repeated at once, at most twice."""
    made = len(run.attempts)
    while True:
        ended = conduct_run(
            run, settings, partial(installations.open, run), listener=PhaseListener(run.spec.run_id, put)
        )
        made += 1
        cause = find_excuse(run, settings, ended, gate)
        if cause not in REPEATED_AT_ONCE or made >= MOST_ATTEMPTS or not has_begun(ended):
            return ended
        put(RunRepeated(run_id=run.spec.run_id, directory=ended.directory, cause=cause))


def find_excuse(run: PlannedRun, settings: RunSettings, ended: RunEnded, gate: UpstreamGate) -> Cause | None:
    """What excuses an attempt, as far as a repetition depends on it; its upstream's gate is told."""
    is_clear = (ended.fault is None and not ended.is_doubtful) or ended.is_stopped
    if is_clear and not isinstance(run.agent, ModelAgent):
        return None
    judged = judge_run(ended.paths.root)
    cause = judged.cause.cause if judged.cause.is_excused else None
    gate.take(run.agent.name, find_models(run, settings), cause)
    return cause


def find_models(run: PlannedRun, settings: RunSettings) -> ModelAccess | None:
    return settings.models if isinstance(run.agent, ModelAgent) else None


def has_begun(ended: RunEnded) -> bool:
    """Whether there was something to repeat: what cannot be set up fails again at once."""
    return ended.fault is None or ended.fault.partition(":")[0] in {*LOSSES, "agent-sandbox-lost"}


class SharedInstallations:
    """Installations, opened once for each contract and shared by its runs; failures are kept, too."""

    def __init__(self, settings: InstallationSettings, stopper: Stopper) -> None:
        self._settings = settings
        self._stopper = stopper
        self._lock = threading.Lock()
        self._locks: dict[Path, threading.Lock] = {}
        self._known: dict[Path, Installation | RepoTrialError] = {}
        self._interrupt = Interrupt()
        stopper.tell(self._interrupt.throw)

    def open(self, run: PlannedRun) -> Installation:
        """The installation of a run's contract; all runs of a fleet have one level.

        Raises:
            RepoTrialError: it cannot be opened on this machine.
            RUN_STOPPED: it was not opened: the fleet is to stop.
        """
        directory = run.loaded.directory
        with self._lock:
            lock = self._locks.setdefault(directory, threading.Lock())
        with lock:
            found = self._known.get(directory) or self._try(run)
            # What one run could not pay for says nothing about the others.
            if not (isinstance(found, RepoTrialError) and found.code == PREPARATION_STOPPED):
                self._known[directory] = found
        if isinstance(found, RepoTrialError):
            self._stopper.verify_going()
            raise found
        return found

    def _try(self, run: PlannedRun) -> Installation | RepoTrialError:
        level = Level(run.spec.configuration.isolation)
        try:
            with interruptible(self._interrupt):
                return open_installation(run.loaded, self._settings, level=level)
        except RepoTrialError as error:
            return error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for found in self._known.values():
                if isinstance(found, Installation):
                    stack.callback(found.close)


class PhaseListener:
    def __init__(self, run_id: str, put: Callable[[FleetEvent], None]) -> None:
        self._run_id = run_id
        self._put = put
        self._phase: LifecyclePhase = "bind"
        self._checks: dict[str, str] = {}

    def on_phase(self, phase: LifecyclePhase) -> None:
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
