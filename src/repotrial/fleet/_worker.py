"""`fleet work`: claims runs of a plan in their order, conducts them, and hands in what they left.

The engine that started this worker may end it at any moment, start another, or both at once. Which attempt
counts is decided in the store alone.
"""

from __future__ import annotations

import queue
import random
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial._core.errors import EvidenceError, MachineError, RepoTrialError
from repotrial.fleet._board import STOP_KEY, Board, RecordWord, SharedRunState
from repotrial.fleet._bundle import pack_directory
from repotrial.fleet._handed_in import DoneMarker, read_seal_digest
from repotrial.fleet._lease import Lease, StoreClock, read_own_clock
from repotrial.fleet._shared_plan import SharedPlan, SharedRun
from repotrial.run import Stopper
from repotrial.score import MOST_ATTEMPTS
from repotrial.store import STORE_UNREACHABLE, Store

_POLLS: Final = 8
"""Looks in a TTL, while there is nothing to claim."""
_MOST_POLL_SECONDS: Final = 2.0
_LOG_KEY: Final = "worker/{name}/log.jsonl"
_RETRY_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.1
T = TypeVar("T")


class Conducted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that has a sealed record."""

    directory: Path
    word: RecordWord
    """How it counts, as long as the claim holds."""
    cost_micro_usd: int
    fault: str | None = None
    """Why this machine should not try it again; None: it may."""


class NotConducted(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that left nothing: this machine could not even begin it, or was to stop."""

    fault: str | None
    """None: it was stopped before it began."""


Conduct: TypeAlias = Callable[[SharedRun, int, Stopper], Conducted | NotConducted]
"""Carries out one attempt; the stopper ends it."""
WorkerWord: TypeAlias = Literal[
    "claimed", "handed-in", "counted", "adopted", "given-back", "superseded", "fault", "waiting", "over"
]


class WorkerEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="worker"):
    """What a worker did."""

    word: WorkerWord
    at_us: int
    worker: str
    run_id: str = ""
    epoch: int = 0
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """What a worker works on, and how."""

    store: Store
    plan: SharedPlan
    conduct: Conduct
    name: str
    """Of this worker, in claims and logs."""
    work: Path
    """Records are packed here."""
    slots: int = 1
    idle_seconds: float = 90
    """A worker that found nothing to claim for so long ends."""
    stopper: Stopper = field(default_factory=Stopper)


@dataclass(frozen=True, kw_only=True)
class _Held:
    state: SharedRunState
    epoch: int
    lease: Lease


_Found: TypeAlias = _Held | Literal["over", "wait", "taken"]


class Worker:
    """All slots of one process."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._store, self._plan = settings.store, settings.plan
        self._ttl = settings.plan.ttl_seconds
        self._clock = StoreClock(self._store, f"clock/{settings.name}", every_seconds=max(self._ttl, 5))
        self._events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()
        self._leases: set[Lease] = set()
        self._faulty: set[str] = set()
        self._failed: list[BaseException] = []
        self._log: list[bytes] = []
        self._ended = threading.Event()
        self._poll = min(_MOST_POLL_SECONDS, self._ttl / _POLLS)

    def work(self) -> Generator[WorkerEvent, None, None]:
        """Work until nothing is left that could be claimed; tells what it does.

        Raises:
            RepoTrialError: the store could not be used any more.
        """
        self._settings.stopper.tell(self._stop)
        slots = [
            threading.Thread(target=self._serve, name=f"slot-{number}", daemon=True)
            for number in range(self._settings.slots)
        ]
        for slot in slots:
            slot.start()
        logged_at = read_own_clock()
        try:
            while any(slot.is_alive() for slot in slots):
                yield from self._drain(_LOOK_SECONDS)
                if read_own_clock() - logged_at > self._ttl / 2:
                    logged_at = read_own_clock()
                    self._write_log()
            self._put("over", message="stopped" if self._settings.stopper.is_stopped else "nothing to claim")
            yield from self._drain(0)
        finally:
            self._settings.stopper.stop()
            for slot in slots:
                slot.join()
            self._write_log()
        if self._failed:
            raise self._failed[0]

    @property
    def faults(self) -> int:
        """Runs that this machine could not begin."""
        return len(self._faulty)

    def _drain(self, seconds: float) -> Iterator[WorkerEvent]:
        wait = seconds
        while True:
            try:
                yield self._events.get(timeout=wait) if wait else self._events.get_nowait()
            except queue.Empty:
                return
            wait = 0

    def _put(self, word: WorkerWord, *, run_id: str = "", epoch: int = 0, message: str = "") -> None:
        event = WorkerEvent(
            word=word,
            at_us=SystemClock().now_us(),
            worker=self._settings.name,
            run_id=run_id,
            epoch=epoch,
            message=message,
        )
        self._log.append(msgspec.json.encode(event))
        self._events.put(event)

    def _write_log(self) -> None:
        with suppress(RepoTrialError):  # people read it; nothing depends on it
            self._store.replace(
                _LOG_KEY.format(name=self._settings.name), b"".join(line + b"\n" for line in [*self._log])
            )

    def _stop(self) -> None:
        self._ended.set()
        for lease in [*self._leases]:
            lease.lose("the worker is to end")

    def _serve(self) -> None:
        board = Board(self._plan, self._store)
        waiting_since = read_own_clock()
        try:
            while not self._ended.is_set():
                found = self._persist(lambda: self._claim(board), None) or "wait"
                if isinstance(found, _Held):
                    self._carry(found)
                    waiting_since = read_own_clock()
                elif found == "over":
                    return
                elif read_own_clock() - waiting_since >= self._settings.idle_seconds:
                    self._put("waiting", message="all open runs are held by others")
                    return
                elif found == "wait":
                    self._ended.wait(self._poll * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
        except RepoTrialError as error:
            self._failed.append(error)

    def _claim(self, board: Board) -> _Found:
        """The first run of the plan that is open, or whose holder is gone."""
        board.look()
        if board.is_stopped or board.is_over:
            return "over"
        now_us = self._clock.now_us()
        for state in board.iter_claimable(now_us):
            if state.run.run_id in self._faulty:
                continue
            found = self._try(board, state)
            if found != "taken":
                return found
        return "wait"

    def _try(self, board: Board, state: SharedRunState) -> _Found:
        epoch, sent_at = state.next_epoch, read_own_clock()
        claim = {
            "worker": self._settings.name,
            "host": socket.gethostname(),
            "claimed_at_us": SystemClock().now_us(),
            "reserved_micro_usd": state.run.reserved_micro_usd,
            "nonce": uuid.uuid4().hex,
        }
        if not self._store.create(f"{state.folder}/claim.{epoch:04d}", msgspec.json.encode(claim)):
            return "taken"
        if (finished := state.finished) is not None and self._adopt(state, finished.record or ""):
            return "taken"
        if (answer := self._verify_budget(board, state, epoch)) is not None:
            return answer
        lease = Lease(self._store, state.folder, epoch, ttl_seconds=self._ttl, sent_at=sent_at)
        self._put("claimed", run_id=state.run.run_id, epoch=epoch)
        return _Held(state=state, epoch=epoch, lease=lease)

    def _verify_budget(
        self, board: Board, state: SharedRunState, epoch: int
    ) -> Literal["over", "wait"] | None:
        """Claim, list, then start: a claim that finds too much claimed and spent gives way (B4)."""
        if not self._plan.envelopes.are_set:
            return None
        board.look()
        excess = board.find_excess(state.run)
        if excess is None:
            return None
        self._give_back(state, epoch, f"the envelope of the {excess} does not allow it")
        state.attempts[epoch].is_back = True
        return "wait" if board.held else "over"

    def _give_back(self, state: SharedRunState, epoch: int, why: str) -> None:
        body = msgspec.json.encode({"worker": self._settings.name, "why": why})
        self._store.create(f"{state.folder}/back.{epoch:04d}", body)
        self._put("given-back", run_id=state.run.run_id, epoch=epoch, message=why)

    def _adopt(self, state: SharedRunState, record: str) -> bool:
        """Let an attempt count whose worker died after handing it in; nothing is paid twice."""
        packed = self._settings.work / f"{uuid.uuid4().hex}.tar.gz"
        try:
            digest = self._store.download(record, packed)
            seal_digest = read_seal_digest(packed)
        except EvidenceError:
            return False
        finally:
            packed.unlink(missing_ok=True)
        epoch = int(record.rpartition("/")[2].split(".")[1])
        self._count(state, DoneMarker(epoch=epoch, record=record, digest=digest, seal_digest=seal_digest))
        self._put("adopted", run_id=state.run.run_id, epoch=epoch)
        return True

    def _carry(self, held: _Held) -> None:
        stopper, lease, run_id = Stopper(), held.lease, held.state.run.run_id
        self._leases.add(lease)
        lease.keep(stopper.stop, self._find_stop)
        if self._ended.is_set():
            lease.lose("the worker is to end")
        try:
            result = self._settings.conduct(held.state.run, held.epoch, stopper)
            if result.fault is not None:
                self._faulty.add(run_id)
                self._put("fault", run_id=run_id, epoch=held.epoch, message=result.fault)
            if isinstance(result, Conducted):
                self._hand_in(held, result)
                return
            self._persist(lambda: self._give_back(held.state, held.epoch, result.fault or "stopped"), None)
        finally:
            lease.close()
            self._leases.discard(lease)

    def _find_stop(self) -> str | None:
        return None if self._store.find(STOP_KEY) is None else "the fleet is to stop"

    def _hand_in(self, held: _Held, result: Conducted) -> None:
        packed = self._settings.work / f"{result.directory.name}.tar.gz"
        digest = pack_directory(packed, {result.directory.name: result.directory})
        excused = sum(each.word == "excused" for each in held.state.attempts.values())
        word: RecordWord = result.word
        if word == "excused" and excused + 1 >= MOST_ATTEMPTS:
            word = "invalid"
        key = self._upload(held, packed, word, result.cost_micro_usd)
        if key is None:
            self._put("fault", run_id=held.state.run.run_id, message=f"kept here: {result.directory}")
            return
        word = "superseded" if key.endswith("superseded") else word
        self._put("handed-in", run_id=held.state.run.run_id, epoch=held.epoch, message=word)
        if word in {"valid", "invalid"}:
            seal_digest = read_seal_digest(packed)
            marker = DoneMarker(epoch=held.epoch, record=key, digest=digest, seal_digest=seal_digest)
            self._persist(lambda: self._count(held.state, marker), held.lease)
        elif held.lease.lost is not None:
            message = held.lease.lost or ""
            self._put("superseded", run_id=held.state.run.run_id, epoch=held.epoch, message=message)
        packed.unlink()
        shutil.rmtree(result.directory)

    def _upload(self, held: _Held, packed: Path, word: RecordWord, cost: int) -> str | None:
        """Hand in a record under what it is worth; one whose claim is lost counts as cost alone."""
        lease = held.lease
        if lease.lost is None:
            key = f"{held.state.folder}/record.{held.epoch:04d}.{cost}.{word}"
            if self._persist(lambda: self._store.upload(key, packed), lease) is not None:
                return key
        key = f"{held.state.folder}/record.{held.epoch:04d}.{cost}.superseded"
        return key if self._persist(lambda: self._store.upload(key, packed), None) is not None else None

    def _count(self, state: SharedRunState, marker: DoneMarker) -> Digest:
        """Only the first who writes it decides which attempt is the run."""
        data = msgspec.json.encode(msgspec.structs.replace(marker, worker=self._settings.name))
        is_first = self._store.create(f"{state.folder}/done", data)
        self._put("counted" if is_first else "superseded", run_id=state.run.run_id, epoch=marker.epoch)
        return marker.digest

    def _persist(self, action: Callable[[], T], lease: Lease | None) -> T | None:
        """Go on through an outage of the store: as long as the claim holds, or for a TTL without one."""
        until = read_own_clock() + max(self._ttl, self._settings.idle_seconds)
        while True:
            if lease is not None and lease.lost is not None:
                return None
            try:
                return action()
            except MachineError as error:
                if error.code != STORE_UNREACHABLE:
                    raise
                if read_own_clock() >= until:
                    if lease is None:
                        raise
                    return None
            time.sleep(_RETRY_SECONDS)
