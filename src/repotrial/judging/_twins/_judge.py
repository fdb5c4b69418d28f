"""Which twins failed, as they must."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from repotrial.judging._results._summary import ResultsSummary
from repotrial.judging._twins._model import Twin, TwinVerdict

# `pkg.module.Class::test_name[parameters]`; parameters may hold anything.
_ID = re.compile(r"(?:(?P<place>.*?)::)?(?P<name>\w+)(?:[\[ (].*)?", re.DOTALL)


def judge_twins(summary: ResultsSummary, twins: Sequence[Twin]) -> TwinVerdict:
    """Hold the results of a run with twins against what twins must do.

    Args:
        summary: The run's JUnit results.
        twins: Of all files of the check.
    """
    by_name: dict[str, list[tuple[str, str]]] = {}
    for test in sorted(summary.ids):
        match = _ID.fullmatch(test)
        if match:
            by_name.setdefault(match["name"], []).append((match["place"] or "", test))
    verdict = _Verdict(summary)
    for twin in twins:
        verdict.add(twin, _find_ids(by_name, twin.name, twin), _find_ids(by_name, twin.true_name, twin))
    return verdict.build()


class PairedTest(NamedTuple):
    """One real test, as it goes by in a run with twins."""

    true_id: str
    """What reports the right expectation; it must pass."""
    wrong_name: str | None
    """What reports the wrong one, but for the parameters, which may be what was made wrong; it must fail.

    None where the test has no twin.
    """


def find_silent(summary: ResultsSummary, pairs: Iterable[PairedTest]) -> tuple[str, ...]:
    """Wrong expectations that neither failed nor passed: less than there are real tests.

    A table's wrong values go into the ids of its rows, so that rows are counted and not called by name.
    """
    wanted = Counter(pair.wrong_name for pair in pairs if pair.wrong_name is not None)
    heard = Counter(
        test[: match.end("name")]
        for test in summary.failed | summary.passed
        if (match := _ID.fullmatch(test)) is not None
    )
    return tuple(sorted(name for name, count in wanted.items() if heard[name] < count))


def pair_tests(tests: Iterable[str], twins: Sequence[Twin]) -> dict[str, PairedTest]:
    """Under which ids the tests of an inventory, with all their parameters, must speak beside their twins."""
    by_real_name: dict[str, list[Twin]] = {}
    for twin in twins:
        by_real_name.setdefault(twin.original.rpartition(".")[2], []).append(twin)
    return {test: _pair(test, by_real_name) for test in tests}


def _pair(test: str, by_real_name: dict[str, list[Twin]]) -> PairedTest:
    match = _ID.fullmatch(test)
    if match is None:
        return PairedTest(test, None)
    for twin in by_real_name.get(match["name"], ()):
        if _is_place_of(match["place"] or "", twin):
            before, after = test[: match.start("name")], test[match.end("name") :]
            return PairedTest(f"{before}{twin.true_name}{after}", f"{before}{twin.name}")
    return PairedTest(test, None)


class _Verdict:
    def __init__(self, summary: ResultsSummary) -> None:
        self._summary = summary
        self._failing: set[str] = set()
        self._survived: set[str] = set()
        self._missing: list[Twin] = []
        self._evaded: list[Twin] = []
        self._idle: list[Twin] = []

    def add(self, twin: Twin, ids: set[str], true_ids: set[str]) -> None:
        failing = ids & self._summary.failed
        self._failing |= failing
        self._survived |= ids & self._summary.passed
        # A forger may add a failure to a pass: reports that differ count as a pass that leaked.
        self._survived |= failing & self._summary.duplicates
        if not ids:
            (self._missing if true_ids else self._idle).append(twin)
        elif ids <= self._summary.skipped:
            (self._evaded if true_ids & self._summary.passed else self._idle).append(twin)

    def build(self) -> TwinVerdict:
        return TwinVerdict(
            expected_failing=tuple(sorted(self._failing)),
            survived=tuple(sorted(self._survived)),
            missing=tuple(self._missing),
            evaded=tuple(self._evaded),
            idle=tuple(self._idle),
            other_failing=tuple(sorted(self._summary.failed - self._failing)),
        )


def _find_ids(by_name: dict[str, list[tuple[str, str]]], name: str, twin: Twin) -> set[str]:
    real_name = twin.original.rpartition(".")[2]
    # A random name is the twin's wherever it is inherited; a real one may be used in several places.
    return {test for place, test in by_name.get(name, ()) if name != real_name or _is_place_of(place, twin)}


def _is_place_of(place: str, twin: Twin) -> bool:
    *classes, _ = twin.original.split(".")
    module = [*twin.path.removesuffix(".py").split("/"), *classes]
    return not place or any(_is_tail(parts, module) for parts in _read_place(place))


def _read_place(place: str) -> tuple[list[str], list[str]]:
    """Parts of the dotted name, with and without what a prefix may have put before it."""
    return place.split("."), re.split(r"[^\w.]", place)[-1].split(".")


def _is_tail(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether one ends in the other: runners start in different directories."""
    shorter, longer = sorted((list(first), list(second)), key=len)
    return longer[len(longer) - len(shorter) :] == shorter
