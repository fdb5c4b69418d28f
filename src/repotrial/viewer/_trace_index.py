"""Where each event of a trace begins, and its type: pages, jumps and searches do not depend on the length.

The index is disposable: a side file in the cache, extended while the trace grows, built anew when it does not
fit. It trusts nothing: every event that is shown is parsed from the trace itself.
"""

from __future__ import annotations

import json
import os
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from repotrial._core.digest import digest_bytes
from repotrial._core.files import write_atomic
from repotrial.trace import Event, RunPaths, TimelineRow, iter_events, iter_timeline, open_regular

_CHUNK_BYTES: Final = 8 * 1024**2
_MOST_SEARCHED_BYTES: Final = 512 * 1024**2
"""Of one request; the next one goes on from there."""
_TYPE: Final = b'"type":"'
_TYPE_BYTES: Final = 80
"""Canonical lines end with their type (P13); one that does not has none here."""
_MOST_TYPES: Final = 250
_UNKNOWN: Final = "?"
_WORTH_KEEPING: Final = 5_000
"""Shorter traces are indexed anew in less time than a file takes."""


class TraceIndex:
    """Offsets and types of the complete lines of one trace."""

    def __init__(self, run: Path, cache: Path | None = None) -> None:
        self._paths = RunPaths(run)
        self._cache = None if cache is None else cache / f"{_name(run)}.lines"
        self._lock = threading.Lock()
        self._identity: tuple[int, int] | None = None
        self._reset()
        self._load()

    def _reset(self) -> None:
        self._ends = np.zeros(0, np.uint64)
        self._codes = np.zeros(0, np.uint8)
        self._types = [_UNKNOWN]
        self._tail = b""

    @property
    def count(self) -> int:
        """Complete lines at the last look."""
        return len(self._ends)

    @property
    def size_bytes(self) -> int:
        """How far the trace is indexed."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def refresh(self) -> int:
        """Take in what was appended; the number of events.

        Raises:
            TRACE_UNREADABLE: there is no trace, or it is no regular file.
        """
        with self._lock, open_regular(self._paths.trace) as stream:
            state = os.fstat(stream.fileno())
            identity = (state.st_dev, state.st_ino)
            if self._identity not in {None, identity} or not self._fits(stream.fileno(), state.st_size):
                self._reset()
            self._identity = identity
            if state.st_size > self.size_bytes:
                self._extend(stream.fileno(), state.st_size)
            return self.count

    def _fits(self, handle: int, size: int) -> bool:
        """Whether the last line that was indexed still stands where it stood."""
        return size >= self.size_bytes and os.pread(
            handle, len(self._tail), self.size_bytes - len(self._tail)
        ) == (self._tail)

    def _extend(self, handle: int, size: int) -> None:
        before = self.count
        ends, codes = [self._ends], [self._codes]
        start = self.size_bytes
        rest, place = b"", start
        while place < size and (chunk := os.pread(handle, min(_CHUNK_BYTES, size - place), place)):
            place += len(chunk)
            data = rest + chunk
            found = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
            if not len(found):
                rest = data
                continue
            ends.append(found.astype(np.uint64) + np.uint64(start))
            codes.append(np.fromiter(self._iter_codes(data, found.tolist()), np.uint8, len(found)))
            last = int(found[-1])
            self._tail = data[max(0, last - _TYPE_BYTES) : last]
            start, rest = start + last, data[last:]
        self._ends, self._codes = np.concatenate(ends), np.concatenate(codes)
        if self._cache is not None and self.count - before >= _WORTH_KEEPING:
            self._save()

    def _iter_codes(self, data: bytes, ends: list[int]) -> Iterator[int]:
        known: dict[bytes, int] = {}
        find, start = data.rfind, 0
        for end in ends:
            place = find(_TYPE, max(start, end - _TYPE_BYTES), end)
            name = data[place + len(_TYPE) : end - 3] if place >= 0 else b""
            code = known.get(name)
            if code is None:
                code = known[name] = self._find_code(name)
            yield code
            start = end

    def _find_code(self, name: bytes) -> int:
        text = name.decode("utf-8", "replace") or _UNKNOWN
        if text not in self._types:
            if len(self._types) >= _MOST_TYPES:  # only a forged trace has so many
                return 0
            self._types.append(text)
        return self._types.index(text)

    def count_types(self) -> dict[str, int]:
        """How many events there are of each type."""
        counts = np.bincount(self._codes, minlength=len(self._types))
        return {name: int(count) for name, count in zip(self._types, counts, strict=False) if count}

    def list_of(self, types: Collection[str]) -> list[int]:
        """The events of some types, in order."""
        codes = [code for code, name in enumerate(self._types) if name in types]
        return [int(seq) for seq in np.flatnonzero(np.isin(self._codes, codes))]

    def find_offset(self, seq: int) -> int:
        """Where the line of an event begins."""
        return int(self._ends[seq - 1]) if seq else 0

    def list_rows(self, first: int, most: int) -> list[TimelineRow]:
        """So many events from one on, each in a line; fewer at the end.

        Raises:
            EvidenceError: a line is no event.
        """
        if first >= self.count:
            return []
        rows = iter_timeline(self._paths, first=first, offset=self.find_offset(first))
        return list(islice(rows, min(most, self.count - first)))

    def list_chosen(self, chosen: Collection[int]) -> list[TimelineRow]:
        """Single events, each in a line; neighbors are read together.

        Raises:
            EvidenceError: a line is no event.
        """
        wanted, rows = sorted(chosen), list[TimelineRow]()
        while wanted:
            length = 1
            while length < len(wanted) and wanted[length] == wanted[0] + length:
                length += 1
            rows += self.list_rows(wanted[0], length)
            del wanted[:length]
        return rows

    def load_event(self, seq: int) -> Event | None:
        """One event; None if there is none of that number.

        Raises:
            EvidenceError: its line is no event.
        """
        if not 0 <= seq < self.count:
            return None
        return next(
            iter_events(self._paths.trace, allow_torn_tail=True, first=seq, offset=self.find_offset(seq)),
            None,
        )

    def find_text(self, text: str, *, first: int, most: int) -> tuple[list[int], int | None]:
        """Events whose line has a text, whatever the case of ASCII letters; and where to go on, if at all."""
        needle = json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "replace").lower()
        ends, found = self._ends.tolist(), list[int]()
        if not needle or first >= len(ends):
            return [], None
        seq, start = first, self.find_offset(first)
        with open_regular(self._paths.trace) as stream:
            while start < self.size_bytes:
                # Whole lines at a time: nothing is missed where two pieces meet.
                stop_seq = max(seq + 1, bisect_right(ends, start + _CHUNK_BYTES))
                stop = ends[min(stop_seq, len(ends)) - 1]
                data = os.pread(stream.fileno(), stop - start, start).lower()
                place = data.find(needle)
                while place >= 0:
                    hit = bisect_right(ends, start + place)
                    found.append(hit)
                    if len(found) >= most:
                        return found, hit + 1 if hit + 1 < len(ends) else None
                    place = data.find(needle, ends[hit] - start)
                seq, start = stop_seq, stop
                if start - self.find_offset(first) > _MOST_SEARCHED_BYTES and seq < len(ends):
                    return found, seq
        return found, None

    def _save(self) -> None:
        assert self._cache is not None
        head = {
            "count": self.count,
            "identity": self._identity,
            "tail": self._tail.hex(),
            "types": self._types,
        }
        data = json.dumps(head).encode() + b"\n" + self._ends.tobytes() + self._codes.tobytes()
        with suppress(OSError):  # without it, the next start reads the trace once more
            write_atomic(self._cache, data, is_durable=False)

    def _load(self) -> None:
        if self._cache is None:
            return
        try:
            head, _, rest = self._cache.read_bytes().partition(b"\n")
            facts = json.loads(head)
            count = int(facts["count"])
            ends = np.frombuffer(rest[: 8 * count], np.uint64)
            codes = np.frombuffer(rest[8 * count :], np.uint8)
            if len(ends) != count or len(codes) != count:
                return
            device, inode = facts["identity"]
            self._ends, self._codes, self._types = ends, codes, [str(name) for name in facts["types"]]
            self._tail, self._identity = bytes.fromhex(facts["tail"]), (int(device), int(inode))
        except (OSError, ValueError, KeyError, TypeError):
            self._reset()


def _name(run: Path) -> str:
    return digest_bytes(os.fsencode(run.resolve())).removeprefix("sha256:")[:32]
