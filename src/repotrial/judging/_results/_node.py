"""Results of Node's own test runner.

Of its reporters, `tap` and `junit` are made for programs and are told apart here by their first character;
`spec` and `dot` are made for eyes and refused. An id is the path of names: `suite > test`. TAP also reports
the suites themselves, JUnit only the tests in them.
"""

from __future__ import annotations

from repotrial.judging._results._junit import parse_junit
from repotrial.judging._results._model import TestResult
from repotrial.judging._results._tap import parse_tap


def parse_node(data: bytes) -> list[TestResult]:
    """The tests of a run of `node --test`, with the reporter `tap` or `junit`."""
    if data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        return parse_junit(data, by_suite=True)
    return parse_tap(data, has_escapes=True)
