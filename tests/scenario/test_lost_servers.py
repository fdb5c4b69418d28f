"""A launch server that is killed under a run: no verdict blames the candidate, and no run is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial import api
from repotrial.score import judge_run
from support.trials import Court, open_court

SLOW_FIX = "#!/bin/sh\nsed -i s/41/42/ answer.sh\ntouch started\nsleep 3\nrm -f started\n"


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def find_servers() -> list[int]:
    """Launch servers that this process started; they wipe their command line and have a name of their own."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (place / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name == "repotrial" and int(rest.split()[1]) == os.getpid():
            found.append(int(place.name))
    return found


@pytest.mark.parametrize("phase", ["act", "accept"])
def test_a_killed_launch_server_is_the_harness_and_the_run_is_repeated(court: Court, phase: str) -> None:
    script = court.write("fix.sh", SLOW_FIX if phase == "act" else "sed -i s/41/42/ answer.sh\n")
    value = 'test "$(sh answer.sh)" = 42' if phase == "act" else 'sleep 3; test "$(sh answer.sh)" = 42'
    contract = court.write_contract(value=value)
    told: list[api.TrialEvent] = []
    timers: list[threading.Timer] = []
    for event in court.conduct(contract, f"script:{script}", stopper=api.Stopper()):
        told.append(event)
        if isinstance(event, api.RunPhase) and event.phase == phase and not timers:
            timers.append(threading.Timer(1.5, kill_servers))
            timers[0].start()
    timers[0].join()
    (repeated,) = [event for event in told if isinstance(event, api.RunRepeated)]
    lost = judge_run(Path(repeated.directory))
    assert (lost.entry.status, lost.cause.cause, lost.cause.is_excused) == ("invalid", "harness", True)
    (scored,) = [event.entry for event in told if isinstance(event, api.RunScored)]
    assert (scored.status, scored.cause) == ("success", "finished")


def kill_servers() -> None:
    for pid in find_servers():
        os.kill(pid, signal.SIGKILL)
