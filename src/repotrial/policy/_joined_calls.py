"""Tool calls of the wire joined with the programs that carried them out (P14, P23).

The wire shows what a tool was told and when it had answered; the witness shows which programs ran. A program
belongs to a call whose text is among its words; else to the only call during which it started. What could
belong to several calls is said to be ambiguous, and no exit status is taken from it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial.policy._breaker_facts import CallFacts, ChecksOutcome
from repotrial.policy._program_tree import Program, ProgramTree
from repotrial.shell import parse_shell
from repotrial.trace import ExitStatus, ExitUnknown

JoinBasis: TypeAlias = Literal["words", "time", "ambiguous", "none"]
"""`words`: the programs have the call's own words; `time`: only this call was under way when they started."""

_RUNNING: Final = frozenset({"shell", "code", "test", "search", "unknown"})
"""Families of tools that start programs."""
_QUOTING = re.compile(r"[\s'\"\\]+")
_LONG_ENOUGH: Final = 6


class JoinedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call, and what ran for it."""

    call: CallFacts
    programs: tuple[Program, ...] = ()
    """The first programs that ran for it; others are below them."""
    basis: JoinBasis = "none"
    """Why they are taken for its own."""
    exit: ExitStatus
    """How it ended: as the wire says, else as its program did."""
    started_at_us: int
    wall_us: int
    """How long it took: its programs where they are known, else until its result came."""

    @property
    def checks(self) -> ChecksOutcome | None:
        """Whether its checks passed: as the last test program ended, else as the words say; None for none."""
        tests = [found for first in self.programs for found in first.walk() if found.purpose == "test"]
        ended = [found for found in tests if found.is_key] if self.basis in {"words", "time"} else []
        if ended and ended[-1].has_failed is not None:
            return "failed" if ended[-1].has_failed else "passed"
        return self.call.result


def join_calls(calls: Sequence[CallFacts], tree: ProgramTree) -> tuple[JoinedCall, ...]:
    """Every call with its programs, in the same order; a program goes to one call at most."""
    near = _find_near(calls, tree)
    by_words = [_find_by_words(call, found) for call, found in zip(calls, near, strict=True)]
    taken = {below.seq for found in by_words for first in found for below in first.walk()}
    others: list[list[Program]] = []
    for call, candidates, found in zip(calls, near, by_words, strict=True):
        # A call without a result may have ended at any time.
        is_open = not found and call.has_result
        free = [each for each in candidates if each.seq not in taken]
        others.append(_list_topmost(free) if is_open else [])
    claims = Counter(program.seq for found in (*by_words, *others) for program in found)
    return tuple(
        _conclude(call, words, rest, claims)
        for call, words, rest in zip(calls, by_words, others, strict=True)
    )


def _find_near(calls: Sequence[CallFacts], tree: ProgramTree) -> list[list[Program]]:
    """For each call, the programs that started while it was under way."""
    programs = sorted(
        (each for each in tree.programs if each.start.phase == "act" and each.start.command is not None),
        key=lambda each: (each.start.started_at_us, each.seq),
    )
    starts = [each.start.started_at_us for each in programs]
    found = []
    for call in calls:
        first_us, last_us = call.started_at_us, call.started_at_us + call.wall_us
        is_runner = call.family in _RUNNING
        found.append(
            programs[bisect_left(starts, first_us) : bisect_right(starts, last_us)] if is_runner else []
        )
    return found


def _find_by_words(call: CallFacts, candidates: Sequence[Program]) -> list[Program]:
    whole = [each for each in candidates if any(_holds(each.start.argv, text) for text in call.texts)]
    if whole:
        return _list_topmost(whole)
    words = [command.argv for text in call.texts for command in parse_shell(text).commands]
    return _list_topmost(
        [each for each in candidates if any(_is_same(each.start.argv, argv) for argv in words)]
    )


def _list_topmost(programs: Sequence[Program]) -> list[Program]:
    """Those that are below no other of them."""
    chosen = {program.seq for program in programs}
    found = []
    for program in programs:
        above = program.above
        while above is not None and above.seq not in chosen:
            above = above.above
        if above is None:
            found.append(program)
    return found


def _conclude(
    call: CallFacts, words: Sequence[Program], others: Sequence[Program], claims: Counter[int]
) -> JoinedCall:
    programs = tuple(words or others)
    joined = JoinedCall(
        call=call,
        programs=programs,
        exit=call.exit,
        started_at_us=call.started_at_us,
        wall_us=call.wall_us,
    )
    if not programs:
        return joined
    if any(claims[program.seq] > 1 for program in programs):
        return msgspec.structs.replace(joined, basis="ambiguous")
    ends = [program.ended_at_us for program in programs]
    known = [end for end in ends if end is not None]
    if len(known) == len(ends):
        first_us = programs[0].start.started_at_us
        joined = msgspec.structs.replace(
            joined, started_at_us=first_us, wall_us=max(0, max(known) - first_us)
        )
    status = _find_exit(call, programs) if isinstance(call.exit, ExitUnknown) else None
    basis: JoinBasis = "words" if words else "time"
    return msgspec.structs.replace(joined, basis=basis, exit=status or call.exit)


def _find_exit(call: CallFacts, programs: Sequence[Program]) -> ExitStatus | None:
    """The status of the one program that ran all of it; None where there is none."""
    whole = [each for each in programs if any(_holds(each.start.argv, text) for text in call.texts)]
    if whole:
        return whole[-1].exit
    commands = [command for text in call.texts for command in parse_shell(text).commands]
    return programs[0].exit if len(programs) == 1 and len(commands) <= 1 else None


def _holds(argv: Sequence[str], text: str) -> bool:
    """Whether one of a program's words is the call's text, perhaps quoted again and with more around it."""
    wanted = _QUOTING.sub("", text)
    if not wanted:
        return False
    if len(wanted) >= _LONG_ENOUGH:
        return any(len(word) >= len(wanted) and wanted in _QUOTING.sub("", word) for word in argv[1:])
    pattern = re.compile(rf"(?<![\w./-]){re.escape(text.strip())}(?![\w./-])")
    return len(argv) > 2 and any(pattern.search(word) for word in argv[1:])  # noqa: PLR2004 -- `sh -c text`


def _is_same(argv: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a program is a command of the text, or the interpreter of its script."""
    if not argv or not words or len(argv) < len(words):
        return False
    tail = argv[-len(words) :]
    return tail[0].rpartition("/")[2] == words[0].rpartition("/")[2] and tuple(tail[1:]) == tuple(words[1:])
