"""What ran, for people: every call with its programs below it, long lists folded (P14, P23)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.policy import CallFacts, JoinedCall, Program, ProgramTree, join_calls, read_call
from repotrial.trace import (
    BlobStore,
    Body,
    Event,
    Exited,
    ExitStatus,
    ExitUnknown,
    FoldedPrograms,
    RunPaths,
    ToolInvocation,
    describe_exit,
    iter_events,
)

_MOST_ALIKE: Final = 4
"""Programs of one name side by side; more are folded into one line."""
_MOST_LINES: Final = 60
"""Programs below one call."""
_MOST_CHARACTERS: Final = 500
_SPACES = re.compile(r"\s+")


class ProgramLine(msgspec.Struct, frozen=True, kw_only=True):
    """One program, or several of one name."""

    depth: int
    seq: int
    """The event of its start, or of the first one's."""
    count: int = 1
    """How many it stands for."""
    failed: int = 0
    """How many of them ended otherwise than with 0."""
    words: str
    """Program and arguments; of several, the name."""
    ended: str
    """How it ended."""
    wall_us: int | None
    """How long it lasted, together; None where an end was not seen."""
    cpu_us: int | None
    """Processor time, as far as it was read."""


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool, and what ran for it."""

    seq: int
    tool: str
    text: str
    """What the tool was told to run, or the files that it names."""
    ended: str
    """How it ended; empty for a tool that runs no program."""
    has_failed: bool
    wall_us: int
    basis: str
    """Why the programs are taken for its own: `words`, `time`, `ambiguous` or `none`."""
    lines: tuple[ProgramLine, ...]
    left_out: int
    """So many more lines are not here."""


class ProgramsView(msgspec.Struct, frozen=True, kw_only=True):
    """All of a run's programs while its agent acted."""

    calls: tuple[CallView, ...]
    own: tuple[ProgramLine, ...]
    """The agent's own program, and what belongs to no call."""
    left_out: int
    """So many more lines are not there."""
    folded: tuple[FoldedPrograms, ...]
    """Programs that the record itself only counts."""
    total: int
    """Programs on record, one by one."""
    is_witnessed: bool
    """Whether the run has a report of what its witness sees."""
    blind: tuple[tuple[str, str], ...]
    """What the witness could not see: name and reason."""


def read_programs(paths: RunPaths, *, events: int | None = None) -> ProgramsView:
    """Walk the first events of a trace, all if no number is given.

    Raises:
        EvidenceError: the trace cannot be read.
    """
    reader = _Reader(paths)
    for event in islice(iter_events(paths.trace, allow_torn_tail=True), events):
        reader.take(event)
    return reader.build()


class _Reader:
    def __init__(self, paths: RunPaths) -> None:
        self._blobs = BlobStore(paths.blobs)
        self._tree = ProgramTree()
        self._calls: list[CallFacts] = []

    def take(self, event: Event) -> None:
        self._tree.take(event)
        if isinstance(event.payload, ToolInvocation) and event.payload.source == "gateway":
            self._calls.append(read_call(event.payload, seq=event.seq, at_us=event.t, read=self._read))

    def _read(self, body: Body) -> str | None:
        try:
            return body.load(self._blobs).decode("utf-8", "replace")
        except EvidenceError:
            return None

    def build(self) -> ProgramsView:
        tree = self._tree
        joined = join_calls(self._calls, tree)
        taken = {first.seq for call in joined for first in call.programs}
        roots = [each for each in tree.list_roots() if each.start.phase == "act"]
        lines = list(_iter_lines(roots, without=taken))
        reports = [report for report in tree.reports if report.phase == "act"]
        return ProgramsView(
            calls=tuple(_build_call(call) for call in joined),
            own=tuple(lines[:_MOST_LINES]),
            left_out=max(0, len(lines) - _MOST_LINES),
            folded=tuple(tree.folded),
            total=sum(1 for each in tree.programs if each.start.phase == "act"),
            is_witnessed=bool(reports),
            blind=tuple(dict.fromkeys((spot.name, spot.reason) for each in reports for spot in each.blind)),
        )


def _build_call(call: JoinedCall) -> CallView:
    lines = list(_iter_lines(call.programs))
    runs_nothing = not call.call.texts and not call.programs and isinstance(call.exit, ExitUnknown)
    return CallView(
        seq=call.call.seq,
        tool=call.call.tool,
        text=_shorten(" ; ".join(call.call.texts) or ", ".join(call.call.paths)),
        ended="" if runs_nothing else describe_exit(call.exit),
        has_failed=_has_failed(call.exit),
        wall_us=call.wall_us,
        basis=call.basis,
        lines=tuple(lines[:_MOST_LINES]),
        left_out=max(0, len(lines) - _MOST_LINES),
    )


def _iter_lines(
    programs: Iterable[Program], *, depth: int = 0, without: frozenset[int] | set[int] = frozenset()
) -> Iterator[ProgramLine]:
    """Programs and those below them, without some; many of one name in a row are one line."""
    shown = [each for each in programs if each.seq not in without]
    for _, group in groupby(shown, key=_name):
        alike = list(group)
        if len(alike) > _MOST_ALIKE:
            yield _build_folded(alike, depth)
            continue
        for program in alike:
            yield _build_line(program, depth)
            yield from _iter_lines(program.below, depth=depth + 1, without=without)


def _name(program: Program) -> str:
    argv = program.start.argv
    return (argv[0] if argv else program.start.path).rpartition("/")[2]


def _build_line(program: Program, depth: int) -> ProgramLine:
    ended = program.ended_at_us
    cpu_us = None if program.end is None else program.end.cpu_us
    return ProgramLine(
        depth=depth,
        seq=program.seq,
        failed=int(_has_failed(program.exit)),
        words=_shorten(shlex.join(program.start.argv) or program.start.path),
        ended=describe_exit(program.exit),
        wall_us=None if ended is None else max(0, ended - program.start.started_at_us),
        cpu_us=cpu_us,
    )


def _build_folded(programs: Sequence[Program], depth: int) -> ProgramLine:
    everything = [each for program in programs for each in program.walk()]
    failed = sum(_has_failed(program.exit) for program in programs)
    ends = [program.ended_at_us for program in programs]
    known = [end for end in ends if end is not None]
    first_us = min(program.start.started_at_us for program in programs)
    read = [each.end.cpu_us for each in everything if each.end is not None and each.end.cpu_us is not None]
    below = len(everything) - len(programs)
    return ProgramLine(
        depth=depth,
        seq=programs[0].seq,
        count=len(programs),
        failed=failed,
        words=f"{_name(programs[0])} x {len(programs)}" + (f", {below} below them" if below else ""),
        ended=f"{failed} failed" if failed else "all exit 0" if len(known) == len(ends) else "exit unknown",
        wall_us=max(0, max(known) - first_us) if len(known) == len(ends) else None,
        cpu_us=sum(read) if read else None,
    )


def _has_failed(status: ExitStatus) -> bool:
    return not isinstance(status, ExitUnknown) and not (isinstance(status, Exited) and status.code == 0)


def _shorten(text: str) -> str:
    return _SPACES.sub(" ", text).strip()[:_MOST_CHARACTERS]
