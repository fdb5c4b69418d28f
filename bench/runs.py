"""`python -m bench.runs [--runs N] [--jobs N]`: many runs of an agent that asks a canned model, at once.

All of them talk to one gateway in one process. Printed are the time, the memory of the harness after the
first tenth and at the end, and whether any run lost an exchange or got one of another.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
STEPS = 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=100)
    arguments = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    from support.model_agents import TINY, finish, shell, write_script
    from support.trials import open_court

    with open_court() as court:
        steps = [shell("cat answer.sh"), shell("sed -i s/41/42/ answer.sh"), shell("sh answer.sh"), finish()]
        script = write_script(court, steps)
        words = court.build_words(court.write_contract(), "--agent", f"agent:{TINY}", "--json")
        words += ["--upstream", f"script:{script}", "--jobs", str(arguments.jobs)]
        for count in (max(1, arguments.runs // 10), arguments.runs):
            began = time.monotonic()
            statuses = _start([*words, "--repeats", str(count)])
            seconds = time.monotonic() - began
            print(
                f"{count} runs: {seconds:.1f} s, {_read_memory_mb()} MB, load {os.getloadavg()[0]:.1f}, "
                f"{statuses.count('success')} successes",
                flush=True,
            )
        torn = [path.name for path in sorted(court.runs.glob("answer-*")) if not _is_whole(path)]
    print(f"runs with lost or crossed exchanges: {len(torn)}")
    return 1 if torn else 0


def _start(words: list[str]) -> list[str]:
    from repotrial.cli import main as command

    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        command(words)
    events = [json.loads(line) for line in told.getvalue().splitlines()]
    return [event["entry"]["status"] for event in events if event.get("event") == "scored"]


def _is_whole(directory: Path) -> bool:
    """Whether each prompt has its own answer, as many as the script has steps."""
    from repotrial.trace import Prompt, Response, RunPaths, iter_events

    events = list(iter_events(RunPaths(directory).trace))
    prompts = [event.seq for event in events if isinstance(event.payload, Prompt)]
    answers = [event.payload.prompt for event in events if isinstance(event.payload, Response)]
    return len(prompts) == STEPS and answers == prompts


def _read_memory_mb() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) // 1024


if __name__ == "__main__":
    sys.exit(main())
