"""Recorded answers of the web: `web.jsonl`, and `blobs/` as in a run directory."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from typing import Final, Literal

import msgspec

from repotrial._core.digest import Digest
from repotrial.gateway._headers import build_web_answer_headers
from repotrial.gateway._recording._files import BLOBS_NAME, LinesWriter, read_lines
from repotrial.trace import BlobRef, BlobStore
from repotrial.wire import HttpAnswer

TAPE_NAME: Final = "web.jsonl"
_FORMAT: Final = "repotrial-web/1"
_REPEATABLE: Final = frozenset({"GET", "HEAD"})


class _TapeHead(msgspec.Struct, frozen=True, kw_only=True):
    format: Literal["repotrial-web/1"] = _FORMAT
    """What kind of file this is."""


class TapedExchange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer, by what was asked for; nothing else of the request is kept."""

    method: str
    """As sent."""
    url: str
    """As asked for, with its query."""
    request_digest: Digest
    """Over the request's body."""
    part: str = ""
    """Which part was asked for (`Range`); empty for the whole, and in tapes that did not keep it."""
    status: int
    """Of the answer."""
    headers: dict[str, str]
    """Of the answer, without cookies and what belongs to a connection."""
    body: BlobRef
    """The answer's body."""


class TapeWriter:
    """Writes a tape; it has its name when all is there."""

    def __init__(self, directory: Path) -> None:
        self._lines = LinesWriter(directory / TAPE_NAME, _TapeHead())

    def append(
        self, *, method: str, url: str, request_digest: Digest, answer: HttpAnswer, part: str = ""
    ) -> None:
        """Keep one answer; none is kept after the end."""
        if self._lines.is_closed:
            return
        self._lines.append(
            TapedExchange(
                method=method,
                url=url,
                request_digest=request_digest,
                part=part,
                status=answer.status,
                headers=build_web_answer_headers(answer.headers.items()),
                body=self._lines.blobs.put(answer.body),
            )
        )

    def close(self) -> None:
        """Make it a tape. Idempotent."""
        self._lines.close()


class Tape:
    """Answers by request, in the order in which they came; the last one of a repeatable request stays."""

    def __init__(self, directory: Path, exchanges: list[TapedExchange]) -> None:
        self._blobs = BlobStore(directory / BLOBS_NAME)
        self._left: dict[tuple[str, str, Digest, str], deque[TapedExchange]] = defaultdict(deque)
        for exchange in exchanges:
            key = exchange.method, exchange.url, exchange.request_digest, exchange.part
            self._left[key].append(exchange)

    def find(self, *, method: str, url: str, request_digest: Digest, part: str = "") -> HttpAnswer | None:
        """The next answer; None if none was recorded.

        A request for a part that is not there gets the whole, as servers may do.

        Raises:
            EvidenceError: the answer's blob is missing or damaged.
        """
        key = method, url, request_digest
        left = self._left.get((*key, part)) or self._left.get((*key, ""))
        if not left:
            return None
        exchange = left[0]
        if len(left) > 1 or method not in _REPEATABLE:
            left.popleft()
        return HttpAnswer(
            status=exchange.status, headers=exchange.headers, body=self._blobs.read(exchange.body)
        )


def load_tape(directory: Path) -> Tape:
    """Read a tape's index; bodies are read when they are asked for.

    Raises:
        RECORDING_UNREADABLE: there is none, or it is not one of ours.
    """
    _, exchanges = read_lines(directory / TAPE_NAME, _TapeHead, TapedExchange)
    return Tape(directory, exchanges)
