"""A harness that conducts runs in children: each is a harness that may die, without the cost of a start.

Run as a script with a place: it has `contract/` and `key.pem`, and gets `runs/`. It says `ready` when it is.
An order is a line of JSON: `conduct` forks and answers with the child's number, `wait` answers with how that
child ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from repotrial._core.words import Level, LifecyclePhase
from repotrial.contract import load_contract
from repotrial.environment import Installation, InstallationSettings, open_installation
from repotrial.isolation import probe_machine
from repotrial.isolation._resources._reaper import reap_leftovers
from repotrial.redaction import SecretRedactor
from repotrial.run import PlannedRun, RunSettings, ScriptAgent, build_spec, conduct_run
from repotrial.signing import SigningKey
from repotrial.trace import CheckOutcome

SCRIPT = b"sleep 0.05; echo hello > said.txt\n"
ROOT_SEED = 20260307


class HoldingListener:
    """Stands still at one point of the run, for whoever wants to end it right there."""

    def __init__(self, point: str | None) -> None:
        self._point = point

    def on_phase(self, phase: LifecyclePhase) -> None:
        self._reach(phase)

    def on_check(self, check_id: str, outcome: CheckOutcome) -> None:
        del outcome
        self._reach(f"check {check_id}")

    def _reach(self, point: str) -> None:
        if point == self._point:
            os.kill(os.getpid(), signal.SIGSTOP)


def conduct(place: Path, order: dict[str, Any]) -> None:
    """One run, as a harness that has just started conducts it."""
    reap_leftovers()
    loaded = load_contract(place / "contract")
    agent = ScriptAgent(script=SCRIPT)
    settings = InstallationSettings(cache=place / order["cache"], home=place, variables={})
    opened: list[Installation] = []

    def open_here() -> Installation:
        opened.append(open_installation(loaded, settings, level=Level.L3))
        return opened[-1]

    spec = build_spec(loaded, agent, level=Level.L3, root_seed=ROOT_SEED, replicate=order["replicate"])
    conduct_run(
        PlannedRun(loaded=loaded, agent=agent, spec=spec),
        RunSettings(
            runs=place / "runs",
            key=SigningKey.load(place / "key.pem"),
            redactor=SecretRedactor({}),
        ),
        open_here,
        listener=HoldingListener(order.get("hold")),
    )
    for installation in opened:
        installation.close()


def fork(place: Path, order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # answers are the parent's alone
        conduct(place, order)
        status = 0
    except BaseException:  # noqa: BLE001 - told to whoever waits
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    place = Path(sys.argv[1])
    probe_machine()  # takes a moment, and every child knows it from here
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        order = json.loads(line)
        if order["order"] == "conduct":
            answer = fork(place, order)
        else:
            _, answer = os.waitpid(order["pid"], 0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
