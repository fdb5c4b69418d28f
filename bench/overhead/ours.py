"""Our side: a contract with one check, an agent with one command, and the fleet of the command line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from bench.overhead.worker import Answer
from repotrial._core.words import Level
from repotrial.api import judge_run, load_contract, lock_contract
from repotrial.contract import LoadedContract
from repotrial.environment import InstallationSettings
from repotrial.fleet import FleetEvent, RunConditions, conduct_fleet, plan_runs
from repotrial.redaction import SecretRedactor
from repotrial.run import RunEnded, RunSettings, ScriptAgent
from repotrial.signing import SigningKey

_EARLY: Final = 50
_PAGE_KB: Final = os.sysconf("SC_PAGE_SIZE") // 1024
_SEED: Final = 20260307
_CONTRACT: Final = """\
schema = "repotrial/contract@1"
id = "trivial"
title = "Say it"
kind = "feature"

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"
tools = { bash = ">=4" }

[[checks]]
id = "said"
gate = "acceptance"
judge = "out-of-process"
baseline = "fail"
run = "test -f said.txt"
results = [{ format = "exit-code" }]
timeout_seconds = 60
"""


def main() -> int:
    place, jobs = Path(sys.argv[1]), int(sys.argv[2])
    place.mkdir(mode=0o755)
    loaded = _write_contract(place / "contract")
    installation = InstallationSettings(
        cache=place / "cache", home=place, variables={"PATH": os.environ.get("PATH", os.defpath)}
    )
    key = SigningKey.load(place / "key.pem")
    for number, line in enumerate(sys.stdin.buffer):
        settings = RunSettings(runs=place / f"runs-{number}", key=key, redactor=SecretRedactor({}))
        plan = plan_runs(
            [loaded],
            [(ScriptAgent(script=b"echo hi > said.txt\n"), None)],
            RunConditions(runs=settings.runs, level=Level.L3, root_seed=_SEED, repeats=int(line)),
        )
        answer = _conduct(conduct_fleet(plan, settings, installation=installation, jobs=jobs), int(line))
        print(msgspec.json.encode(answer).decode(), flush=True)
    return 0


def _write_contract(directory: Path) -> LoadedContract:
    (directory / "repo").mkdir(parents=True)
    (directory / "repo" / "a.txt").write_text("a\n", encoding="utf-8")
    (directory / "contract.toml").write_text(_CONTRACT, encoding="utf-8")
    (directory / "statement.md").write_text(
        "Create said.txt with any text, so that the file exists afterwards.\n", encoding="utf-8"
    )
    lock_contract(directory)
    return load_contract(directory)


def _conduct(events: Iterable[FleetEvent], runs: int) -> Answer:
    early = last = 0
    start = time.perf_counter()
    ended = []
    for event in events:
        if isinstance(event, RunEnded):
            ended.append(event)
            if len(ended) == _EARLY:
                early = _read_rss_kb()
    seconds = time.perf_counter() - start
    last = _read_rss_kb()
    assert len(ended) == runs
    assert all(event.fault is None for event in ended), ended
    assert {judge_run(Path(event.directory)).entry.status for event in ended[:3]} == {"success"}
    return Answer(seconds=seconds, early_rss_kb=early, last_rss_kb=last)


def _read_rss_kb() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * _PAGE_KB


if __name__ == "__main__":
    sys.exit(main())
