"""Harnesses that are killed in the middle of a run: the record is complete, or it says that it is not."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from repotrial._core.words import Level
from repotrial.contract import LoadedContract, parse_record, parse_run_spec
from repotrial.fleet import RunConditions, plan_runs
from repotrial.run import AttemptIndex, ScriptAgent, build_spec
from repotrial.run._context import PHASES
from repotrial.score import Invalid, Scorable, ScoreCard, build_score_card, load_evidence
from repotrial.signing import SigningKey
from repotrial.trace import Holds, RunPaths, check_run
from support.greetings import SAY, make_say_contract
from support.harness import require_sandboxes
from support.leftovers import await_only, foster_orphans, list_descendants, list_own_groups
from support.run_chaos_process import ROOT_SEED, SCRIPT
from support.waiting import wait_until
from support.workspaces import scratch

PROGRAM: Final = Path(__file__).parents[1] / "support" / "run_chaos_process.py"
ROUNDS: Final = 50
HELD: Final = (*PHASES, "check said")
"""Points at which a harness stands still until it is killed: these are hit on every machine."""
FRESH_EACH: Final = 20
AGENT: Final = ScriptAgent(script=SCRIPT)


class Chaos:
    """A contract, a place for its runs, and harnesses that conduct them."""

    def __init__(self, place: Path, loaded: LoadedContract, process: subprocess.Popen[str]) -> None:
        self.place = place
        self.loaded = loaded
        self.process = process
        self.key = SigningKey.load(place / "key.pem")
        self.pids: list[int] = []
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        self.known = set(list_descendants(os.getpid()))

    def order(self, **fields: object) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()
        answer: int = json.loads(self.process.stdout.readline())
        return answer

    def start(self, replicate: int, *, cache: str = "cache", hold: str | None = None) -> int:
        self.pids.append(self.order(order="conduct", replicate=replicate, cache=cache, hold=hold))
        return self.pids[-1]

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)  # it is not buried before we ask for it, so the number is still its own
        self.order(order="wait", pid=pid)

    def conduct(self, replicate: int, **fields: Any) -> None:
        """A run that nobody disturbs."""
        assert self.order(order="wait", pid=self.start(replicate, **fields)) == 0

    def find_attempts(self, replicate: int) -> list[Path]:
        spec = build_spec(self.loaded, AGENT, level=Level.L3, root_seed=ROOT_SEED, replicate=replicate)
        return AttemptIndex(self.place / "runs").find(spec.run_id)

    def count_lines(self, replicate: int) -> int:
        """How far the trace of the first attempt has come."""
        attempts = self.find_attempts(replicate)
        try:
            return RunPaths(attempts[0]).trace.read_bytes().count(b"\n") if attempts else 0
        except FileNotFoundError:
            return 0

    def list_missing(self, repeats: int) -> set[int]:
        plan = plan_runs(
            [self.loaded],
            [(AGENT, None)],
            RunConditions(runs=self.place / "runs", level=Level.L3, root_seed=ROOT_SEED, repeats=repeats),
        )
        return {run.spec.replicate for run in plan.missing}

    def list_leftovers(self) -> list[Path]:
        """What harnesses keep only as long as they live."""
        # A directory whose maker died before it could label it goes only when it is old.
        workspaces = [path for path in self.place.glob("cache*/workspaces/*") if holds_anything(path)]
        bases = self.place.glob("cache*/bases/making/*")
        return [*workspaces, *bases, *list_own_groups(*self.pids)]


@pytest.fixture
def chaos() -> Iterator[Chaos]:
    require_sandboxes()
    head, _, tail = SAY.partition('[[checks]]\nid = "kept"')
    text = head.replace('run = "test', 'run = "sleep 0.1; test') + tail[tail.index("[policy]") :]
    with scratch() as place, foster_orphans():
        loaded = make_say_contract(place / "contract", text)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            [sys.executable, str(PROGRAM), str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:
            yield Chaos(place, loaded, process)


def holds_anything(directory: Path) -> bool:
    return any(path.is_dir() or path.stat().st_size for path in directory.iterdir())


def is_gone(pid: int) -> bool:
    return _find_state(pid) in ("", "Z")


def is_held(pid: int) -> bool:
    """Whether it stands still, or came to its end."""
    return is_gone(pid) or _find_state(pid) == "T"


def _find_state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "stat").read_text("ascii", "replace").rpartition(") ")[2][:1]
    return ""


def judge(directory: Path, chaos: Chaos) -> str:
    """What the directory is worth; fails where that is more than its record can carry."""
    paths = RunPaths(directory)
    parse_run_spec(paths.spec.read_bytes())
    parse_record(paths.contract.read_bytes())
    verification = check_run(paths, trusted_keys=[chaos.key.public_key])
    card = build_score_card(load_evidence(directory))
    if verification.holds:
        assert isinstance(card.status, Scorable)
        assert card.status.verdict == "success"
        return "complete"
    if isinstance(card.status, Scorable):
        # Every event is there, the last one says so, and only the signature is not.
        aspects = (verification.chain, verification.completeness, verification.identity)
        assert all(isinstance(aspect, Holds) for aspect in aspects)
        assert card.identity.seal == "absent"
        assert card.status.verdict == "success"
        return "unsealed"
    _verify_honest(card)
    return "invalid"


def _verify_honest(card: ScoreCard) -> None:
    assert isinstance(card.status, Invalid)
    codes = {reason.code for reason in card.status.reasons}
    # A record that stops says what is missing from it; nothing of it looks like somebody's doing.
    assert codes & {"chain", "completeness", "not-ended", "missing-execution"}, card.status.reasons
    assert not codes & {"harness-fault", "safety-termination", "seal", "other-check"}, card.status.reasons
    assert all(reason.message for reason in card.status.reasons)


def choose_cache(number: int) -> str:
    """Now and then a machine that has prepared nothing yet."""
    return "cache" if number % FRESH_EACH else f"cache-{number}"


def strike(chaos: Chaos, number: int, moments: random.Random, *, lines: int, seconds: float) -> None:
    """Start a run and kill its harness: at a chosen point, at a length of the trace, or after some time."""
    hold = HELD[number] if number < len(HELD) else None
    pid = chaos.start(number, cache=choose_cache(number), hold=hold)
    if hold is not None:
        assert wait_until(lambda: is_held(pid))
        assert not is_gone(pid), hold
    elif number % 2:
        wanted = moments.randint(1, lines)
        assert wait_until(lambda: is_gone(pid) or chaos.count_lines(number) >= wanted)
        time.sleep(moments.uniform(0, seconds / lines))
    else:
        time.sleep(moments.uniform(0, seconds))
    chaos.kill(pid)


def test_a_harness_killed_at_any_moment_leaves_a_complete_record_or_an_honest_one(chaos: Chaos) -> None:
    moments = random.Random(20260307)
    started = time.monotonic()
    chaos.conduct(ROUNDS)
    seconds, lines = time.monotonic() - started, chaos.count_lines(ROUNDS)
    worth: Counter[str] = Counter()
    undone = set()
    for number in range(ROUNDS):
        strike(chaos, number, moments, lines=lines, seconds=seconds)
        assert await_only(chaos.known) == []
        found = [judge(path, chaos) for path in chaos.find_attempts(number)] or ["unborn"]
        worth.update(found)
        if found != ["complete"]:
            undone.add(number)
        if number < len(HELD):
            expected = "unsealed" if HELD[number] == "seal" else "invalid"
            assert found == [expected], HELD[number]
    assert worth.total() == ROUNDS
    assert chaos.list_missing(ROUNDS) == undone
    resume(chaos, sorted(undone))
    assert str(chaos.place) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    # Another harness that starts now may be removing the same.
    assert wait_until(lambda: not chaos.list_leftovers()), chaos.list_leftovers()


def resume(chaos: Chaos, undone: list[int]) -> None:
    """The next start tidies up and carries through what was not, in directories of its own."""
    # Every cache has its next start, even one whose run was complete when the harness was killed.
    chosen = [*range(0, ROUNDS, FRESH_EACH), *(number for number in undone if number % FRESH_EACH)][:5]
    for number in chosen:
        before = chaos.find_attempts(number)
        chaos.conduct(number, cache=choose_cache(number))
        (after,) = (path for path in chaos.find_attempts(number) if path not in before)
        assert after.name.endswith(f"-a{len(before) + 1}")
        assert judge(after, chaos) == "complete"
    assert not chaos.list_missing(ROUNDS) & set(chosen)
