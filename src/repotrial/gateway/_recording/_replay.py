"""An upstream that answers as an earlier one did, and says where a run leaves the recorded path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.display import neutralize
from repotrial.gateway._concurrency import run_in_thread_if_large
from repotrial.gateway._model import UpstreamAnswer, UpstreamRequest
from repotrial.gateway._recording._files import NO_ANSWER, RecordedExchange, load_recording
from repotrial.gateway._recording._identity import build_compared, build_identity, build_lane, redact_body
from repotrial.redaction import NO_REDACTION, Redactor
from repotrial.wire import Refusal, build_refusal

_SNIPPET: Final = 160
_BEFORE: Final = 40
_ABSENT: Final = "(absent)"


class _RequestDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first value that is another one."""

    pointer: str
    """Where it stands: a JSON pointer into the request."""
    expected: str
    """What stood there when it was recorded."""
    found: str
    """What stands there now."""


def find_difference(expected: object, found: object, pointer: str = "") -> _RequestDifference | None:
    """The first difference in the order of the expected value; None if there is none."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [*expected, *(key for key in found if key not in expected)]
        pairs = [(_escape(str(key)), expected.get(key, _Absent), found.get(key, _Absent)) for key in keys]
    elif isinstance(expected, list) and isinstance(found, list):
        length = max(len(expected), len(found))
        left, right = (items + [_Absent] * (length - len(items)) for items in (expected, found))
        pairs = [(str(index), left[index], right[index]) for index in range(length)]
    else:
        return None if _is_same(expected, found) else _describe(expected, found, pointer)
    for key, one, other in pairs:
        difference = find_difference(one, other, f"{pointer}/{key}")
        if difference is not None:
            return difference
    return None


class _Absent:
    """Stands where one side has nothing."""


def _is_same(expected: object, found: object) -> bool:
    # `True == 1` in Python, and not in JSON.
    return type(expected) is type(found) and expected == found


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _describe(expected: object, found: object, pointer: str) -> _RequestDifference:
    start = 0
    if isinstance(expected, str) and isinstance(found, str):
        same = next(
            (index for index, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b),
            min(len(expected), len(found)),
        )
        start = max(0, same - _BEFORE)
    return _RequestDifference(pointer=pointer, expected=_show(expected, start), found=_show(found, start))


def _show(value: object, start: int) -> str:
    if value is _Absent:
        return _ABSENT
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = text[start : start + _SNIPPET]
    shown = f"{'…' if start else ''}{cut}{'…' if start + _SNIPPET < len(text) else ''}"
    return neutralize(shown, max_characters=2 * _SNIPPET)


class _RecordedCutError(ConnectionError):
    """The recorded answer breaks off here."""


class RecordingUpstream:
    """Replays a recording. The earliest unused exchange with the same request answers it.

    Args:
        directory: A recording of what was said before.
        redactor: Of this run: its key stands where another run's key stood.
        on_divergence: Told about the first request that the recording does not hold.

    Raises:
        RECORDING_UNREADABLE: there is no recording, or it is not one of ours.
        EvidenceError: the recording is damaged.
    """

    def __init__(
        self,
        directory: Path,
        *,
        redactor: Redactor = NO_REDACTION,
        on_divergence: Callable[[str], None] | None = None,
    ) -> None:
        self._recording = load_recording(directory)
        self._redactor = redactor
        self._on_divergence = on_divergence
        self._asked = 0
        self._unused: dict[int, tuple[Digest, RecordedExchange]] = {
            exchange.index: (
                build_identity(exchange.dialect, exchange.method, exchange.target, body),
                exchange,
            )
            for exchange, body in self._recording.iter_requests()
        }

    @property
    def description(self) -> str:
        return f"recording of {self._recording.head.upstream}"

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        number = self._asked
        self._asked += 1
        body = await run_in_thread_if_large(len(request.body), redact_body, request.body, self._redactor)
        identity = await run_in_thread_if_large(
            len(body), build_identity, request.parsed.dialect, request.method, request.target, body
        )
        found = next((item for own, item in self._unused.values() if own == identity), None)
        if found is None:
            return self._diverge(number, request, body)
        del self._unused[found.index]
        if found.status == NO_ANSWER and not found.is_whole and not found.answer.size_bytes:
            raise _RecordedCutError("no answer came when this was recorded")
        chunks = _iter_answer(self._recording.load_answer(found), is_whole=found.is_whole)
        return UpstreamAnswer(status=found.status, headers=found.headers, chunks=chunks)

    async def close(self) -> None:
        """Nothing is open."""

    def _diverge(self, number: int, request: UpstreamRequest, body: bytes) -> UpstreamAnswer:
        lane = build_lane(request.parsed)
        left = [item for _, item in self._unused.values()]
        expected = next((item for item in left if item.lane == lane), left[0] if left else None)
        place = "the end of the recording" if expected is None else f"exchange {expected.index}"
        difference = self._compare(expected, request, body)
        divergence = (
            f"request {number}: expected {place}; at {difference.pointer or '/'}:"
            f" expected {difference.expected!r}, found {difference.found!r}"
        )
        if self._on_divergence is not None:
            self._on_divergence(divergence)
            self._on_divergence = None
        refusal = Refusal(status=409, kind="diverged", message=f"the replay diverges: {divergence}")
        answer = build_refusal(request.parsed.dialect, refusal)
        return UpstreamAnswer(
            status=answer.status, headers=answer.headers, chunks=_iter_answer(answer.body, is_whole=True)
        )

    def _compare(
        self, expected: RecordedExchange | None, request: UpstreamRequest, body: bytes
    ) -> _RequestDifference:
        if expected is None:
            return _RequestDifference(
                pointer="", expected="the end of the recording", found="one more request"
            )
        found = {"method": request.method, "target": request.target, "body": _read(request, body)}
        recorded = {
            "method": expected.method,
            "target": expected.target,
            "body": _read(request, self._recording.load_request(expected)),
        }
        return find_difference(recorded, found) or _RequestDifference(
            pointer="/body", expected="the same value in other bytes", found="the same value"
        )


def _read(request: UpstreamRequest, body: bytes) -> object:
    compared = build_compared(request.parsed.dialect, body)
    try:
        value: object = msgspec.json.decode(compared)
    except msgspec.DecodeError:
        return compared.decode("utf-8", "replace")
    return value


async def _iter_answer(body: bytes, *, is_whole: bool) -> AsyncIterator[bytes]:
    yield body
    if not is_whole:
        raise _RecordedCutError("the recorded answer breaks off here")
