"""Whether checks passed, by exit status where there is one and by the runner's words where not."""

from __future__ import annotations

import pytest

from repotrial.policy._breaker_facts import ChecksOutcome, find_result
from repotrial.trace import Exited, ExitStatus, ExitUnknown, NotStarted, Signaled, TimedOut

_UNKNOWN = ExitUnknown(reason="the wire does not carry exit statuses")

PRINTED: list[tuple[ChecksOutcome, str]] = [
    ("passed", "===== 12 passed in 0.31s ====="),
    ("failed", "===== 1 failed, 11 passed in 0.31s ====="),
    ("failed", "ERROR: not found: tests/test_x.py\n\nno tests ran in 0.01s"),
    ("passed", "Ran 3 tests in 0.001s\n\nOK\n"),
    ("failed", "Ran 3 tests in 0.001s\n\nFAILED (failures=1)\n"),
    ("passed", "# tests 4\n# pass 4\n# fail 0\n"),
    ("failed", "# tests 4\n# pass 3\n# fail 1\n"),
    ("passed", "test result: ok. 5 passed; 0 failed; 0 ignored"),
    ("failed", "test result: FAILED. 4 passed; 1 failed"),
    ("passed", "ok  \texample.org/x\t0.01s"),
    ("failed", "--- FAIL: TestX (0.00s)\nFAIL\texample.org/x\t0.01s"),
    ("passed", "Tests:       5 passed, 5 total"),
    ("failed", "Tests:       1 failed, 4 passed, 5 total"),
    ("failed", "/usr/bin/python: No module named pytest"),
    ("failed", "Exit code 1\nsomething"),
    ("passed", '{"output": "done", "metadata": {"exit_code": 0}}'),
    ("failed", "<returncode>2</returncode>"),
    ("unknown", "collected nothing of note"),
    ("unknown", ""),
]


@pytest.mark.parametrize(("expected", "text"), PRINTED)
def test_words_of_a_runner_tell_where_no_exit_status_does(expected: ChecksOutcome, text: str) -> None:
    assert find_result(_UNKNOWN, text) == expected


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        ("passed", Exited(code=0)),
        ("failed", Exited(code=1)),
        ("failed", Signaled(signal=9)),
        ("failed", TimedOut(ceiling_us=1)),
        ("unknown", NotStarted(reason="no such program")),
        ("unknown", _UNKNOWN),
    ],
)
def test_an_exit_status_counts_more_than_words(expected: ChecksOutcome, status: ExitStatus) -> None:
    printed = None if status == _UNKNOWN else "12 passed, or 1 failed"
    assert find_result(status, printed) == expected
