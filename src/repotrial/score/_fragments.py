"""The lines that say why: where they stand in what an execution printed, and what they name as missing.

A line that a candidate printed is evidence for people. No verdict reads one (S5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, TypeAlias

import msgspec

from repotrial._core.display import neutralize
from repotrial._core.errors import EvidenceError
from repotrial.score._evidence import EvidencePointer, MissingKind, MissingName, StreamPointer
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    BuildCheck,
    Event,
    Exited,
    MonitorAlert,
    Passed,
    PatchApplication,
    RunPaths,
    Segment,
    StaticCheck,
    iter_events,
)

_Check: TypeAlias = AcceptanceExecution | BuildCheck | StaticCheck

FRAGMENTS: Final = 3
"""From these rules of completeness on, verdicts point at lines; earlier runs keep their documents."""
_MOST_OF_EXECUTION: Final = 6
_MOST_OF_GATE: Final = 20
_MOST_TESTS: Final = 3
_MOST_MISSING: Final = 10
_MOST_BYTES: Final = 2000
_MOST_LOG_BYTES: Final = 4 * 1024**2
_MOST_LOGS: Final = 20
_MOST_NAME: Final = 200
_TAIL_LINES: Final = 8

_MISSING: Final[dict[MissingKind, tuple[bytes, ...]]] = {
    "module": (
        rb"No module named '?([\w.\-]+)",
        rb"[Cc]annot find (?:module|package) '([@\w./\-]+)'",
        rb"unresolved import `([\w:]+)`",
        rb"undeclared crate or module `(\w+)`",
        rb"fatal error: ([\w./+\-]+): No such file",
        rb"loading shared libraries: ([\w.+\-]+):",
    ),
    "package": (
        rb"No matching distribution found for ([\w.\-]+)",
        rb"no matching package named `([\w\-]+)`",
        rb"no required module provides package ([\w./\-]+)",
        rb"'([@\w./\-]+)@[^'\s]*' is not in this registry",
        rb"error: package ([\w.]+) does not exist",
    ),
    "command": (
        rb"sh: (?:line )?\d+: ([\w.+/\-]+): (?:command )?not found",
        rb"env: \W{0,3}([\w.+\-]+)\W{0,3}: No such file",
        rb"make: ([\w.+/\-]+): No such file",
        rb'exec: "([\w.+/\-]+)": executable file not found',
    ),
    "version": (
        rb"version that satisfies the requirement ([\w.\-]+[<>=!~]=?[\w.,<>=!~*]+)",
        rb"requires a different Python: ([\d.]+ not in '[^']{1,80}')",
        rb"version `((?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found",
        rb"requires rustc ([\d.]+)",
        rb"go\.mod requires go >= ([\d.]+)",
    ),
}
"""How runners, interpreters, linkers and package managers name what they did not find (Q11)."""
_SIGN: Final = re.compile(rb"FAIL|ERROR|[Ee]rror|not ok|panicked|failed|\xe2\x9c[\x95-\x98]")
"""Beside the name of a test: that this is the line which tells of it."""
_HEAD: Final = re.compile(rb"_{3,} .* _{3,}\s*$")
_SAID: Final = re.compile(rb"(?:^E .*\n?)+", re.MULTILINE)
"""pytest tells of a failure below a line with the name of the test."""
_MOST_FAR: Final = 20_000
_REFUSED: Final = re.compile(rb"^error: .*", re.MULTILINE)
_CASE: Final = (b"<testcase", b"</testcase>")


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """A place in one stream."""

    offset: int
    length: int
    missing: tuple[MissingName, ...] = ()


def find_fragments(event: Event, blobs: BlobStore) -> tuple[StreamPointer, ...]:
    """The lines of an event that say why it came out as it did; none for events of other kinds."""
    match event.payload:
        case AcceptanceExecution() | BuildCheck() | StaticCheck() as check if _tells(check):
            return tuple(_iter_of_check(check, event, blobs))[:_MOST_OF_EXECUTION]
        case PatchApplication() as patch if not isinstance(patch.outcome, Passed):
            data = patch.stderr.load(blobs).data
            lines = [_cut(data, *match.span()) for match in _REFUSED.finditer(data)]
            pointer = _start(event, patch.command.argv, "stderr")
            return tuple(_point(pointer, each) for each in lines[:_MOST_OF_EXECUTION])
        case MonitorAlert(segment=Segment(body=body)):
            try:
                found = _Found(offset=0, length=len(body.load(blobs)))
            except EvidenceError:  # the budget did not keep it, or it was taken out later
                return ()
            return (_point(_start(event, (), "segment"), found),)
        case _:
            return ()


def _tells(check: _Check) -> bool:
    """Suites with wrong expectations fail where all is well, and controls judge other trees."""
    is_doubt = isinstance(check, AcceptanceExecution) and check.variant == "twins"
    return check.subject == "candidate" and not (is_doubt and isinstance(check.outcome, Passed))


def _iter_of_check(check: _Check, event: Event, blobs: BlobStore) -> Iterator[StreamPointer]:
    is_passed = isinstance(check.outcome, Passed)
    tests = check.failing.ids if isinstance(check, AcceptanceExecution) else ()
    streams = [*_iter_streams(check, event, blobs)]
    found = [] if is_passed else [*_find_missing(streams), *_find_tests(streams, tests)]
    if not found and streams:
        # What a runner says last is its summary; a failure without tests is told where it ended.
        number = _find_telling_runner(check)
        ends = [(p, d) for p, d in streams if p.runner == number and p.stream in _PRINTED and d.strip()]
        found = [(p, _find_tail(d, 1 if is_passed else _TAIL_LINES)) for p, d in ends]
    yield from dict.fromkeys(_point(pointer, each) for pointer, each in found)


def _find_telling_runner(check: _Check) -> int:
    """The first command that did not end well; the last where all did."""
    bad = [number for number, each in enumerate(check.runners, start=1) if each.exit != Exited(code=0)]
    return next(iter(bad), len(check.runners) or 1)


_PRINTED: Final = ("stdout", "stderr")


def _iter_streams(check: _Check, event: Event, blobs: BlobStore) -> Iterator[tuple[StreamPointer, bytes]]:
    runners = check.runners or (check,)
    for number, runner in enumerate(runners, start=1):
        for name in _PRINTED:
            pointer = _start(event, runner.command.argv, name, runner=number, check=check.check_id)
            yield pointer, getattr(runner, name).load(blobs).data
    for log in check.logs[:_MOST_LOGS]:
        if log.blob.size_bytes <= _MOST_LOG_BYTES:
            pointer = _start(event, (), log.name, runner=len(runners), check=check.check_id)
            try:
                yield pointer, blobs.read(log.blob)
            except EvidenceError:  # a lost log is a finding of completeness
                continue


def _start(
    event: Event, argv: tuple[str, ...], stream: str, *, runner: int = 1, check: str | None = None
) -> StreamPointer:
    return StreamPointer(
        seq=event.seq,
        type=event.type,
        check=check,
        command=argv,
        runner=runner,
        stream=stream,
        offset_bytes=0,
        length_bytes=0,
    )


def _point(pointer: StreamPointer, found: _Found) -> StreamPointer:
    return msgspec.structs.replace(
        pointer, offset_bytes=found.offset, length_bytes=found.length, missing=found.missing
    )


@cache
def _compile_missing() -> tuple[tuple[MissingKind, re.Pattern[bytes]], ...]:
    return tuple((kind, re.compile(pattern)) for kind, patterns in _MISSING.items() for pattern in patterns)


def _find_missing(streams: Iterable[tuple[StreamPointer, bytes]]) -> Iterator[tuple[StreamPointer, _Found]]:
    seen: set[MissingName] = set()
    for pointer, data in streams:
        for kind, pattern in _compile_missing():
            for match in pattern.finditer(data):
                words = neutralize(match[1].decode(errors="replace"), max_characters=_MOST_NAME)
                name = MissingName(kind=kind, name=words)
                if name not in seen and len(seen) < _MOST_MISSING:
                    seen.add(name)
                    line = _find_line(data, match.start(), match.end())
                    yield pointer, msgspec.structs.replace(line, missing=(name,))


def _find_tests(
    streams: Iterable[tuple[StreamPointer, bytes]], tests: Iterable[str]
) -> Iterator[tuple[StreamPointer, _Found]]:
    """For each test the first line that tells of its failure, else its entry in a file of results."""
    ordered = list(streams)
    names = dict.fromkeys(re.split(r"::|[.\s>/]", test.partition("[")[0])[-1].encode() for test in tests)
    for name in [*filter(None, names)][:_MOST_TESTS]:
        found = (place for pointer, data in ordered if (place := _find_test(pointer, data, name)) is not None)
        yield from [each for each in (next(found, None),) if each is not None]


def _find_test(pointer: StreamPointer, data: bytes, name: bytes) -> tuple[StreamPointer, _Found] | None:
    is_log = pointer.stream not in _PRINTED
    for match in re.finditer(rb"(?<!\w)" + re.escape(name) + rb"(?!\w)", data):
        if is_log:
            return pointer, _find_case(data, match.start(), match.end())
        line = _find_line(data, match.start(), match.end())
        end = line.offset + line.length
        if _HEAD.match(data, line.offset, end) and (said := _SAID.search(data, end, end + _MOST_FAR)):
            return pointer, _cut(data, *said.span())
        if _SIGN.search(data, line.offset, end):
            return pointer, line
    return None


def _find_case(data: bytes, start: int, end: int) -> _Found:
    """The entry of a test in JUnit XML, which may be one long line; a line of other formats."""
    first = data.rfind(_CASE[0], max(0, start - _MOST_BYTES), start)
    if first < 0:
        return _find_line(data, start, end)
    last = data.find(_CASE[1], end)
    return _cut(data, first, len(data) if last < 0 else last + len(_CASE[1]))


def _find_line(data: bytes, start: int, end: int) -> _Found:
    first = data.rfind(b"\n", 0, start) + 1
    last = data.find(b"\n", end)
    return _cut(data, max(first, start - _MOST_BYTES // 2), len(data) if last < 0 else last)


def _find_tail(data: bytes, lines: int) -> _Found:
    end = len(data.rstrip())
    start = end
    for _ in range(lines):
        start = data.rfind(b"\n", 0, max(0, start))
        if start < 0:
            break
    return _cut(data, max(start + 1, end - _MOST_BYTES), end)


def _cut(data: bytes, start: int, end: int) -> _Found:
    return _Found(offset=start, length=min(end, start + _MOST_BYTES, len(data)) - start)


def add_fragments(
    evidence: tuple[EvidencePointer, ...], fragments: Mapping[int, tuple[StreamPointer, ...]]
) -> tuple[EvidencePointer, ...]:
    """Evidence, and the lines of the events that it names."""
    named = dict.fromkeys(getattr(pointer, "seq", -1) for pointer in evidence)
    lines = [pointer for seq in named for pointer in fragments.get(seq, ())]
    return (*evidence, *[pointer for pointer in lines if pointer not in evidence][:_MOST_OF_GATE])


class QuotedLines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines as they were opened."""

    pointer: StreamPointer
    text: str
    """Redacted as the record is; bytes that are no text are shown as escapes."""
    line: int
    """The number of the first of them in its stream, from 1; 0 where nothing could be opened."""
    lost: str = ""
    """Why they cannot be opened."""


def read_lines(paths: RunPaths, pointers: Iterable[StreamPointer]) -> tuple[QuotedLines, ...]:
    """Open the lines that a verdict points at; in the order of the trace.

    Raises:
        EvidenceError: the trace cannot be read.
    """
    wanted: dict[int, list[StreamPointer]] = {}
    for pointer in dict.fromkeys(pointers):
        wanted.setdefault(pointer.seq, []).append(pointer)
    if not wanted:
        return ()
    blobs, found = BlobStore(paths.blobs), []
    for event in iter_events(paths.trace, allow_torn_tail=True):
        found += [_quote(event, pointer, blobs) for pointer in wanted.get(event.seq, ())]
        if event.seq >= max(wanted):
            break
    return tuple(found)


def _quote(event: Event, pointer: StreamPointer, blobs: BlobStore) -> QuotedLines:
    try:
        data = _open(event, pointer, blobs)
    except EvidenceError as error:
        return QuotedLines(pointer=pointer, text="", line=0, lost=error.message)
    start, end = pointer.offset_bytes, pointer.offset_bytes + pointer.length_bytes
    if data is None or end > len(data):
        lost = f"expected {end} bytes of {pointer.stream}, found {0 if data is None else len(data)}"
        return QuotedLines(pointer=pointer, text="", line=0, lost=lost)
    text = data[start:end].decode("utf-8", "backslashreplace")
    return QuotedLines(pointer=pointer, text=text, line=data.count(b"\n", 0, start) + 1)


def _open(event: Event, pointer: StreamPointer, blobs: BlobStore) -> bytes | None:
    payload = event.payload
    if isinstance(payload, MonitorAlert):
        return None if payload.segment is None else payload.segment.body.load(blobs)
    if not isinstance(payload, AcceptanceExecution | BuildCheck | StaticCheck | PatchApplication):
        return None
    if pointer.stream not in _PRINTED:
        blob = next((log.blob for log in payload.logs if log.name == pointer.stream), None)
        return None if blob is None else blobs.read(blob)
    runners = (() if isinstance(payload, PatchApplication) else payload.runners) or (payload,)
    if pointer.runner > len(runners):
        return None
    kept = getattr(runners[pointer.runner - 1], pointer.stream).load(blobs)
    return bytes(kept.data)
