"""`.trs` files of automake's test drivers: one file for each test program, which the file's stem names."""

from __future__ import annotations

import re

from repotrial.judging._results._model import (
    RESULTS_UNREADABLE,
    TestOutcome,
    TestResult,
    build_result,
    iter_lines,
)

_FIELD = re.compile(r":([a-z-]+):\s*(.*)")
_OUTCOMES: dict[str, TestOutcome] = {
    "PASS": "pass",
    "XFAIL": "skip",
    "FAIL": "fail",
    "XPASS": "fail",
    "SKIP": "skip",
    "ERROR": "error",
}


def parse_automake(data: bytes, *, name: str) -> list[TestResult]:
    """One result named `name`, or several named `name::…` where the program reports tests of its own."""
    if not name:
        raise RESULTS_UNREADABLE.error("expected the name of the test, which the file does not tell")
    found: list[tuple[TestOutcome, str]] = []
    overall: TestOutcome | None = None
    for line in iter_lines(data):
        field = _FIELD.fullmatch(line.strip())
        if field is None:
            continue
        if field[1] == "test-result":
            found.append(_read_outcome(field[2]))
        elif field[1] == "global-test-result":
            overall, _ = _read_outcome(field[2])
    if overall is None or not found:
        raise RESULTS_UNREADABLE.error("expected `:test-result:` and `:global-test-result:`, found not both")
    results = [
        build_result(_build_id(name, detail, index, len(found)), outcome)
        for index, (outcome, detail) in enumerate(found, start=1)
    ]
    if overall in {"fail", "error"} and all(result.outcome in {"pass", "skip"} for result in results):
        results.append(build_result(name, overall))
    return results


def _read_outcome(text: str) -> tuple[TestOutcome, str]:
    word, _, detail = text.partition(" ")
    outcome = _OUTCOMES.get(word)
    if outcome is None:
        raise RESULTS_UNREADABLE.error(f"expected one of {', '.join(_OUTCOMES)}, found {word[:40]!r}")
    return outcome, detail.strip()


def _build_id(name: str, detail: str, index: int, count: int) -> str:
    if detail:
        return f"{name}::{detail}"
    return name if count == 1 else f"{name}::{index}"
