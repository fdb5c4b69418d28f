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
    TestOutcome,
    TestResult,
    build_microseconds,
    build_result,
)

NODE_SUITE_SEPARATOR = " > "

_MAX_DEPTH = 200
_MAX_TEXT = 4000
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
        self.marks: list[tuple[TestOutcome, str]] = []
        self.has_todo = False


class _Reader:
    """Takes the parser's events, so that no tree of a hostile document is ever built."""

    def __init__(self, *, by_suite: bool) -> None:
        self.results: list[TestResult] = []
        self._by_suite = by_suite
        self._path: list[str] = []
        self._suites: list[_Open] = []
        self._case: _Open | None = None
        self._text: list[str] | None = None
        self._text_left = 0
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
        holder.marks.append((outcome, attributes.get("message", "")))
        holder.has_todo = holder.has_todo or attributes.get("type") == "todo"
        self._has_failure = self._has_failure or outcome != "skip"
        self._text, self._text_left = [], _MAX_TEXT

    def data(self, text: str) -> None:
        if self._text is not None and self._text_left > 0:
            self._text.append(text[: self._text_left])
            self._text_left -= len(text)

    def end(self, _tag: str) -> None:
        name = self._path.pop()
        parent = self._path[-1] if self._path else ""
        if name in _MARKS and self._text is not None and (parent == "testcase" or parent in _SUITES):
            marks = (self._case or self._suites[-1]).marks
            outcome, message = marks[-1]
            marks[-1] = (outcome, f"{message}\n{''.join(self._text)}")
            self._text = None
        elif name == "testcase" and self._case is not None:
            self._add(self._case)
            self._case = None
        elif name in _SUITES:
            self._end_suite(self._suites.pop())

    def close(self) -> None:
        """Part of the protocol of parser targets; all results are there already."""

    def _add(self, case: _Open) -> None:
        if len(self.results) >= MAX_RESULTS:
            raise RESULTS_UNREADABLE.error(f"expected at most {MAX_RESULTS} tests, found more")
        outcome, message = _judge(case, is_node=self._by_suite)
        wall_us = build_microseconds(case.attributes.get("time"), unit_us=10**6)
        self.results.append(build_result(self._id(case), outcome, message=message, wall_us=wall_us))

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
        name = suite.attributes.get("name") or suite.tag
        self.results.extend(build_result(name, "error", message=message) for _, message in suite.marks[:1])
        for word in ("failures", "errors"):
            count = suite.attributes.get(word, "0")
            if re.fullmatch(r"\s*0*[1-9][0-9]*\s*", count) and not self._has_failure:
                raise RESULTS_UNREADABLE.error(
                    f"expected the {count} {word} that a suite counts, found no case"
                )


def _judge(case: _Open, *, is_node: bool) -> tuple[TestOutcome, str]:
    if is_node and case.has_todo:
        return "skip", case.marks[0][1]
    for outcome in ("error", "fail", "skip"):
        for found, message in case.marks:
            if found == outcome:
                return found, message
    words = {case.attributes.get(key, "").lower() for key in ("status", "result")}
    if words & _FAILED_WORDS:
        return "fail", ""
    if words & _SKIPPED_WORDS:
        return "skip", ""
    return "pass", ""
