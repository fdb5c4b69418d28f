"""Open files of a harness with many runs at a time."""

from __future__ import annotations

import resource
import subprocess
import sys

_PROGRAM = """
import resource, sys
from repotrial._core.errors import MachineError
from repotrial.fleet._pool import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
try:
    allow_open_files(int(sys.argv[3]))
except MachineError as error:
    print(error.message)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def _try(soft: int, hard: int, jobs: int) -> list[str]:
    # A process of its own: a hard limit cannot be raised again.
    words = [sys.executable, "-c", _PROGRAM, str(soft), str(hard), str(jobs)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


def test_a_low_ceiling_is_raised_as_far_as_the_runs_need() -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 4000
    assert _try(512, 4000, 50) == ["3456 4000"]
    assert _try(3600, 4000, 50) == ["3600 4000"]


def test_a_ceiling_that_cannot_be_raised_is_told_before_the_first_run() -> None:
    message = "expected 3456 open files to be allowed for 50 runs at a time, found 2000"
    assert _try(512, 2000, 50) == [message, "512 2000"]
