"""One process's part: runs, each in a thread, and what they share."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self

from repotrial._core.errors import RepoTrialError
from repotrial._core.resolve import resolve_documents
from repotrial.contract import LoadedContract
from repotrial.fleet._events import FleetEvent, RunEnded, RunPhase, RunStarted, RunUndone
from repotrial.fleet._plan import PlannedRun
from repotrial.fleet._settings import FleetSettings
from repotrial.run import RunRequest, RunStoppedError, conduct_run
from repotrial.sandbox import Installation, Interrupt, interruptible, open_installation
from repotrial.trace import CheckOutcome, Phase, SecretRedactor

__all__ = ["Conductor", "conduct_in_threads", "open_conductor"]


@contextmanager
def conduct_in_threads(
    runs: Sequence[PlannedRun], settings: FleetSettings, put: Callable[[FleetEvent], None]
) -> Iterator[None]:
    """Conduct all of them while the block lasts, and wait for them at its end."""
    with (
        open_conductor(settings) as conductor,
        ThreadPoolExecutor(settings.jobs, thread_name_prefix="run") as pool,
    ):
        for run in runs:
            pool.submit(conductor.conduct, run, put)
        yield


@contextmanager
def open_conductor(settings: FleetSettings) -> Iterator[Conductor]:
    """Whoever conducts runs in this process, from any number of threads."""
    resolve_documents()  # before any thread decodes one
    gc.freeze()  # modules and contracts stay: nobody need look through them again during every run
    try:
        with _Shelf(settings) as shelf:
            yield Conductor(settings, shelf)
    finally:
        gc.unfreeze()


class Conductor:
    """Conducts one run after the other, in as many threads as call it."""

    def __init__(self, settings: FleetSettings, shelf: _Shelf) -> None:
        self._settings = settings
        self._shelf = shelf

    def conduct(self, run: PlannedRun, put: Callable[[FleetEvent], None]) -> None:
        """Conduct it, and tell what happens; the last word is that it ended, or that it is undone."""
        run_id = run.spec.run_id
        try:
            self._settings.stopper.verify_going()
            put(
                RunStarted(
                    run_id=run_id,
                    contract=run.spec.contract_id,
                    agent=run.agent.name,
                    replicate=run.spec.replicate,
                )
            )
            ended = conduct_run(self._build_request(run, _Listener(run_id, put)))
            put(
                RunEnded(
                    run_id=run_id,
                    directory=str(ended.paths.root),
                    fault=ended.fault,
                    is_stopped=ended.is_stopped,
                )
            )
        except RunStoppedError:
            put(RunUndone(run_id=run_id, fault=None))
        except RepoTrialError as error:
            put(RunUndone(run_id=run_id, fault=f"{error.code}: {error.message}"))
        except BaseException as error:  # whoever counts the runs must hear of every one of them
            put(RunUndone(run_id=run_id, fault=f"harness-exception: {type(error).__name__}: {error}"))
            raise

    def _build_request(self, run: PlannedRun, listener: _Listener) -> RunRequest:
        settings, shelf = self._settings, self._shelf
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
        for found in self._known.values():
            if isinstance(found, Installation):
                found.close()


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
        # A twin run that holds says nothing by itself; anything worse stays.
        tag = str(outcome.__struct_config__.tag)
        if self._checks.get(check_id, "pass") == "pass":
            self._checks[check_id] = tag
        self._tell()

    def _tell(self) -> None:
        self._put(RunPhase(run_id=self._run_id, phase=self._phase, checks=dict(self._checks)))
