"""Explicit stages (P7): the agent asks for the next one, with a command that lies in its sandbox.

The command leaves a word in a directory and waits; the harness reads it from outside, lets the sandbox change
privileges, and answers with a file that the agent cannot write. No network is involved: every agent can ask.
"""

from __future__ import annotations

import contextlib
import os
import threading
from types import TracebackType
from typing import Final, Self

from repotrial._core.beneath import open_beneath
from repotrial.environment import ScratchPlace
from repotrial.isolation import Account, Bind
from repotrial.run._watch._stages import ORDER, StageKeeper

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


class StageDesk:
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
        self._stages: StageKeeper | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="repotrial-stages", daemon=True)

    @property
    def binds(self) -> tuple[Bind, ...]:
        """What the sandbox has to show."""
        return (
            Bind(source=self._answers, target=_ROOM),
            Bind(source=self._wanted, target=_COUNTER, is_writable=True),
        )

    def open(self, stages: StageKeeper) -> Self:
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
        except BaseException as error:  # noqa: BLE001 - told to whoever closes the desk
            self._error = error
            self._refuse_all()

    def _refuse_all(self) -> None:
        """Nobody may wait at a desk that is not served."""
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
        """The word that the agent left; null where there is none, or something else."""
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
