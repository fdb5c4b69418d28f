"""The same attacks once more with a harness that is an ordinary user: one code path, two kinds of harness."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from support.accounts import ORDINARY_UID, build_ordinary_variables, require_ordinary_python
from support.bubblewrap import make_directory, require_bubblewrap

ROOT: Final = Path(__file__).resolve().parents[2]
SUITES: Final = (
    "tests/adversarial/test_sandbox_system_calls.py",
    "tests/adversarial/test_sandbox_stages.py",
    "tests/adversarial/test_witness_evasion.py",
    "tests/unit/isolation/test_freezer.py",
    "tests/unit/syscalls/test_supervisor.py",
    "tests/unit/isolation/test_listener.py",
)
LEAST: Final = 140
"""Attempts that these suites hold; fewer would mean that some went missing."""


def test_every_attack_is_refused_under_an_ordinary_user() -> None:
    require_bubblewrap()
    python = require_ordinary_python()
    with make_directory() as home:
        os.chown(home, ORDINARY_UID, ORDINARY_UID)
        done = subprocess.run(
            [
                *(*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"),
                *("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), f"--basetemp={home / 'temp'}"),
                *(str(ROOT / suite) for suite in SUITES),
            ],
            cwd=home,
            env=build_ordinary_variables(home),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None
    assert int(counted[1]) >= LEAST
