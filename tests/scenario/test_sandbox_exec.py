"""The suites of the examples, unchanged, where the contracts say that they run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.caches import find_shared_cache
from support.workspaces import scratch

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "contracts"


def _repotrial(*words: str, cache: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    options = [] if cache is None else ["--cache", str(cache)]
    split = words.index("--") if "--" in words else len(words)
    command = [sys.executable, "-m", "repotrial", *words[:split], *options, *words[split:]]
    return subprocess.run(command, capture_output=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def cache() -> Path:
    report = json.loads(_repotrial("doctor", "--json").stdout)
    if report["best"] != "L3":
        reasons = [level["reason"] for level in report["levels"] if level["level"] == "L3"]
        pytest.skip(f"this machine does not reach L3: {reasons}")
    return find_shared_cache()


@pytest.mark.parametrize(
    ("contract", "command", "proof"),
    [
        ("reclog-recovery", "make -s all && bash tests/basic.sh ./reclog", b"\nok 13 "),
        ("querycache-stale", "node --test", b"# pass 22"),
        ("textkit-wide-chars", "python -m pytest -q tests", b"42 passed"),
    ],
)
def test_a_suite_runs_unchanged(cache: Path, contract: str, command: str, proof: bytes) -> None:
    done = _repotrial("sandbox", "exec", str(EXAMPLES / contract), "--", "bash", "-c", command, cache=cache)
    if b"error[package-index-unreachable]" in done.stderr:
        pytest.skip("no package index can be reached to build the pinned environment once")
    assert done.returncode == 0, done.stderr
    assert proof in done.stdout


def test_nothing_of_the_outside_shows_and_nothing_stays(cache: Path) -> None:
    contract = str(EXAMPLES / "reclog-recovery")
    look = "git rev-list --all --count; id -u; ls -d /home /root; env | cut -d= -f1 | sort; touch left-behind"
    first = _repotrial("sandbox", "exec", contract, "--", "bash", "-c", look, cache=cache)
    again = _repotrial("sandbox", "exec", contract, "--", "ls", cache=cache)
    assert first.stdout.split()[:2] == [b"1", b"1000"]
    declared = {b"HOME", b"LANG", b"LC_ALL", b"PATH", b"PYTHONHASHSEED", b"TZ"}
    assert set(first.stdout.split()[2:]) == declared | {b"PWD", b"SHLVL", b"_"}
    assert first.stderr.count(b"No such file") == 2
    assert b"left-behind" not in again.stdout
    assert not (EXAMPLES / "reclog-recovery" / "repo" / "left-behind").exists()


def test_the_exit_code_is_the_commands_own(cache: Path) -> None:
    done = _repotrial(
        "sandbox", "exec", str(EXAMPLES / "reclog-recovery"), "--", "bash", "-c", "exit 37", cache=cache
    )
    assert done.returncode == 37


@pytest.mark.usefixtures("cache")
def test_a_cache_is_listed_and_pruned() -> None:
    with scratch() as own:
        _repotrial("sandbox", "exec", str(EXAMPLES / "reclog-recovery"), "--", "true", cache=own)
        listed = json.loads(_repotrial("cache", "list", "--json", cache=own).stdout)
        assert listed
        removed = json.loads(_repotrial("cache", "prune", "--json", cache=own).stdout)
        assert len(removed) == len(listed)
        assert json.loads(_repotrial("cache", "list", "--json", cache=own).stdout) == []


def test_a_secret_that_nobody_gave_is_named_before_anything_runs(tmp_path: Path) -> None:
    fixture = ROOT / "tests" / "data" / "contracts" / "django-booking-overlap"
    done = _repotrial("sandbox", "exec", str(fixture), "--", "true", cache=tmp_path)
    assert done.returncode == 2
    assert b"error[secret-missing]" in done.stderr
    assert b"ROOMLY_SIGNING_KEY" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_program_that_is_not_there_is_named_as_a_shell_would(cache: Path) -> None:
    ended = _repotrial(
        "sandbox", "exec", str(EXAMPLES / "reclog-recovery"), "--", "no-such-program", cache=cache
    )
    assert ended.returncode == 127
    assert b"not started: no-such-program" in ended.stderr
