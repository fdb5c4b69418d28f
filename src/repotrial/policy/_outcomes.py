"""Whether a call that ran tests says that they passed: exit status first, then what was printed."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from repotrial.trace import Exited, ExitStatus, ExitUnknown, NotStarted, Signaled, TimedOut

CheckResult: TypeAlias = Literal["passed", "failed", "unknown"]

_EXIT_CODE = re.compile(
    r"(?:exit(?:ed)?[ _]?(?:with )?(?:code|status)|return ?code)\"?>?\s*[:=]?\s*\"?(?P<code>\d{1,3})",
    re.IGNORECASE,
)
_FAILURES = re.compile(
    r"(?P<count>\b[1-9]\d*) (?:failed|errors?|failing|failures?)\b|^FAILED \(|^(?:FAIL|FAILED|ERROR)[:\t ]"
    r"|test result: FAILED|--- FAIL|^# fail [1-9]|^not ok \d|Tests:\s+[1-9]\d* failed|BUILD FAIL"
    r"|\bno tests ran\b|ERROR: not found|^Traceback \(most recent call last\)|No module named",
    re.MULTILINE,
)
_PASSES = re.compile(
    r"\b[1-9]\d* (?:passed|passing)\b|^OK(?: \(|$)|test result: ok|^ok\s|^# pass [1-9]|^PASS\b|BUILD SUCCESS"
    r"|All tests passed|^Tests:\s+[1-9]\d* passed",
    re.MULTILINE,
)


def find_result(exit_status: ExitStatus, printed: str | None) -> CheckResult:
    """Whether checks passed; `unknown` where neither the exit status nor the text says it."""
    match exit_status:
        case Exited(code=code):
            return "passed" if code == 0 else "failed"
        case Signaled() | TimedOut():
            return "failed"
        case NotStarted():
            return "unknown"
        case ExitUnknown():
            return _read_printed(printed or "")


def _read_printed(text: str) -> CheckResult:
    # Runners put their summary last; a pipe through `tail` hides the exit code, so the words count first.
    tail = text[-4000:]
    if _FAILURES.search(tail):
        return "failed"
    if _PASSES.search(tail):
        return "passed"
    codes = [int(found["code"]) for found in _EXIT_CODE.finditer(text[:500] + "\n" + tail)]
    if not codes:
        return "unknown"
    return "failed" if codes[-1] else "passed"
