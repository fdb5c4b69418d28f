"""JUnit XML, as pytest, unittest-xml-reporting, jest-junit, googletest, CTest and Surefire write it.

The id is `classname::name`, or the name alone. Names of suites do not enter it, except for Node's runner,
whose classname says nothing. A case fails if it holds a failure, even if it was repeated until it passed
(Surefire's `flakyFailure`): how often a test may run is for the contract to say, not for the build.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import ParseError

from defusedxml.ElementTree import DefusedXMLParser

from repotrial.judging._results._model import (
    MAX_RESULTS,
    RESULTS_UNREADABLE,
    WORSE,
    TestOutcome,
    TestResult,
    build_result,
)

NODE_SUITE_SEPARATOR = " > "

_MAX_DEPTH = 200
_SUITES = frozenset({"testsuite", "testsuites"})
_MARKS: dict[str, TestOutcome] = {
    "failure": "fail",
    "rerunfailure": "fail",
    "flakyfailure": "fail",
    "error": "error",
    "rerunerror": "error",
    "flakyerror": "error",
    "skipped": "skip",
}
_FAILED_WORDS = frozenset({"fail", "failed", "failure", "error", "broken"})
_SKIPPED_WORDS = frozenset({"notrun", "skipped", "disabled", "suppressed", "pending", "todo", "ignored"})


def parse_junit(data: bytes, *, by_suite: bool = False) -> list[TestResult]:
    """The cases of a JUnit document; with `by_suite`, ids are the names of the suites and the case."""
    reader = _Reader(by_suite=by_suite)
    try:
        parser = DefusedXMLParser(target=reader, forbid_dtd=True)
        parser.feed(data)
        parser.close()
    except (ParseError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise RESULTS_UNREADABLE.error(f"expected well-formed XML, found: {error}") from error
    return reader.results


class _Open:
    """A case or suite whose end has not come."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.marks: list[TestOutcome] = []
        self.has_todo = False


class _Reader:
    """Takes the parser's events, so that no tree of a hostile document is ever built."""

    def __init__(self, *, by_suite: bool) -> None:
        self.results: list[TestResult] = []
        self._by_suite = by_suite
        self._path: list[str] = []
        self._suites: list[_Open] = []
        self._case: _Open | None = None
        self._has_failure = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2].lower()
        if not self._path and name not in _SUITES:
            raise RESULTS_UNREADABLE.error(f"expected <testsuites> or <testsuite>, found <{name[:40]}>")
        if len(self._path) >= _MAX_DEPTH:
            raise RESULTS_UNREADABLE.error(f"expected at most {_MAX_DEPTH} levels of elements, found more")
        parent = self._path[-1] if self._path else ""
        if name in _SUITES and (not parent or parent in _SUITES):
            self._suites.append(_Open(name, attributes))
        elif name == "testcase" and parent in _SUITES:
            self._case = _Open(name, attributes)
        elif name == "testcase" or name in _SUITES:
            # A case that hides where cases do not belong would be read by some tools and not by others.
            raise RESULTS_UNREADABLE.error(f"expected <{name}> inside a suite, found it in <{parent}>")
        elif name in _MARKS and (parent == "testcase" or parent in _SUITES):
            self._mark(name, attributes)
        self._path.append(name)

    def _mark(self, name: str, attributes: dict[str, str]) -> None:
        holder = self._case or self._suites[-1]
        outcome = _MARKS[name]
        if outcome == "skip" and holder is not self._case:
            return  # some tools count skips in an element of the suite
        holder.marks.append(outcome)
        holder.has_todo = holder.has_todo or attributes.get("type") == "todo"
        self._has_failure = self._has_failure or outcome != "skip"

    def data(self, _text: str) -> None:
        """Ignored; but the parser reports undefined entities only to targets that take text."""

    def end(self, _tag: str) -> None:
        name = self._path.pop()
        if name == "testcase" and self._case is not None:
            self._add(self._case)
            self._case = None
        elif name in _SUITES:
            self._end_suite(self._suites.pop())

    def close(self) -> None:
        """Part of the protocol of parser targets; all results are there already."""

    def _add(self, case: _Open) -> None:
        if len(self.results) >= MAX_RESULTS:
            raise RESULTS_UNREADABLE.error(f"expected at most {MAX_RESULTS} tests, found more")
        self.results.append(build_result(self._id(case), _judge(case, is_node=self._by_suite)))

    def _id(self, case: _Open) -> str:
        name = case.attributes.get("name", "")
        if not name:
            raise RESULTS_UNREADABLE.error("expected a name on every <testcase>, found none")
        if self._by_suite:
            suites = [suite.attributes.get("name", "") for suite in self._suites]
            return NODE_SUITE_SEPARATOR.join([*filter(None, suites), name])
        classname = case.attributes.get("classname", "")
        return f"{classname}::{name}" if classname else name

    def _end_suite(self, suite: _Open) -> None:
        if suite.marks:
            self.results.append(build_result(suite.attributes.get("name") or suite.tag, "error"))
        for word in ("failures", "errors"):
            count = suite.attributes.get(word, "0")
            if re.fullmatch(r"\s*0*[1-9][0-9]*\s*", count) and not self._has_failure:
                raise RESULTS_UNREADABLE.error(
                    f"expected the {count} {word} that a suite counts, found no case"
                )


def _judge(case: _Open, *, is_node: bool) -> TestOutcome:
    if is_node and case.has_todo:
        return "skip"
    if case.marks:
        return max(case.marks, key=WORSE.__getitem__)
    words = {case.attributes.get(key, "").lower() for key in ("status", "result")}
    if words & _FAILED_WORDS:
        return "fail"
    if words & _SKIPPED_WORDS:
        return "skip"
    return "pass"
