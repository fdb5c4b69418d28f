"""The peer: Inspect AI with a model that is none and its `local` sandbox, which isolates nothing.

It gets an environment of its own, made once and kept, an empty home (its tool starts a login shell) and
replies that say how many tokens they used (otherwise it would download a vocabulary to count them).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Peer", "PeerMissing", "find_peer"]

_PINNED: Final = "inspect-ai==0.3.285"

# Every sample at once is what it does best with: measured slower with 10 at a time.
_SCRIPT: Final = """\
import json, sys, time
from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer
from inspect_ai.tool import bash
from inspect_ai.util import sandbox

def reply(messages, tools, tool_choice, config):
    if messages[-1].role == "tool":
        output = ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": "done"})
    else:
        output = ModelOutput.for_tool_call("mockllm/model", "bash", {"command": "echo hi > said.txt"})
    output.usage = ModelUsage(input_tokens=10, output_tokens=10, total_tokens=20)
    return output

@scorer(metrics=[accuracy()])
def said():
    async def score(state, target):
        done = await sandbox().exec(["sh", "-c", "test -f said.txt"])
        return Score(value=CORRECT if done.success else INCORRECT)
    return score

def conduct(runs, logs):
    samples = [Sample(id=number, input="Create said.txt.", target="-") for number in range(1, runs + 1)]
    task = Task(dataset=samples, solver=react(tools=[bash()]), scorer=said(), sandbox="local")
    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    start = time.perf_counter()
    log = eval(task, model=model, log_dir=logs, display="none", max_samples=runs)[0]
    seconds = time.perf_counter() - start
    assert log.status == "success", log.error
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    assert log.results.completed_samples == runs
    return seconds

for line in sys.stdin:
    print(json.dumps({"seconds": conduct(int(line), sys.argv[1])}), flush=True)
"""


class PeerMissing(msgspec.Struct, frozen=True):
    """It cannot be had here."""

    reason: str


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """How it is started."""

    name: str
    argv: tuple[str, ...]
    variables: dict[str, str]


def find_peer(place: Path) -> Peer | PeerMissing:
    """The peer, installed from the package index where that has not been done before.

    Args:
        place: Its home and logs; removed by the caller.
    """
    environment = _find_cache() / _PINNED
    if not (environment / "installed").is_file():
        problem = _install(environment)
        if problem is not None:
            return PeerMissing(f"{_PINNED} cannot be installed ({problem})")
    for name in ("home", "tmp"):
        (place / name).mkdir(parents=True)
    script = place / "peer.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    return Peer(
        name=_PINNED,
        argv=(str(environment / "bin" / "python"), str(script), str(place / "logs")),
        variables={
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "LANG": "C.UTF-8",
        },
    )


def _find_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "repotrial-bench")


def _install(environment: Path) -> str | None:
    """What went wrong; null where nothing did."""
    shutil.rmtree(environment, ignore_errors=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for command in ([sys.executable, "-m", "venv", str(environment)], [*pip, "--compile", _PINNED]):
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr or done.stdout).strip().rpartition("\n")[2]
    (environment / "installed").touch()
    return None
