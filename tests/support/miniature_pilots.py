"""Conducted pilots in miniature: run directories by letters, and what analysis takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repotrial.analysis import ConductedPilot
from repotrial.trace import Signal
from support.score_runs import FAILED, HUNG, PASSED, ScoreRun, write_run

REQUIRING = b"""\
diff --git a/requirements.txt b/requirements.txt
index 1111111..2222222 100644
--- a/requirements.txt
+++ b/requirements.txt
@@ -1,1 +1,2 @@
 first==1.0
+left-pad==1.0
"""
_OUTCOMES: dict[str, dict[str, Any]] = {
    "s": {},
    "f": {"unit": FAILED},
    "e": {"unit": HUNG},
    "b": {"make": FAILED, "unit": FAILED},
    "l": {"unit": FAILED},
}
"""By letter: success, failure, error, a broken build, a failure at a limit."""


def _write(directory: Path, letter: str, *, seconds: int) -> None:
    if letter == "d":
        write_run(directory, patch=REQUIRING)
        return
    run = ScoreRun(directory)
    end: dict[str, Any] = {"signals": (Signal(name="wall_us", value=seconds * 1_000_000),)}
    if letter == "l":
        end |= {"category": "run-timeout", "nature": "resource", "code": "wall-time"}
    run.end_acting(**end)
    run.apply()
    for check in run.contract.checks:
        run.check(check, _OUTCOMES[letter].get(check.id, PASSED))
    run.finish()


def conduct_pilot(
    root: Path, words: dict[str, list[str]], *, seconds: int = 1, **fields: Any
) -> ConductedPilot:
    """Each arm's outcomes by task, one letter for each repeat; `-` was planned and has no run, `d` has a
    flagged change. The n-th task takes n times `seconds`.
    """
    planned = []
    for arm, tasks in words.items():
        for place, letters in enumerate(tasks):
            for repeat, letter in enumerate(letters):
                name = f"runs/{arm}-{place}-{repeat}"
                directory = None
                if letter != "-":
                    directory = name
                    _write(root / name, letter, seconds=(place + 1) * seconds)
                planned.append(
                    {
                        "task": f"t{place:02}",
                        "arm": arm,
                        "repeat": repeat,
                        "stratum": "python" if place % 2 else "rust",
                        "directory": directory,
                    }
                )
    (root / "plan.json").write_text("{}")
    document: dict[str, Any] = {
        "id": "p1",
        "directory": root,
        "arms": {arm: "baseline" if arm == "noop" else "candidate" for arm in words},
        "idle_arm": "noop" if "noop" in words else None,
        "contrasts": (("a-b", "a", "b"),),
        "rule": {"contrast": "a-b", "adopt_above": 0.0, "reject_below": 0.0, "most_usd_per_success": 5.0},
        "level": 0.95,
        "planned": planned,
        "documents": {"plan": "plan.json"},
        "removed": {"t99": "its upstream vanished"},
        "deviations": ("another seed",),
        "scope": ("python and rust",),
    }
    return ConductedPilot.build(**{**document, **fields})
