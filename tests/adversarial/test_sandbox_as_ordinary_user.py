"""The same attacks once more with a harness that is an ordinary user: one code path, two kinds of harness."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.bubblewrap import make_directory, require_bubblewrap

ROOT: Final = Path(__file__).resolve().parents[2]
SUITES: Final = (
    "tests/adversarial/test_sandbox_system_calls.py",
    "tests/adversarial/test_sandbox_stages.py",
    "tests/unit/sandbox/test_freezer.py",
    "tests/unit/sandbox/test_supervisor.py",
    "tests/unit/sandbox/test_listener.py",
    "tests/unit/sandbox/test_restricted.py",
)
USER: Final = 65533
# By way of `env`: the first program still opens paths with the rights that it is about to lose.
AS_USER: Final = ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "env")
LEAST: Final = 150
"""Attempts that these suites hold; fewer would mean that some went missing."""


def test_every_attack_is_refused_under_an_ordinary_user() -> None:
    require_bubblewrap()
    if os.getuid() != 0:
        pytest.skip("this harness is an ordinary user already")
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv to become another user")
    python = find_python()
    with make_directory() as home:
        os.chown(home, USER, USER)
        done = subprocess.run(
            [
                *AS_USER,
                *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"),
                *("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), f"--basetemp={home / 'temp'}"),
                *(str(ROOT / suite) for suite in SUITES),
            ],
            cwd=home,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(home),
                "PYTHONPATH": ":".join([str(ROOT / "src"), *(p for p in sys.path if "site-packages" in p)]),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None
    assert int(counted[1]) >= LEAST


def find_python() -> str:
    """An interpreter of this version that somebody else can run too."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        probe = subprocess.run(
            [*AS_USER, candidate, "-c", ""],
            capture_output=True,
            check=False,
            cwd="/",
        )
        if probe.returncode == 0:
            return candidate
    pytest.skip(f"no {version} that another user could run")
