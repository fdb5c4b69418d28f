"""The smallest contract that can be won and lost, and the command that puts agents on it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from repotrial import api
from repotrial._core.seed import ROOT_SEED
from repotrial._core.words import Level
from repotrial.authoring import lock_contract
from repotrial.policy import read_thresholds
from support.command_line import Ended, call, start, surroundings
from support.contracts import write_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

__all__ = ["HONEST", "REFERENCE", "WRONG", "Court", "open_court"]

_CONTRACT = """\
schema = "repotrial/contract@1"
id = "{id}"
title = "The answer is off by one"
kind = "bug-fix"
reference = "reference.patch"

[repository]
kind = "directory"
source = "repo"

[environment]
image = "host"
{environment}

[[checks]]
id = "value"
gate = "acceptance"
run = '{value}'
results = [{{ format = "exit-code" }}]
judge = "out-of-process"
baseline = "fail"
timeout_seconds = {seconds}

[[checks]]
id = "cases"
gate = "acceptance"
files = [{{ from = "checks", to = "acceptance" }}]
run = 'sh acceptance/judge.sh "$REPOTRIAL_RESULTS/junit.xml"'
results = [{{ format = "junit", path = "junit.xml" }}]
inventory = "inventory.json"
judge = "out-of-process"
baseline = "fail"
timeout_seconds = 60

[policy]
writable = ["answer.sh"]

[limits]
wall_seconds = 600
memory_mb = {{ request = 64, kill = 512 }}
"""

_JUDGE = """\
found=$(sh answer.sh)
first='' status=0
test "$found" = 42 || { first='<failure message="wrong"/>' status=1; }
cat > "$1" <<END
<testsuite name="cases" tests="2">
<testcase classname="cases" name="answer">$first</testcase>
<testcase classname="cases" name="runs"/>
</testsuite>
END
exit $status
"""

REFERENCE = """\
diff --git a/answer.sh b/answer.sh
--- a/answer.sh
+++ b/answer.sh
@@ -1 +1 @@
-echo 41
+echo 42
"""
WRONG = REFERENCE.replace("+echo 42", "+echo 43")
HONEST = "sed -i s/41/42/ answer.sh\n"


class Court:
    """Contracts, agents' files, a cache and runs, all below one directory that the sandbox can reach."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.runs = place / "runs"
        """Where run directories are made."""

    def write_contract(
        self,
        name: str = "answer",
        *,
        identifier: str | None = None,
        environment: str = "",
        value: str = 'test "$(sh answer.sh)" = 42',
        seconds: int = 60,
        limits: str = "",
        policy: str = "",
        first_check: str = "",
    ) -> Path:
        """A locked contract; `value` is its first check, which has so many seconds."""
        directory = self.place / name
        files = {
            "repo/answer.sh": "echo 41\n",
            "checks/judge.sh": _JUDGE,
            "inventory.json": json.dumps(
                {
                    "fail_to_pass": ["cases::answer"],
                    "pass_to_pass": ["cases::runs"],
                }
            ),
            "reference.patch": REFERENCE,
        }
        text = _CONTRACT.format(id=identifier or name, environment=environment, value=value, seconds=seconds)
        text = text.replace("[policy]\n", f"[policy]\n{policy}\n") + limits + "\n"
        text = text.replace('id = "value"\n', f'id = "value"\n{first_check}')
        write_contract(directory, text, files=files)
        lock_contract(directory)
        return directory

    def write(self, name: str, text: str) -> Path:
        path = self.place / name
        path.write_text(text, encoding="utf-8")
        return path

    def write_thresholds(self, old: str, new: str) -> Path:
        """The published thresholds with one value changed."""
        published = read_thresholds().decode()
        assert old in published
        return self.write("thresholds.toml", published.replace(old, new))

    def build_words(self, *words: str | Path) -> list[str]:
        """`run start` with this court's places."""
        places = ["--runs", self.runs, "--cache", self.place / "cache"]
        places += ["--key-file", self.place / "seal-key.pem"]
        return ["run", "start", *map(str, places), *map(str, words)]  # the last word of a kind counts

    def plan(self, contract: Path, *agents: str, upstream: str | None = None) -> api.TrialPlan:
        """What `run start` would conduct."""
        conditions = api.RunConditions(runs=self.runs, level=Level.L3, root_seed=ROOT_SEED)
        machine = api.MachineSettings(cache=self.place / "cache", home=self.place, variables={})
        models = api.ModelChoice(upstream=upstream)
        request = api.TrialRequest(contracts=(contract,), agents=agents, conditions=conditions, models=models)
        return api.plan_trials(request, machine)

    def conduct(
        self, contract: Path, *agents: str, stopper: api.Stopper, upstream: str | None = None
    ) -> Generator[api.TrialEvent, None, None]:
        """The events of the same, as a program has them."""
        plan = self.plan(contract, *agents, upstream=upstream)
        return api.conduct_trials(plan, key_file=self.place / "seal-key.pem", stopper=stopper)

    def start(self, capsys: pytest.CaptureFixture[str], *words: str | Path) -> Ended:
        """`run start` in this process."""
        with surroundings(XDG_CONFIG_HOME=str(self.place / "config")):
            return call(capsys, *self.build_words(*words))

    def execute(self, *words: str | Path) -> str:
        """`run start` as a process of its own, for as long as it takes; what it said."""
        with start(*self.build_words(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            said, _ = process.communicate()
        assert process.returncode == 0, said.decode()
        return said.decode()

    def start_json(
        self, capsys: pytest.CaptureFixture[str], *words: str | Path
    ) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code, and the events that it told."""
        ended = self.start(capsys, *words, "--json")
        return ended.status, [json.loads(line) for line in ended.out.splitlines()]

    def list_runs(self) -> list[str]:
        if not self.runs.exists():
            return []
        return sorted(path.name for path in self.runs.iterdir() if not path.name.startswith("."))

    def retry(self, capsys: pytest.CaptureFixture[str], cause: str) -> tuple[int, list[dict[str, Any]]]:
        """`run retry` in this process: its exit code, and the events that it told."""
        words = ("run", "retry", "--cause", cause, "--json", "--runs", self.runs)
        places = ("--cache", self.place / "cache", "--key-file", self.place / "seal-key.pem")
        with surroundings(XDG_CONFIG_HOME=str(self.place / "config")):
            ended = call(capsys, *words, *places)
        return ended.status, [json.loads(line) for line in ended.out.splitlines()]


@contextlib.contextmanager
def open_court() -> Iterator[Court]:
    """Skips where this machine has no sandboxes."""
    require_sandboxes()
    with scratch() as place:
        yield Court(place)
