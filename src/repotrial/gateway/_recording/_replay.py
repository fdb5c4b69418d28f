"""An upstream that answers as an earlier one did, and says where a run leaves the recorded path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial._core.display import neutralize
from repotrial.gateway._concurrency import work_aside
from repotrial.gateway._model import Refusal, UpstreamAnswer, UpstreamRequest
from repotrial.gateway._recording._files import NO_ANSWER, RecordedExchange, Recording
from repotrial.gateway._recording._identity import build_compared, build_identity, build_lane, redact_body
from repotrial.gateway._wire._refusals import build_refusal
from repotrial.trace import NO_REDACTION, Redactor

_SNIPPET: Final = 160
_BEFORE: Final = 40
_ABSENT: Final = "(absent)"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first value that is another one."""

    pointer: str
    """Where it stands: a JSON pointer into the request."""
    expected: str
    """What stood there when it was recorded."""
    found: str
    """What stands there now."""


def find_difference(expected: object, found: object, pointer: str = "") -> Difference | None:
    """The first difference in the order of the expected value; null where there is none."""
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


def _describe(expected: object, found: object, pointer: str) -> Difference:
    start = 0
    if isinstance(expected, str) and isinstance(found, str):
        same = next(
            (index for index, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b),
            min(len(expected), len(found)),
        )
        start = max(0, same - _BEFORE)
    return Difference(pointer=pointer, expected=_show(expected, start), found=_show(found, start))


def _show(value: object, start: int) -> str:
    if value is _Absent:
        return _ABSENT
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = text[start : start + _SNIPPET]
    shown = f"{'…' if start else ''}{cut}{'…' if start + _SNIPPET < len(text) else ''}"
    return neutralize(shown, max_characters=2 * _SNIPPET)


MatchMode: TypeAlias = Literal["exact", "normalized"]
"""Whether a request must be the recorded one to the byte, or but for what differs from run to run."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the recording does not hold."""

    request: Count
    """Its number in the replay, from zero."""
    expected: Count | None
    """The recorded exchange that was next in its place; null where none was left."""
    difference: Difference
    """The first value in which the two differ."""

    def __str__(self) -> str:
        place = "the end of the recording" if self.expected is None else f"exchange {self.expected}"
        return (
            f"request {self.request}: expected {place}; at {self.difference.pointer or '/'}:"
            f" expected {self.difference.expected!r}, found {self.difference.found!r}"
        )


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a replay kept to its recording."""

    asked: Count
    """Requests that came."""
    answered: Count
    """Those that the recording held."""
    divergence: Divergence | None
    """The first that it did not hold."""
    unused: tuple[Count, ...]
    """Recorded exchanges that nobody asked for."""
    out_of_order: tuple[Count, ...]
    """Exchanges that were asked for while an earlier one of their lane was not yet."""

    @property
    def is_same(self) -> bool:
        """Whether the run went the recorded way from end to end."""
        return self.divergence is None and not self.unused and not self.out_of_order


class RecordedCutError(ConnectionError):
    """The recorded answer breaks off here."""


class RecordingUpstream:
    """Replays a recording. The earliest unused exchange with the same request answers it.

    Args:
        recording: What was said before.
        mode: When two requests are the same.
        redactor: Of this run: its key stands where another run's key stood.
        on_divergence: Told about the first request that the recording does not hold.

    Raises:
        EvidenceError: the recording is damaged.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        mode: MatchMode = "normalized",
        redactor: Redactor = NO_REDACTION,
        on_divergence: Callable[[Divergence], None] | None = None,
    ) -> None:
        self._recording = recording
        self._mode = mode
        self._redactor = redactor
        self._on_divergence = on_divergence
        self._unused: dict[int, tuple[Digest, RecordedExchange]] = {
            exchange.index: (
                build_identity(
                    exchange.dialect,
                    exchange.method,
                    exchange.target,
                    body,
                    is_normalized=self._is_normalized,
                ),
                exchange,
            )
            for exchange, body in recording.iter_requests()
        }
        self._asked = 0
        self._answered = 0
        self._divergence: Divergence | None = None
        self._out_of_order: list[int] = []

    @property
    def description(self) -> str:
        return f"recording of {self._recording.head.upstream}"

    @property
    def report(self) -> ReplayReport:
        """So far."""
        return ReplayReport(
            asked=self._asked,
            answered=self._answered,
            divergence=self._divergence,
            unused=tuple(self._unused),
            out_of_order=tuple(self._out_of_order),
        )

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        number = self._asked
        self._asked += 1
        body = await work_aside(len(request.body), redact_body, request.body, self._redactor)
        identity = await work_aside(
            len(body),
            build_identity,
            request.parsed.dialect,
            request.method,
            request.target,
            body,
            is_normalized=self._is_normalized,
        )
        lane = build_lane(request.parsed)
        exchange = self._take(identity, lane)
        if exchange is None:
            return self._diverge(number, request, body, lane)
        self._answered += 1
        if exchange.status == NO_ANSWER and not exchange.is_whole and not exchange.answer.size_bytes:
            raise RecordedCutError("nobody answered when this was recorded")
        return UpstreamAnswer(
            status=exchange.status,
            headers=exchange.headers,
            chunks=_iter_answer(self._recording.load_answer(exchange), is_whole=exchange.is_whole),
        )

    async def close(self) -> None:
        """Nothing is open."""

    @property
    def _is_normalized(self) -> bool:
        return self._mode == "normalized"

    def _take(self, identity: Digest, lane: str) -> RecordedExchange | None:
        found = next((item for own, item in self._unused.values() if own == identity), None)
        if found is not None:
            earliest = self._find_next(lane)
            if earliest is not None and earliest.index != found.index:
                self._out_of_order.append(found.index)
            del self._unused[found.index]
        return found

    def _find_next(self, lane: str) -> RecordedExchange | None:
        return next((item for _, item in self._unused.values() if item.lane == lane), None)

    def _diverge(self, number: int, request: UpstreamRequest, body: bytes, lane: str) -> UpstreamAnswer:
        expected = self._find_next(lane) or next((item for _, item in self._unused.values()), None)
        divergence = Divergence(
            request=number,
            expected=None if expected is None else expected.index,
            difference=self._compare(expected, request, body),
        )
        if self._divergence is None:
            self._divergence = divergence
            if self._on_divergence is not None:
                self._on_divergence(divergence)
        refusal = Refusal(status=409, kind="diverged", message=f"the replay diverges: {divergence}")
        answer = build_refusal(request.parsed.dialect, refusal)
        return UpstreamAnswer(
            status=answer.status, headers=answer.headers, chunks=_iter_answer(answer.body, is_whole=True)
        )

    def _compare(
        self, expected: RecordedExchange | None, request: UpstreamRequest, body: bytes
    ) -> Difference:
        found = {
            "method": request.method,
            "target": request.target,
            "body": self._read(request, body),
        }
        if expected is None:
            return Difference(pointer="", expected="the end of the recording", found="one more request")
        recorded = {
            "method": expected.method,
            "target": expected.target,
            "body": self._read(request, self._recording.load_request(expected)),
        }
        return find_difference(recorded, found) or Difference(
            pointer="/body", expected="the same value in other bytes", found="the same value"
        )

    def _read(self, request: UpstreamRequest, body: bytes) -> object:
        compared = build_compared(request.parsed.dialect, body, is_normalized=self._is_normalized)
        try:
            value: object = msgspec.json.decode(compared)
        except msgspec.DecodeError:
            return compared.decode("utf-8", "replace")
        return value


async def _iter_answer(body: bytes, *, is_whole: bool) -> AsyncIterator[bytes]:
    yield body
    if not is_whole:
        raise RecordedCutError("the recorded answer breaks off here")
