"""Recorded answers of the web: `web.jsonl`, and `blobs/` as in a run directory."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.files import sync_directory
from repotrial.gateway._headers import build_web_answer_headers
from repotrial.gateway._recording._files import RECORDING_UNREADABLE
from repotrial.trace import BlobRef, BlobStore

TAPE_NAME: Final = "web.jsonl"
_BLOBS_NAME: Final = "blobs"
_FORMAT: Final = "repotrial-web/1"
_MAX_BYTES: Final = 256 * 1024 * 1024
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


class TapedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is whole."""

    status: int
    headers: dict[str, str]
    body: bytes


class TapeWriter:
    """Writes a tape; it has its name when all is there."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._aside = directory / f".{TAPE_NAME}.part"
        self._blobs = BlobStore(directory / _BLOBS_NAME)
        self._stream: BinaryIO | None = self._aside.open("xb")
        self._stream.write(msgspec.json.encode(_TapeHead()) + b"\n")

    def append(
        self, *, method: str, url: str, request_digest: Digest, answer: TapedAnswer, part: str = ""
    ) -> None:
        """Keep one answer; nothing is kept after the end."""
        if self._stream is None:
            return
        line = TapedExchange(
            method=method,
            url=url,
            request_digest=request_digest,
            part=part,
            status=answer.status,
            headers=build_web_answer_headers(answer.headers.items()),
            body=self._blobs.put(answer.body),
        )
        self._stream.write(msgspec.json.encode(line) + b"\n")
        self._stream.flush()

    def close(self) -> None:
        """Make it a tape."""
        if self._stream is None:
            return
        self._blobs.sync()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        self._stream = None
        self._aside.replace(self._directory / TAPE_NAME)
        sync_directory(self._directory)


class Tape:
    """Answers by request, in the order in which they came; the last one of a repeatable request stays."""

    def __init__(self, directory: Path, exchanges: list[TapedExchange]) -> None:
        self._blobs = BlobStore(directory / _BLOBS_NAME)
        self._left: dict[tuple[str, str, Digest, str], deque[TapedExchange]] = defaultdict(deque)
        for exchange in exchanges:
            key = exchange.method, exchange.url, exchange.request_digest, exchange.part
            self._left[key].append(exchange)

    def find(self, *, method: str, url: str, request_digest: Digest, part: str = "") -> TapedAnswer | None:
        """The next answer; null where none was recorded.

        Who asks for a part that is not there is given the whole, as servers may do.

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
        return TapedAnswer(
            status=exchange.status, headers=exchange.headers, body=self._blobs.read(exchange.body)
        )


def load_tape(directory: Path) -> Tape:
    """Read a tape's index; bodies are read when they are asked for.

    Raises:
        RECORDING_UNREADABLE: there is none, or it is not one of ours.
    """
    path = directory / TAPE_NAME
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise RECORDING_UNREADABLE.error(f"{path}: expected recorded answers, found: {error}") from error
    if len(data) > _MAX_BYTES:
        raise RECORDING_UNREADABLE.error(f"{path}: expected at most {_MAX_BYTES} bytes, found more")
    first, *rest = data.split(b"\n")
    try:
        msgspec.json.decode(first, type=_TapeHead)
        exchanges = [msgspec.json.decode(line, type=TapedExchange) for line in rest if line]
    except msgspec.DecodeError as error:
        raise RECORDING_UNREADABLE.error(f"{path}: expected recorded answers, found: {error}") from error
    return Tape(directory, exchanges)
