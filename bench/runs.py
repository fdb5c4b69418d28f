"""`python -m bench.runs [--runs N] [--rounds N]`: many runs of an agent that asks a canned model, at once.

All of them talk to one gateway in one process, round after round. Printed are the time, the memory of the
harness, whether any run lost an exchange or got one of another, and what became of one budget for all.

Memory has two goals. It may not grow with the runs that were *conducted*: it is compared after the first
round and after the last, each with as many at once. And a run that is *under way* may take so much: the most
while all are, less the most while a tenth are, by the difference of their numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from support.trials import Court

TESTS: Final = Path(__file__).parents[1] / "tests"
STEPS: Final = 4
_GROWTH_GOAL: Final = 1.05
_EACH_GOAL_MB: Final = 0.5
_PRICES: Final = """\
action_type,unit,unit_price,notes,above_tokens,max_output_tokens
model:canned-model:input,1M-tokens,100,so that a run costs some cents,,
model:canned-model:output,1M-tokens,100,,,4096
"""
_BUDGET_PER_RUN: Final = Decimal("0.05")
"""Less than a run takes: the shared budget ends while all are at work."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that were conducted at once."""

    directory: Path
    jobs: int
    seconds: float
    statuses: tuple[str, ...]
    rest_mb: float
    """Of the harness, when all are done."""
    most_mb: float
    """While they were under way."""
    blocks: int
    """Python's own: what is still alive."""

    def __str__(self) -> str:
        counts = ", ".join(f"{self.statuses.count(each)} {each}" for each in sorted(set(self.statuses)))
        return (
            f"{self.jobs} at once: {self.seconds:.1f} s, at most {self.most_mb:.1f} MB, "
            f"{self.rest_mb:.1f} MB afterwards; load {os.getloadavg()[0]:.1f}; {counts}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="at once")
    parser.add_argument("--rounds", type=int, default=3, help="of so many runs, one after the other")
    arguments = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    from support.model_agents import TINY, finish, shell, write_script
    from support.trials import open_court

    with open_court() as court:
        steps = [shell("cat answer.sh"), shell("sed -i s/41/42/ answer.sh"), shell("sh answer.sh"), finish()]
        script = write_script(court, steps)
        words = court.build_words(court.write_contract(), "--agent", f"agent:{TINY}", "--json")
        words += ["--upstream", f"script:{script}"]
        few = _conduct(court, words, "few", max(1, arguments.runs // 10))
        rounds = [
            _conduct(court, words, f"round-{number}", arguments.runs) for number in range(arguments.rounds)
        ]
        is_met = _tell_memory(few, rounds)
        is_met &= _tell_exchanges([few, *rounds])
        is_met &= _try_budget(court, words, arguments.runs)
    return 0 if is_met else 1


def _conduct(court: Court, words: list[str], name: str, jobs: int, *more: str) -> Round:
    from repotrial.cli._main import main as command

    directory = court.place / name
    Path("/proc/self/clear_refs").write_text(
        "5", encoding="ascii"
    )  # the most so far is the most from here on
    began = time.monotonic()
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        command([*words, "--runs", str(directory), "--jobs", str(jobs), "--repeats", str(jobs), *more])
    seconds = time.monotonic() - began
    events = [json.loads(line) for line in told.getvalue().splitlines()]
    del told
    statuses = tuple(event["entry"]["status"] for event in events if event.get("event") == "scored")
    del events
    gc.collect()
    memory = _read_memory()
    done = Round(
        directory=directory,
        jobs=jobs,
        seconds=seconds,
        statuses=statuses,
        rest_mb=memory["VmRSS"],
        most_mb=memory["VmHWM"],
        blocks=sys.getallocatedblocks(),
    )
    print(done, flush=True)
    return done


def _tell_memory(few: Round, rounds: list[Round]) -> bool:
    first, last = rounds[0], rounds[-1]
    between = sum(each.jobs for each in rounds[1:])
    growth = last.rest_mb / first.rest_mb
    each_mb = (first.most_mb - few.most_mb) / max(1, first.jobs - few.jobs)
    is_met = growth <= _GROWTH_GOAL and each_mb <= _EACH_GOAL_MB
    print(
        f"memory: after {between} more runs {growth:.3f}x (goal at most {_GROWTH_GOAL:g}x), "
        f"{(last.blocks - first.blocks) / max(1, between):.1f} blocks left by each; "
        f"a run under way takes {each_mb:.2f} MB (goal at most {_EACH_GOAL_MB:g} MB): {_say(is_met)}"
    )
    return is_met


def _tell_exchanges(rounds: list[Round]) -> bool:
    directories = [path for each in rounds for path in sorted(each.directory.glob("answer-*"))]
    torn = [path.name for path in directories if not _is_whole(path)]
    failed = sum(status != "success" for each in rounds for status in each.statuses)
    for text in (_describe_trouble(path) for path in directories if failed):
        print(text, end="")
    print(
        f"exchanges: {len(directories)} runs, lost or crossed in {len(torn)}, no success in {failed}"
        f" (goal 0 and 0): {_say(not torn and not failed)}"
    )
    return not torn and not failed


def _try_budget(court: Court, words: list[str], jobs: int) -> bool:
    """All of them share less than they need: what was held and spent never passes it by more than a bound."""
    prices = court.write("prices.csv", _PRICES)
    limit = _BUDGET_PER_RUN * jobs
    done = _conduct(court, words, "budget", jobs, "--prices", str(prices), "--total-budget", str(limit))
    lines = (done.directory / "ledger.jsonl").read_bytes().splitlines()
    most, bound, spent = _follow_ledger([json.loads(line)["entry"] for line in lines])
    said = sum((_add_costs(path) for path in done.directory.glob("answer-*")), Decimal(0))
    capped = sum(_is_capped(path) for path in done.directory.glob("answer-*"))
    is_met = most <= limit + bound and spent == said and capped > 0 and len(done.statuses) == jobs
    print(
        f"budget: {limit} USD for {jobs} runs at once; held and spent at most {most}, spent {spent} "
        f"(the runs' own records say {said}), one declared bound is {bound}; "
        f"{capped} runs ended at the cap, {len(done.statuses)} were judged: {_say(is_met)}"
    )
    return is_met


def _follow_ledger(entries: list[dict[str, object]]) -> tuple[Decimal, Decimal, Decimal]:
    """The most that was held and spent at any time, the largest bound, and what is spent in the end."""
    holds: dict[object, Decimal] = {}
    most = bound = spent = Decimal(0)
    for number, entry in enumerate(entries):
        if entry["kind"] == "reserved":
            holds[number] = Decimal(str(entry["amount"]))
            bound = max(bound, holds[number])
        elif entry["kind"] in {"settled", "released"}:
            del holds[entry["hold"]]
        if entry["kind"] == "settled":
            actual = msgspec.convert(entry["actual"], dict[str, object])
            spent += Decimal(str(actual["value"]))
        most = max(most, spent + sum(holds.values()))
    return most, bound, spent


def _is_whole(directory: Path) -> bool:
    """Whether each prompt has its own answer, as many as the script has steps."""
    from repotrial.trace import Prompt, Response, RunPaths, iter_events

    events = list(iter_events(RunPaths(directory).trace))
    prompts = [event.seq for event in events if isinstance(event.payload, Prompt)]
    answers = [event.payload.prompt for event in events if isinstance(event.payload, Response)]
    return len(prompts) == STEPS and answers == prompts


def _describe_trouble(directory: Path) -> str:
    """What a run says went wrong; empty where nothing did."""
    from repotrial.trace import BlobStore, MonitorAlert, RunPaths, Termination, iter_events

    paths = RunPaths(directory)
    found = []
    for event in iter_events(paths.trace):
        match event.payload:
            case Termination(code=code, rationale=rationale) if code != "exit":
                found.append(f"  {directory.name}: {code}: {rationale}\n")
            case MonitorAlert(severity="critical", rule=rule, segment=segment):
                body = b"" if segment is None else segment.body.load(BlobStore(paths.blobs))
                found.append(f"  {directory.name}: {rule}: {body.decode()}\n")
            case _:
                pass
    return "".join(found)


def _add_costs(directory: Path) -> Decimal:
    from repotrial.trace import Response, RunPaths, iter_events

    payloads = [event.payload for event in iter_events(RunPaths(directory).trace)]
    costs = [each.cost_usd for each in payloads if isinstance(each, Response)]
    return sum((Decimal(cost or "0") for cost in costs), Decimal(0))


def _is_capped(directory: Path) -> bool:
    from repotrial.trace import RunPaths, Termination, iter_events

    payloads = [event.payload for event in iter_events(RunPaths(directory).trace)]
    return any(isinstance(each, Termination) and each.code == "cost-cap" for each in payloads)


def _read_memory() -> dict[str, float]:
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = {line.partition(":")[0]: line.split()[1] for line in status if line.startswith("Vm")}
    return {name: int(value) / 1024 for name, value in found.items()}


def _say(is_met: bool) -> str:  # noqa: FBT001 - a word for a yes or no
    return "met" if is_met else "NOT met"


if __name__ == "__main__":
    sys.exit(main())
