"""Staged privileges (P7): the rule decides, the sandbox enforces, then it is on record."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from repotrial._core.beneath import open_beneath
from repotrial._core.errors import RepoTrialError
from repotrial._core.words import Stage
from repotrial.environment import ScratchPlace
from repotrial.isolation import Account, Bind, Capabilities, Sandbox
from repotrial.run._agents import ModelAgent
from repotrial.run._context import BoundRun
from repotrial.run._request import PlannedRun
from repotrial.trace import Enforced, Refused, Requested, Signal, StageTransition, TraceWriter

ORDER: Final[tuple[Stage, ...]] = ("read", "write", "test")
"""Privileges grow in this order and are taken back only by an intervention."""

_MECHANISMS: Final[dict[Stage, str]] = {"read": "mount-flip", "write": "mount-flip", "test": "tool-unmask"}


_ROOM: Final = "/opt/repotrial/stages"
_COUNTER: Final = "/opt/repotrial/stages-wanted"
STAGE_COMMAND: Final = f"{_ROOM}/stage"
"""What an agent runs: `stage write`, `stage test`."""
_POLL_SECONDS: Final = 0.02
_MOST_BYTES: Final = 16
_SCRIPT: Final = f"""\
#!/bin/sh
# Asks for a stage: stage write, or stage test. Ends with 0 once it is in force, with 1 where it is refused.
case "$1" in read|write|test) ;; *) echo "usage: stage write|test" >&2; exit 2 ;; esac
printf %s "$1" > {_COUNTER}/wanted || exit 1
while :; do
    if [ -e {_ROOM}/granted-"$1" ]; then exit 0; fi
    if [ -e {_ROOM}/refused-"$1" ]; then echo "refused" >&2; exit 1; fi
    sleep 0.05
done
"""
StageMode: TypeAlias = Literal["explicit", "automatic", "single"]


class StageController:
    """The stage of one sandbox. Safe from every thread."""

    def __init__(self, writer: TraceWriter, sandbox: Sandbox, *, stage: Stage) -> None:
        self._writer = writer
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._stage: Stage = stage
        writer.stage = stage
        self._most: Stage = "test"

    @property
    def stage(self) -> Stage:
        return self._stage

    def advance(self, wanted: Stage, *, evidence: Sequence[int] = (), signals: Sequence[Signal] = ()) -> bool:
        """Go up to a stage, step by step; false where it was refused. What is reached already stays."""
        with self._lock:
            while ORDER.index(self._stage) < ORDER.index(wanted):
                following = ORDER[ORDER.index(self._stage) + 1]
                if not self._switch(following, tuple(evidence), tuple(signals)):
                    return False
        return True

    def suspend(self, *, evidence: Sequence[int] = ()) -> bool:
        """Take writing away, for good (P19)."""
        with self._lock:
            self._most = "read"
            return self._stage == "read" or self._switch("read", tuple(evidence), ())

    def _switch(self, after: Stage, evidence: tuple[int, ...], signals: tuple[Signal, ...]) -> bool:
        before = self._stage

        def record(status: Requested | Enforced | Refused) -> None:
            transition = StageTransition(
                before=before, after=after, status=status, evidence=evidence, signals=signals
            )
            self._writer.append(transition, actor="harness")

        record(Requested())
        if ORDER.index(after) > ORDER.index(self._most):
            record(Refused(reason="writes-suspended"))
            return False
        started_ns = time.monotonic_ns()
        try:
            self._sandbox.enter_stage(after)
        except RepoTrialError as error:
            record(Refused(reason=error.code))
            return False
        took_us = (time.monotonic_ns() - started_ns) // 1000
        self._stage = self._writer.stage = after
        self._writer.tally[StageTransition.event_type] += 1
        record(Enforced(mechanism=_MECHANISMS[after], took_us=took_us))
        return True


class StageRequests:
    """Serves one sandbox's requests for stages, in a thread of its own."""

    def __init__(self, room: ScratchPlace, *, owner: Account | None) -> None:
        self._room = room
        self._answers = room.path / "answers"
        self._wanted = room.path / "wanted"
        for directory, mode in ((self._answers, 0o755), (self._wanted, 0o700)):
            directory.mkdir(mode=mode)
            directory.chmod(mode)
        if owner is not None:
            os.chown(self._wanted, owner.uid, owner.gid)
        self._write("stage", _SCRIPT.encode(), mode=0o755)
        self._stop = threading.Event()
        self._stages: StageController | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="repotrial-stages", daemon=True)

    @property
    def binds(self) -> tuple[Bind, ...]:
        """What the sandbox has to show."""
        return (
            Bind(source=self._answers, target=_ROOM, is_live=True),
            Bind(source=self._wanted, target=_COUNTER, is_writable=True),
        )

    def open(self, stages: StageController) -> Self:
        """Begin to serve."""
        self._stages = stages
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _serve(self) -> None:
        try:
            self._answer_requests()
        except BaseException as error:  # noqa: BLE001 - raised again by __exit__
            self._error = error
            self._refuse_all()

    def _refuse_all(self) -> None:
        """Answer every request: the command in the sandbox must not wait for ever."""
        for stage in ORDER:
            with contextlib.suppress(OSError):
                self._write(f"refused-{stage}", b"", mode=0o644)

    def _answer_requests(self) -> None:
        answered: set[str] = set()
        while not self._stop.wait(_POLL_SECONDS):
            wanted = self._read()
            if wanted is None or wanted in answered:
                continue
            answered.add(wanted)
            assert self._stages is not None
            stage = next(stage for stage in ORDER if stage == wanted)
            is_granted = self._stages.advance(stage)
            self._write(f"{'granted' if is_granted else 'refused'}-{wanted}", b"", mode=0o644)

    def _read(self) -> str | None:
        """The word that the agent left; None if there is none, or something else."""
        with contextlib.suppress(OSError):
            directory = os.open(self._wanted, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                handle = open_beneath(directory, b"wanted", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
                with os.fdopen(handle, "rb") as stream:
                    word = stream.read(_MOST_BYTES).decode("ascii", "replace").strip()
            finally:
                os.close(directory)
            return word if word in ORDER else None
        return None

    def _write(self, name: str, data: bytes, *, mode: int) -> None:
        path = self._answers / name
        path.write_bytes(data)
        path.chmod(mode)


def find_stage_mode(plan: PlannedRun) -> StageMode:
    """As the run's specification says, else its contract; an agent without a model has no calls to go by."""
    wanted = plan.spec.configuration.stages
    mode: StageMode = plan.loaded.contract.policy.stages if wanted == "as-contract" else wanted
    if mode == "automatic" and not isinstance(plan.agent, ModelAgent):
        return "single"
    return mode


def find_first_stage(mode: StageMode, capabilities: Capabilities) -> Stage:
    """Reading only, where the sandbox can keep to it; a run without stages may do everything at once."""
    return "read" if mode != "single" and capabilities.has_stages else "test"


def open_stage_requests(run: BoundRun, stack: ExitStack) -> StageRequests | None:
    """Where the agent asks for stages; None if it need not ask, or asking would change nothing."""
    if find_stage_mode(run.plan) != "explicit" or not run.installation.capabilities.has_stages:
        return None
    room = stack.enter_context(run.installation.open_scratch())
    return StageRequests(room, owner=run.installation.base.owner)


def serve_stage_requests(
    requests: StageRequests | None, stages: StageController
) -> AbstractContextManager[object]:
    """Answer for as long as the block lasts."""
    return nullcontext() if requests is None else requests.open(stages)
