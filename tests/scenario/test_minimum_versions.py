"""The oldest versions that `pyproject.toml` allows work, with the first and the last Python that it claims.

`REPOTRIAL_EXHAUSTIVE=1` tries every Python, and the tests of the pure rooms at these versions, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from repotrial import api
from support.accounts import public_directory
from support.exhaustive import IS_EXHAUSTIVE, sample
from support.interpreters import CLAIMED, ROOT, require_interpreter
from support.run_directories import build_sealed_run
from support.trials import open_court

LOCK = ROOT / "requirements/minimum.lock"
PURE = ("core", "contract", "cost", "policy", "report", "retrieval", "score", "stats", "trace")

_IMPORT_ALL = """\
import importlib, pkgutil, repotrial
for module in pkgutil.walk_packages(repotrial.__path__, "repotrial."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def _run(*argv: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def _open_venv(release: str, *locks: Path) -> Iterator[Path]:
    """An interpreter with what locks hold, later ones over earlier ones; skips where there is no index."""
    interpreter = require_interpreter(release)
    with public_directory() as root:
        subprocess.run([interpreter.path, "-m", "venv", root], check=True)
        for lock in locks:
            options = ("--quiet", "--no-deps", "--require-hashes", "--no-compile")
            done = _run(root / "bin/pip", "install", *options, "-r", lock)
            if re.search(r"Retrying \(|Could not connect|Temporary failure", done.stderr):
                pytest.skip("no package index can be reached")
            assert done.returncode == 0, done.stderr
        yield root / "bin/python"


@pytest.fixture(scope="module", params=sample(CLAIMED, 0))
def python(request: pytest.FixtureRequest) -> Iterator[Path]:
    with _open_venv(request.param, LOCK) as program:
        checked = _run(program, "-m", "pip", "check")
        assert checked.returncode == 0, checked.stdout
        yield program


def test_the_lock_has_the_stated_minimum_of_every_dependency() -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text(), flags=re.MULTILINE))
    for requirement in stated:
        name, least = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()  # type: ignore[union-attr]
        assert (locked[name] + ".0").startswith(f"{least}."), f"{name}: run `make lock`"


def test_everything_is_imported_and_commands_work(python: Path, tmp_path: Path) -> None:
    imported = _run(python, "-W", "error", "-c", _IMPORT_ALL)
    assert imported.returncode == 0, imported.stderr
    command = (python, "-m", "repotrial")
    checked = _run(*command, "contract", "check", ROOT / "examples/contracts/lapse-docs")
    assert checked.returncode == 0, checked.stderr
    paths, _ = build_sealed_run(tmp_path / "recorded")
    verified = _run(*command, "run", "verify", "--integrity-only", paths.root)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    paths.trace.write_bytes(paths.trace.read_bytes().replace(b"harness", b"hArness", 1))
    assert _run(*command, "run", "verify", "--integrity-only", paths.root).returncode == 1


def test_a_run_is_conducted_and_judged(python: Path) -> None:
    with open_court() as court:
        words = court.build_words(court.write_contract(), "--agent", "noop")
        done = _run(python, "-m", "repotrial", *words, XDG_CONFIG_HOME=str(court.place / "config"))
        assert done.returncode == 0, done.stderr
        assert "1 run: 1 failure" in done.stdout
        (run,) = court.runs.glob("[!.]*")
        assert api.verify_run(run, trusted_keys=None).holds


@pytest.mark.skipif(not IS_EXHAUSTIVE, reason="takes minutes: `make test-all` does it")
@pytest.mark.parametrize("release", CLAIMED)
def test_the_pure_rooms_hold_at_the_oldest_versions(release: str) -> None:
    with _open_venv(release, ROOT / "requirements/dev.lock", LOCK) as python:
        options = ("-q", "-n", "2", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT)
        rooms = [ROOT / "tests/unit" / room for room in PURE]
        done = _run(python, "-m", "pytest", *options, *rooms, REPOTRIAL_EXHAUSTIVE="0")
        assert done.returncode == 0, done.stdout[-4000:]
