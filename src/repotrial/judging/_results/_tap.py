r"""TAP 13 and 14, with subtests (indented by four spaces, followed by the point that names them).

The id is the description, the number where there is none, and `parent > child` in a subtest. TAP 14 and
Node's runner escape `#` and `\` in descriptions; version 13 knows no escapes, so there the text stays as
written. A to-do test is a skip whether it passes or not. Lines that are not TAP are ignored, as the format
demands: the plan of each level, which must be there, is what catches a line too many or too few.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from repotrial._core.errors import EvidenceError
from repotrial.judging._results._model import (
    MAX_RESULTS,
    RESULTS_UNREADABLE,
    TestOutcome,
    TestResult,
    build_result,
    iter_lines,
)

_INDENT = 4
_YAML_INDENT = 2
_MAX_DEPTH = 50
_SEPARATOR = " > "

_POINT = re.compile(
    r"(?P<not>not )?ok(?:\s+(?P<number>\d{1,9}))?(?:\s+(?:-(?:\s+|$))?(?P<text>.*))?", re.DOTALL
)
_PLAN = re.compile(r"1\.\.(\d{1,9})(?:\s*#.*)?\s*")
_DIRECTIVE = re.compile(
    r"(?:^|(?<=\s))#\s*(?P<word>skip|todo)(?:\S*)(?:\s+(?P<reason>.*))?$", re.IGNORECASE | re.DOTALL
)
_VERSION = re.compile(r"TAP version (\d{1,9})\s*")


@dataclass
class _Point:
    """A test point; its path grows as the subtests around it end."""

    path: list[str]
    outcome: TestOutcome


@dataclass
class _Level:
    """One document: the whole stream, or a subtest."""

    numbers: set[int] = field(default_factory=set)
    points: list[_Point] = field(default_factory=list)
    pending: list[_Point] = field(default_factory=list)
    """Points of a subtest that has ended, before the point that names it."""
    plan: int | None = None
    is_plan_last: bool = False


def parse_tap(data: bytes, *, has_escapes: bool = False) -> list[TestResult]:
    """The points of a complete TAP stream, subtests before the point that stands for them."""
    reader = _Reader(has_escapes=has_escapes)
    for number, line in enumerate(iter_lines(data.removeprefix(b"\xef\xbb\xbf")), start=1):
        try:
            reader.take(line)
        except EvidenceError as error:
            raise RESULTS_UNREADABLE.error(f"line {number}: {error.message}") from error
    return [build_result(_SEPARATOR.join(reversed(point.path)), point.outcome) for point in reader.finish()]


class _Reader:
    def __init__(self, *, has_escapes: bool) -> None:
        self._has_escapes = has_escapes
        self._levels = [_Level()]
        self._count = 0
        self._yaml_end: str | None = None
        self._last: int | None = None
        """Depth of the point on the line before: only after a point may a YAML block begin."""

    def take(self, line: str) -> None:
        if self._yaml_end is not None:
            if line.rstrip() == self._yaml_end:
                self._yaml_end = None
            return
        text = line.lstrip(" ")
        depth, rest = divmod(len(line) - len(text), _INDENT)
        before, self._last = self._last, None
        if before is not None and text == "---" and (depth, rest) == (before, _YAML_INDENT):
            self._yaml_end = " " * (len(line) - len(text)) + "..."
        elif rest == 0:
            self._take_tap(text, depth)

    def _take_tap(self, text: str, depth: int) -> None:
        if text.startswith("Bail out!"):
            raise RESULTS_UNREADABLE.error(f"expected a complete run, found {text[:200]!r}")
        if version := _VERSION.fullmatch(text):
            self._take_version(int(version[1]))
        elif plan := _PLAN.fullmatch(text):
            self._take_plan(self._level(depth), int(plan[1]))
        elif point := _POINT.fullmatch(text):
            self._take_point(self._level(depth), depth, point)

    def _take_version(self, version: int) -> None:
        if version not in {12, 13, 14}:
            raise RESULTS_UNREADABLE.error(f"expected TAP version 13 or 14, found {version}")
        self._has_escapes = self._has_escapes or version == 14  # noqa: PLR2004 - the version's own number

    def _take_plan(self, level: _Level, count: int) -> None:
        if level.plan is not None:
            raise RESULTS_UNREADABLE.error("expected one plan, found a second")
        level.plan, level.is_plan_last = count, bool(level.points)

    def _take_point(self, level: _Level, depth: int, match: re.Match[str]) -> None:
        self._count += 1
        if self._count > MAX_RESULTS:
            raise RESULTS_UNREADABLE.error(f"expected at most {MAX_RESULTS} tests, found more")
        if level.is_plan_last:
            raise RESULTS_UNREADABLE.error("expected nothing after the plan, found a test point")
        number = int(match["number"]) if match["number"] else len(level.numbers) + 1
        if number in level.numbers:
            raise RESULTS_UNREADABLE.error(f"expected each number once, found {number} again")
        level.numbers.add(number)
        point = self._build_point(match, number)
        for child in level.pending:
            child.path.append(point.path[0])
        level.points += [*level.pending, point]
        level.pending = []
        self._last = depth

    def _build_point(self, match: re.Match[str], number: int) -> _Point:
        text, is_ok = match["text"] or "", match["not"] is None
        directive = _DIRECTIVE.search(text)
        word = directive["word"].lower() if directive else ""
        description = (text[: directive.start()] if directive else text).strip()
        if self._has_escapes:
            description = re.sub(r"\\([\\#])", r"\1", description)
        outcome: TestOutcome = "pass" if is_ok else "fail"
        if word == "todo" or (word == "skip" and is_ok):
            outcome = "skip"
        return _Point(path=[description or str(number)], outcome=outcome)

    def _level(self, depth: int) -> _Level:
        """The level of this depth, with all deeper ones ended."""
        if depth > _MAX_DEPTH:
            raise RESULTS_UNREADABLE.error(f"expected at most {_MAX_DEPTH} levels of subtests, found more")
        while len(self._levels) > depth + 1:
            ended = self._levels.pop()
            self._levels[-1].pending += _end_level(ended)
        while len(self._levels) <= depth:
            self._levels.append(_Level())
        return self._levels[depth]

    def finish(self) -> list[_Point]:
        if self._yaml_end is not None:
            raise RESULTS_UNREADABLE.error("expected the end of a YAML block, found the end of the stream")
        return _end_level(self._level(0))


def _end_level(level: _Level) -> list[_Point]:
    if level.plan is None:
        raise RESULTS_UNREADABLE.error(f"expected a plan for {len(level.numbers)} test points, found none")
    if level.numbers != set(range(1, level.plan + 1)) if level.plan <= MAX_RESULTS else True:
        raise RESULTS_UNREADABLE.error(
            f"expected the test points 1 to {level.plan} of the plan, found {len(level.numbers)} points"
        )
    if level.pending:
        raise RESULTS_UNREADABLE.error("expected a test point that names the subtest before it, found none")
    return level.points
