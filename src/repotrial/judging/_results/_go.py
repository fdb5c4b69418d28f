"""The event stream of `go test -json`: one JSON object on each line.

The id is `package::Test`, with Go's own `Test/subtest`. A package that fails without a failing test (it does
not build, it panics outside a test, it exits) is an error under the package's own name.
"""

from __future__ import annotations

import re

import msgspec

from repotrial.judging._results._model import (
    MAX_RESULTS,
    RESULTS_UNREADABLE,
    TestOutcome,
    TestResult,
    build_result,
)

_FINAL: dict[str, TestOutcome] = {"pass": "pass", "bench": "pass", "fail": "fail", "skip": "skip"}
# Older toolchains say this as plain text amid the events.
_BUILD_FAILED = re.compile(rb"FAIL\s+(\S+) \[(?:build|setup) failed\]")


class _Event(msgspec.Struct, rename="pascal"):
    action: str
    package: str = ""
    test: str = ""
    elapsed: float | None = None


class _Package:
    def __init__(self) -> None:
        self.running: set[str] = set()
        self.has_failure = False
        self.outcome: TestOutcome | None = None


def parse_go(data: bytes) -> list[TestResult]:
    """The tests of all packages; a package or test without an end makes the stream unreadable."""
    reader = _Reader()
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            reader.take(line.strip(), number)
    return reader.finish()


class _Reader:
    def __init__(self) -> None:
        self._packages: dict[str, _Package] = {}
        self._results: list[TestResult] = []
        self._decoder = msgspec.json.Decoder(_Event)

    def take(self, line: bytes, number: int) -> None:
        failed = _BUILD_FAILED.fullmatch(line)
        if failed:
            name = failed[1].decode(errors="surrogateescape")
            self._end_package(self._packages.setdefault(name, _Package()), name, "fail")
            return
        if line == b"FAIL":
            return  # the last word of a run with packages that did not build
        try:
            event = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RESULTS_UNREADABLE.error(
                f"expected a JSON event on line {number}, found: {error}"
            ) from error
        if not event.package:
            return  # output of the build
        package = self._packages.setdefault(event.package, _Package())
        if event.test:
            self._take_test(package, event)
        elif event.action in _FINAL and event.action != "bench":
            self._end_package(package, event.package, _FINAL[event.action])

    def _take_test(self, package: _Package, event: _Event) -> None:
        if event.action == "run":
            package.running.add(event.test)
        outcome = _FINAL.get(event.action)
        if outcome is None:
            return
        if len(self._results) >= MAX_RESULTS:
            raise RESULTS_UNREADABLE.error(f"expected at most {MAX_RESULTS} tests, found more")
        package.running.discard(event.test)
        package.has_failure = package.has_failure or outcome == "fail"
        self._results.append(build_result(f"{event.package}::{event.test}", outcome))

    def _end_package(self, package: _Package, name: str, outcome: TestOutcome) -> None:
        # Worst first: a second, friendlier end does not take the first back.
        if package.outcome != "fail":
            package.outcome = outcome
        if outcome == "fail":
            for test in sorted(package.running):
                self._results.append(build_result(f"{name}::{test}", "error"))
                package.has_failure = True
            package.running.clear()

    def finish(self) -> list[TestResult]:
        if not self._packages:
            raise RESULTS_UNREADABLE.error("expected events of at least one package, found none")
        for name, package in self._packages.items():
            if package.outcome is None:
                raise RESULTS_UNREADABLE.error(f"expected an end of package {name!r}, found none")
            if package.running:
                test = min(package.running)
                raise RESULTS_UNREADABLE.error(f"expected an end of test {test!r} of {name!r}, found none")
            if package.outcome == "fail" and not package.has_failure:
                self._results.append(build_result(name, "error"))
            elif package.outcome != "fail" and package.has_failure:
                raise RESULTS_UNREADABLE.error(f"expected {name!r} to fail with its tests, found a pass")
        return self._results
