"""Parts of the harness that are lost under a run: no verdict blames the candidate, and no run is lost.

The launch server is a process and is killed; supervisor and gateway are threads, and are ended from outside.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from repotrial import api
from repotrial.score import judge_run
from support.exhaustive import IS_EXHAUSTIVE
from support.model_agents import TINY, finish, shell, write_script
from support.trials import Court, open_court
from support.waiting import wait_until

POINTS = 20
SLOW_FIX = (
    "#!/bin/sh\nsed -i s/41/42/ answer.sh\nfor i in 1 2 3 4 5 6 7 8 9; do sleep .2; sh answer.sh; done\n"
)
SLOW_VALUE = 'for i in 1 2 3 4 5 6 7 8 9; do sleep .2; sh answer.sh; done; test "$(sh answer.sh)" = 42'
FAST_FIX = "sed -i s/41/42/ answer.sh\n"
FAST_VALUE = 'test "$(sh answer.sh)" = 42'


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def kill_launch_server() -> bool:
    """Those that this process started; they wipe their command line and have a name of their own."""
    is_killed = False
    for place in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (place / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name == "repotrial" and int(rest.split()[1]) == os.getpid():
            os.kill(int(place.name), signal.SIGKILL)
            is_killed = True
    return is_killed


def end_thread(name: str) -> bool:
    """Raise in every thread of that name what none of them expects; each ends at its next step."""
    found = [thread for thread in threading.enumerate() if thread.name == name]
    for thread in found:
        assert thread.ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    return bool(found)


def end_supervisor() -> bool:
    return end_thread("syscall-supervisor")


def end_gateway() -> bool:
    return end_thread("repotrial-gateway")


def strike(
    events: Iterator[api.TrialEvent], end: Callable[[], bool], *, phase: str | None, delay: float
) -> list[api.TrialEvent]:
    """All events; so long after a phase began (None: after the run did) that part is lost, once."""
    told: list[api.TrialEvent] = []
    striking: list[threading.Thread] = []

    def lose() -> None:
        time.sleep(delay)
        wait_until(end)

    for event in events:
        told.append(event)
        is_due = phase is None or (isinstance(event, api.RunPhase) and event.phase == phase)
        if is_due and not striking:
            striking.append(threading.Thread(target=lose))
            striking[0].start()
    for thread in striking:
        thread.join()
    return told


def verify_no_blame(told: Sequence[api.TrialEvent]) -> int:
    """The run succeeded at last, and whatever came before is excused; how many attempts were lost."""
    lost = [judge_run(Path(event.directory)) for event in told if isinstance(event, api.RunRepeated)]
    for run in lost:
        assert (run.entry.status, run.cause.cause, run.cause.is_excused) == ("invalid", "harness", True)
    (scored,) = [event.entry for event in told if isinstance(event, api.RunScored)]
    assert (scored.status, scored.cause) == ("success", "finished")
    return len(lost)


def conduct_script(court: Court, *, fix: str = FAST_FIX, value: str = FAST_VALUE) -> Iterator[api.TrialEvent]:
    contract = court.write_contract(value=value)
    return court.conduct(contract, f"script:{court.write('fix.sh', fix)}", stopper=api.Stopper())


def conduct_model(court: Court, fix: str) -> Iterator[api.TrialEvent]:
    steps = [shell(fix), *(shell("sleep .2; sh answer.sh") for _ in range(9)), finish()]
    script = write_script(court, steps)
    contract, upstream = court.write_contract(), f"script:{script}"
    return court.conduct(contract, f"agent:{TINY}", stopper=api.Stopper(), upstream=upstream)


@pytest.mark.parametrize("phase", ["act", "accept"])
@pytest.mark.parametrize("end", [kill_launch_server, end_supervisor])
def test_a_part_that_is_lost_is_the_harness_and_the_run_is_repeated(
    court: Court, phase: str, end: Callable[[], bool]
) -> None:
    told = strike(
        conduct_script(court, fix=SLOW_FIX) if phase == "act" else conduct_script(court, value=SLOW_VALUE),
        *(end,),
        phase=phase,
        delay=1.0,
    )
    assert verify_no_blame(told) == 1


def test_a_lost_gateway_is_the_harness_and_the_run_is_repeated(court: Court) -> None:
    assert verify_no_blame(strike(conduct_model(court, FAST_FIX), end_gateway, phase="act", delay=1.0)) == 1


@pytest.mark.skipif(not IS_EXHAUSTIVE, reason="20 random points each: REPOTRIAL_EXHAUSTIVE=1")
@pytest.mark.parametrize("end", [kill_launch_server, end_supervisor, end_gateway])
def test_at_no_point_is_a_loss_blamed_on_the_candidate(court: Court, end: Callable[[], bool]) -> None:
    moments = random.Random(20261118)
    lost = 0
    for number in range(POINTS):
        is_model = end is end_gateway
        events = conduct_model(court, FAST_FIX) if is_model else conduct_script(court, fix=FAST_FIX)
        lost += verify_no_blame(strike(events, end, phase=None, delay=moments.uniform(0, 3)))
        court.runs.rename(court.place / f"runs-{number}")
    assert lost >= POINTS // 4, "most strikes hit nothing"
