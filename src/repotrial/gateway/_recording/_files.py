"""Recordings on disk: `exchanges.jsonl`, and `blobs/` as in a run directory, which may be the same one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeVar

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial._core.files import sync_directory
from repotrial.trace import BlobRef, BlobStore
from repotrial.wire import Dialect

FORMAT: Final = "repotrial-exchanges/1"
NO_ANSWER: Final = 502
"""Status of an exchange without an answer."""


class RecordingHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    format: Literal["repotrial-exchanges/1"] = FORMAT
    """What kind of file this is."""
    upstream: str
    """Who answered; never a key."""


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request's body, as what is new between the beginning and the end of an earlier one.

    Each turn of a conversation sends all turns before it again.
    """

    digest: Digest
    """Over the whole body, as kept (after redaction)."""
    size_bytes: Count
    """Of the whole body."""
    base: Count | None = None
    """The exchange whose request it shares its ends with; null if it stands alone."""
    prefix_bytes: Count = 0
    """How much of the base's beginning comes first."""
    suffix_bytes: Count = 0
    """How much of the base's end comes last."""
    middle: BlobRef
    """What stands between."""


class RecordedExchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer, without credentials."""

    index: Count
    """Its place in the order in which requests came, from zero."""
    dialect: Dialect
    """The wire format."""
    method: str
    """As on the wire."""
    target: str
    """Path and query, without a key."""
    lane: str
    """What tells side conversations from the main one: model, and whether tools are offered."""
    request: RecordedRequest
    """What was asked."""
    status: int
    """Of the answer; 502 where there was none."""
    headers: dict[str, str]
    """Of the answer, those that mean something to a client."""
    answer: BlobRef
    """The answer's body."""
    is_whole: bool = True
    """Whether the answer came to its end; a replay breaks off where it did."""


Head = TypeVar("Head")
Line = TypeVar("Line")

INDEX_NAME: Final = "exchanges.jsonl"
BLOBS_NAME: Final = "blobs"
_MAX_BYTES: Final = 256 * 1024 * 1024


RECORDING_UNREADABLE = ErrorCode(
    "recording-unreadable",
    EvidenceError,
    "A recording of exchanges is missing, unfinished, or not what it was when it was made.",
    hint="name a run directory, or another one that holds exchanges.jsonl and blobs/",
)


class LinesWriter:
    """Writes JSON lines with blobs beside them: each line when it is known, the file's name at the end."""

    def __init__(self, path: Path, head: msgspec.Struct) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._aside = path.with_name(f".{path.name}.part")
        self.blobs = BlobStore(path.parent / BLOBS_NAME)
        self._stream: BinaryIO | None = self._aside.open("xb")
        self.append(head)

    @property
    def is_closed(self) -> bool:
        return self._stream is None

    def append(self, line: msgspec.Struct) -> None:
        """Keep one line; none is kept after the end."""
        if self._stream is not None:
            self._stream.write(msgspec.json.encode(line) + b"\n")
            self._stream.flush()

    def close(self) -> None:
        """Give the file its name. Idempotent."""
        if self._stream is None:
            return
        self.blobs.sync()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        self._stream = None
        self._aside.replace(self._path)
        sync_directory(self._path.parent)


def read_lines(path: Path, head: type[Head], line: type[Line]) -> tuple[Head, list[Line]]:
    """What a `LinesWriter` wrote.

    Raises:
        RECORDING_UNREADABLE: there is no such file, or it is not one of ours.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise RECORDING_UNREADABLE.error(f"{path}: expected a recording, found: {error}") from error
    if len(data) > _MAX_BYTES:
        raise RECORDING_UNREADABLE.error(f"{path}: expected at most {_MAX_BYTES} bytes, found more")
    first, *rest = data.split(b"\n")
    try:
        return (
            msgspec.json.decode(first, type=head),
            [msgspec.json.decode(text, type=line) for text in rest if text],
        )
    except msgspec.DecodeError as error:
        raise RECORDING_UNREADABLE.error(f"{path}: expected lines of a recording, found: {error}") from error


class Recording:
    """The exchanges of an earlier run, in the order in which they were asked."""

    def __init__(self, directory: Path, head: RecordingHead, exchanges: Sequence[RecordedExchange]) -> None:
        self.head = head
        self.exchanges = tuple(sorted(exchanges, key=lambda exchange: exchange.index))
        self._directory = directory
        self._blobs = BlobStore(directory / BLOBS_NAME)
        self._by_index = {exchange.index: exchange for exchange in self.exchanges}

    def load_request(self, exchange: RecordedExchange) -> bytes:
        """A request's whole body.

        Raises:
            RECORDING_UNREADABLE: it is not what was recorded.
            EvidenceError: a blob is missing or damaged.
        """
        chain = [exchange.request]
        while chain[-1].base is not None:
            base = self._by_index.get(chain[-1].base)
            # Bases come before what rests on them, so this ends.
            if base is None or len(chain) > len(self.exchanges):
                raise RECORDING_UNREADABLE.error(
                    f"{self._directory}: exchange {exchange.index}: expected its base {chain[-1].base},"
                    " found none"
                )
            chain.append(base.request)
        body = b""
        for request in reversed(chain):
            body = self._rebuild(exchange, body, request)
        return body

    def iter_requests(self) -> Iterator[tuple[RecordedExchange, bytes]]:
        """Every exchange with its request's body, in order; one body for each lane in memory.

        Raises:
            EvidenceError: as for `load_request`.
        """
        last: dict[str, tuple[int, bytes]] = {}
        for exchange in self.exchanges:
            index, base = last.get(exchange.lane, (None, b""))
            request = exchange.request
            if request.base is not None and request.base == index:
                body = self._rebuild(exchange, base, request)
            else:
                body = self.load_request(exchange)
            last[exchange.lane] = (exchange.index, body)
            yield exchange, body

    def load_answer(self, exchange: RecordedExchange) -> bytes:
        """An answer's body.

        Raises:
            EvidenceError: the blob is missing or damaged.
        """
        return self._blobs.read(exchange.answer)

    def _rebuild(self, exchange: RecordedExchange, base: bytes, request: RecordedRequest) -> bytes:
        end = base[len(base) - request.suffix_bytes :] if request.suffix_bytes else b""
        body = base[: request.prefix_bytes] + self._blobs.read(request.middle) + end
        if digest_bytes(body) != request.digest:
            raise RECORDING_UNREADABLE.error(
                f"{self._directory}: exchange {exchange.index}: expected a request with"
                f" {request.digest}, found another"
            )
        return body


def load_recording(directory: Path) -> Recording:
    """Read a recording's index; bodies are read when they are needed.

    Raises:
        RECORDING_UNREADABLE: there is none, or it is not one of ours.
    """
    path = directory / INDEX_NAME
    head, exchanges = read_lines(path, RecordingHead, RecordedExchange)
    if len({exchange.index for exchange in exchanges}) != len(exchanges):
        raise RECORDING_UNREADABLE.error(f"{path}: expected each exchange once, found one twice")
    return Recording(directory, head, exchanges)
