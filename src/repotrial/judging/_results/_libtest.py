"""The stable text of Rust's libtest, as `cargo test` prints it: one block for each test program.

    running 2 tests
    test parse::empty ... ok
    test src/lib.rs - add (line 5) ... FAILED
    …
    test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

Each block must announce as many tests as it reports, and its last line must count them alike: a line that
the code under test prints itself makes the block contradict itself.
"""

from __future__ import annotations

import re
from collections import Counter

from repotrial.judging._results._model import (
    MAX_RESULTS,
    RESULTS_UNREADABLE,
    TestOutcome,
    TestResult,
    build_result,
    iter_lines,
)

_RUNNING = re.compile(r"running (\d{1,9}) tests?")
_TEST = re.compile(r"test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored|bench:)(?:,? .*)?")
_SUMMARY = re.compile(
    r"test result: (ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored; (\d{1,9}) measured;.*"
)
_OUTCOMES: dict[str, TestOutcome] = {"ok": "pass", "FAILED": "fail", "ignored": "skip", "bench:": "pass"}
_DETAILS = frozenset({"failures:", "successes:"})


class _Block:
    def __init__(self, announced: int) -> None:
        self.announced = announced
        self.results: list[TestResult] = []
        self.words: Counter[str] = Counter()
        self.has_details = False


def parse_libtest(data: bytes) -> list[TestResult]:
    """The tests of all blocks."""
    results: list[TestResult] = []
    block: _Block | None = None
    blocks = 0
    for number, line in enumerate(iter_lines(data), start=1):
        if running := _RUNNING.fullmatch(line):
            if block is not None and not block.has_details:
                raise RESULTS_UNREADABLE.error(
                    f"expected the end of a block before line {number}, found another"
                )
            # Output of a failed test may look like a new block; it stays part of the details.
            block = block or _Block(int(running[1]))
        elif line.startswith("test result: "):
            results.extend(_end_block(block, line, number))
            block, blocks = None, blocks + 1
        elif block is not None:
            _take_line(block, line)
    if block is not None or blocks == 0:
        raise RESULTS_UNREADABLE.error("expected a last line `test result: …`, found none")
    return results


def _take_line(block: _Block, line: str) -> None:
    if line in _DETAILS:
        block.has_details = True
    test = None if block.has_details else _TEST.fullmatch(line)
    if test is None:
        return
    if len(block.results) >= MAX_RESULTS:
        raise RESULTS_UNREADABLE.error(f"expected at most {MAX_RESULTS} tests, found more")
    block.words[test[2]] += 1
    block.results.append(build_result(test[1], _OUTCOMES[test[2]]))


def _end_block(block: _Block | None, line: str, number: int) -> list[TestResult]:
    summary = _SUMMARY.fullmatch(line)
    if block is None or summary is None:
        raise RESULTS_UNREADABLE.error(
            f"expected the summary of a block on line {number}, found {line[:200]!r}"
        )
    counted = tuple(block.words[word] for word in ("ok", "FAILED", "ignored", "bench:"))
    stated = tuple(int(summary[group]) for group in (2, 3, 4, 5))
    if counted != stated or sum(counted) != block.announced:
        raise RESULTS_UNREADABLE.error(
            f"expected {block.announced} tests with the counts {stated} of line {number}, found {counted}"
        )
    if (summary[1] == "FAILED") != (stated[1] > 0):
        raise RESULTS_UNREADABLE.error(
            f"expected a verdict that fits {stated[1]} failures, found {summary[1]}"
        )
    return block.results
