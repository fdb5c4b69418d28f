"""A contract's rules about programs hold for what ran: each broken in a real run, an honest one beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.trials import Court, open_court

FIX = "printf 'echo 42\\n' > answer.sh\n"
TOOLS = 'tools = { denied = ["sed"] }'
ALLOWED = 'tools = { allowed = ["sh", "printf", "cat"] }'
NO_RESOLUTION = 'dependencies = { rule = "free", max_resolutions = 0 }'
REGISTRIES = 'dependencies = { rule = "free", registries = ["packages.example"] }'
PIP = "python3 -m pip install --retries 0 {words} || true\n"


def _judge(
    court: Court, capsys: pytest.CaptureFixture[str], policy: str, script: str
) -> tuple[str, dict[str, Any]]:
    contract = court.write_contract(policy=policy)
    court.start(capsys, contract, "--agent", f"script:{court.write('agent.sh', script)}")
    (run,) = court.runs.glob("[!.]*")
    card = json.loads((run / "score.json").read_text())
    return card["status"].get("verdict", "invalid"), {each["rule"]: each for each in card["violations"]}


@pytest.mark.parametrize(
    ("policy", "script", "rule", "words"),
    [
        (TOOLS, "sed -i s/41/42/ answer.sh\n", "tools", "found sed"),
        (TOOLS, "printf 'all:\\n\\tsed -i s/41/42/ answer.sh\\n' | make -f -\n", "tools", "found sed"),
        (ALLOWED, FIX + "uname\n", "tools", "found uname"),
        (
            NO_RESOLUTION,
            FIX + PIP.format(words="left-pad"),
            "dependencies",
            "at most 0 dependency resolutions",
        ),
        (
            REGISTRIES,
            FIX + PIP.format(words="-i https://other.example/simple left-pad"),
            "dependencies",
            "found other.example",
        ),
    ],
    ids=[
        "denied-tool",
        "denied-tool-in-a-makefile",
        "tool-not-allowed",
        "resolution",
        "registry",
    ],
)
def test_a_program_that_the_policy_forbids_fails_the_contract(
    capsys: pytest.CaptureFixture[str], policy: str, script: str, rule: str, words: str
) -> None:
    if "make -f" in script and not Path("/usr/bin/make").exists():
        pytest.skip("this machine has no make")
    with open_court() as court:
        verdict, broken = _judge(court, capsys, policy, script)
        assert verdict == "failure"
        assert any(words in message for message in broken[rule]["messages"])
        assert broken[rule]["severity"] == "hard"
        assert broken[rule]["evidence"][0]["type"] == "program-start"


@pytest.mark.parametrize(
    ("policy", "script"),
    [
        (TOOLS, FIX),
        (ALLOWED, FIX),
        (NO_RESOLUTION, FIX + "python3 -m pip --version || true\n"),
        (REGISTRIES, FIX + PIP.format(words="-i https://packages.example/simple left-pad")),
    ],
    ids=["denied-tool", "tool-not-allowed", "resolution", "registry"],
)
def test_an_honest_run_under_the_same_rule_succeeds(
    capsys: pytest.CaptureFixture[str], policy: str, script: str
) -> None:
    with open_court() as court:
        verdict, broken = _judge(court, capsys, policy, script)
        assert (verdict, broken) == ("success", {})
