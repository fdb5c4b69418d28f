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
    court: Court,
    capsys: pytest.CaptureFixture[str],
    policy: str,
    script: str,
    *,
    environment: str = "",
    setup: str = "",
) -> tuple[str, dict[str, Any]]:
    contract = court.write_contract(policy=policy, environment=environment, limits=setup)
    court.start(capsys, contract, "--agent", f"script:{court.write('agent.sh', script)}")
    (run,) = court.runs.glob("[!.]*")
    card = json.loads((run / "score.json").read_text())
    return card["status"].get("verdict", "invalid"), {each["rule"]: each for each in card["violations"]}


@pytest.mark.parametrize(
    ("policy", "script", "rule", "words"),
    [
        (TOOLS, "sed -i s/41/42/ answer.sh\n", "tools", "found sed"),
        (TOOLS, "printf 'all:\\n\\tsed -i s/41/42/ answer.sh\\n' | make -f -\n", "tools", "found sed"),
        (TOOLS, "cp /usr/bin/sed ./mend && ./mend -i s/41/42/ answer.sh; rm mend\n", "tools", "mend or sed"),
        (ALLOWED, FIX + "uname\n", "tools", "found uname"),
        ("", FIX + "touch /etc/left || true\n", "writable", "a try to write /etc/left"),
        (
            "",
            FIX + "sh -c 'echo x > /usr/share/left' || true\n",
            "writable",
            "a try to write /usr/share/left",
        ),
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
        "copy-of-a-denied-tool",
        "tool-not-allowed",
        "write-outside-the-workspace",
        "redirection-outside-the-workspace",
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
        (TOOLS, FIX + "cp /usr/bin/uname ./own && ./own; rm own\n"),
        (ALLOWED, FIX),
        ("", FIX + "touch /tmp/note; mkdir -p /usr/local/bin; sh -c 'echo x > /dev/null'\n"),
        (NO_RESOLUTION, FIX + "python3 -m pip --version || true\n"),
        (REGISTRIES, FIX + PIP.format(words="-i https://packages.example/simple left-pad")),
    ],
    ids=[
        "denied-tool",
        "copy-of-another-tool",
        "tool-not-allowed",
        "writes-at-home",
        "resolution",
        "registry",
    ],
)
def test_an_honest_run_under_the_same_rule_succeeds(
    capsys: pytest.CaptureFixture[str], policy: str, script: str
) -> None:
    with open_court() as court:
        verdict, broken = _judge(court, capsys, policy, script)
        assert (verdict, broken) == ("success", {})


def test_places_that_the_contract_gives_are_written_and_those_beside_them_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What Setup makes and what is mounted is the work's own; a name that begins alike is not (Q3)."""
    environment = "mounts = [{ target = '/opt/scratch', kind = 'tmpfs' }]"
    setup = "[[setup]]\nrun = 'mkdir -p /opt/made && echo 1 > /opt/made/one'\noutputs = ['/opt/made']\n"
    setup += "timeout_seconds = 60\n"
    honest = FIX + "touch /opt/scratch/note; mkdir -p /opt/made/more || true; rm -f /opt/made/one || true\n"
    for script, expected in ((honest, None), (honest + "touch /opt/made-up || true\n", "/opt/made-up")):
        with open_court() as court:
            verdict, broken = _judge(court, capsys, "", script, environment=environment, setup=setup)
            if expected is None:
                assert (verdict, broken) == ("success", {})
            else:
                (message,) = broken["writable"]["messages"]
                assert (verdict, message.endswith(f"a try to write {expected}")) == ("failure", True)
