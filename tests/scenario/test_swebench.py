"""SWE-bench from end to end: an instance becomes a contract, and predictions get what they deserve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial._core.errors import MachineError
from repotrial.authoring import lock_contract
from repotrial.contract import load_contract
from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.interop import build_swebench_report
from repotrial.run import PatchAgent, conduct_run
from repotrial.score import Scorable, ScoreCard, build_score_card, load_evidence
from support.command_line import call
from support.errors import raises_code
from support.greetings import build_request
from support.harness import require_sandboxes
from support.swebench import INSTANCE_ID, drop_modes, make_instance, write_jsonl
from support.workspaces import scratch

LOCK = Path(__file__).parents[2] / "examples" / "contracts" / "textkit-wide-chars" / "requirements.lock"
"""Of an example: it brings pytest."""
WRONG = """\
diff --git a/clamp/__init__.py b/clamp/__init__.py
--- a/clamp/__init__.py
+++ b/clamp/__init__.py
@@ -4,2 +4,2 @@
 def clamp(value, low, high):
-    return max(low, value)
+    return max(low, value - 21) if value > high else max(low, value)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    require_sandboxes()
    with scratch() as root:
        yield root


def open_here(place: Path, contract: Path) -> Installation:
    settings = InstallationSettings(cache=place / "cache", home=place, variables={})
    try:
        return open_installation(load_contract(contract), settings)
    except MachineError as error:
        if error.code != "package-index-unreachable":
            raise
        pytest.skip("no package index can be reached to build the pinned environment once")


def judge(place: Path, installation: Installation, patch: str, *, name: str = "model") -> ScoreCard:
    """The verdict on one prediction."""
    agent = PatchAgent(name=name, patch=patch.encode())
    run = conduct_run(*build_request(installation.loaded, agent, installation, place / "runs"))
    assert run.fault is None
    return build_score_card(load_evidence(run.paths.root))


def verdict_of(card: ScoreCard) -> str:
    assert isinstance(card.status, Scorable), card.status
    return card.status.verdict


def test_gold_empty_and_wrong_predictions_are_resolved_and_not(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = make_instance(place / "repo")
    row |= {name: drop_modes(row[name]) for name in ("patch", "test_patch")}
    instances = write_jsonl(place / "instances.jsonl", row)
    arguments = ("--repo", place / "repo", "--out", place, "--python-lock", LOCK, "--embed", "--json")
    ended = call(capsys, "contract", "import", instances, "--format", "swebench", *arguments)
    assert (ended.status, ended.err) == (0, "")
    assert [created["id"] for created in json.loads(ended.out)] == ["example-clamp-12"]
    contract = place / "example-clamp-12"
    lock_contract(contract)
    with open_here(place, contract) as installation:
        gold = judge(place, installation, row["patch"])
        empty = judge(place, installation, "", name="silent")
        wrong = judge(place, installation, WRONG, name="hasty")
    assert [verdict_of(card) for card in (gold, empty, wrong)] == ["success", "failure", "failure"]
    report = build_swebench_report([gold], instance_ids=[INSTANCE_ID, "Example__Clamp-99"])
    assert (report.resolved_ids, report.incomplete_ids) == ((INSTANCE_ID,), ("Example__Clamp-99",))
    assert build_swebench_report([empty]).empty_patch_ids == ("example-clamp-12",)
    assert build_swebench_report([wrong]).unresolved_ids == ("example-clamp-12",)
    with raises_code("swebench-mixed-agents"):
        build_swebench_report([gold, wrong])
