"""Where operators drop decisions; the harness, the one writer of the trace, makes events of them (P20)."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Annotated, Final

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import write_atomic

_POLL_SECONDS: Final = 0.25
_MOST_BYTES: Final = 64 * 1024
_QUESTION: Final = "question.json"
_ANSWER: Final = "answer.json"


NOBODY_ASKS = ErrorCode(
    "nobody-asks",
    UsageError,
    "A decision was given on a run that does not wait for one.",
    hint="`repotrial run show RUN_DIR` says whether a run is paused",
)


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's decision, or the default if none came in time."""

    is_allowed: bool
    """Whether the run goes on."""
    operator: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """Who decided."""
    reason: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$(?!\n)", max_length=100)]
    """Stable kebab-case reason."""
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
    """Why, in their words."""


def find_inbox(run: Path) -> Path:
    """The inbox of a run: beside its directory, which only the harness writes."""
    return run.parent / ".inbox" / run.name


def find_question(run: Path) -> Path:
    """The file that is there while the run waits for a decision."""
    return find_inbox(run) / _QUESTION


def put_answer(run: Path, answer: Answer) -> Path:
    """Drop a decision for a run that waits for one.

    Raises:
        NOBODY_ASKS: it does not.
    """
    place = find_inbox(run)
    if not find_question(run).is_file():
        raise NOBODY_ASKS.error(f"{run}: expected a run that waits for a decision, found none")
    path = place / _ANSWER
    try:
        write_atomic(path, msgspec.json.encode(answer), may_replace=False)
    except FileExistsError:
        raise NOBODY_ASKS.error(f"{run}: expected no decision yet, found one") from None
    return path


class Inbox:
    """The harness's side: asks, waits, and cleans up."""

    def __init__(self, run: Path, *, patience_seconds: float) -> None:
        self._place = find_inbox(run)
        self._patience_seconds = patience_seconds
        self._closed = threading.Event()

    def wait(self) -> Answer | None:
        """The decision; after the time for it, the safe one: abort. None if the run ended meanwhile."""
        write_atomic(self._place / _QUESTION, b"{}\n", is_durable=False)
        deadline = time.monotonic() + self._patience_seconds
        try:
            while time.monotonic() < deadline:
                is_over = self._closed.wait(_POLL_SECONDS)
                found = self._read()
                if found is not None or is_over:
                    return found
        finally:
            self._remove()
        return Answer(
            is_allowed=False,
            operator="nobody",
            reason="no-decision-in-time",
            text=f"no decision within {self._patience_seconds:g} seconds",
        )

    def close(self) -> None:
        """End the wait: the agent is done."""
        self._closed.set()

    def _read(self) -> Answer | None:
        try:
            with (self._place / _ANSWER).open("rb") as stream:
                return msgspec.json.decode(stream.read(_MOST_BYTES), type=Answer)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _remove(self) -> None:
        for name in (_QUESTION, _ANSWER):
            with contextlib.suppress(OSError):
                (self._place / name).unlink()
        with contextlib.suppress(OSError):
            self._place.rmdir()  # its parent stays: another run may be about to ask
