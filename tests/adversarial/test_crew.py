"""Crews under attack: members that are killed, a harness that is, and orders that come in between."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from repotrial.fleet import (
    FleetEvent,
    FleetPlan,
    FleetSettings,
    MemberMissingError,
    RunConditions,
    RunEnded,
    RunStarted,
    RunUndone,
    _crew,
    conduct_fleet,
    plan_runs,
)
from repotrial.fleet._member import MemberOrder
from repotrial.run import ScriptAgent
from repotrial.sandbox import InstallationSettings, Level
from repotrial.trace import RunPaths, check_run, load_or_create_key
from support.command_line import start
from support.greetings import make_say_contract
from support.harness import require_sandboxes
from support.leftovers import await_only, foster_orphans, list_descendants
from support.trials import HONEST, open_court
from support.waiting import wait_until
from support.workspaces import scratch

SLOW: Final = ScriptAgent(script=b"sleep 30; echo hello > said.txt\n")
QUICK: Final = ScriptAgent(script=b"echo hello > said.txt\n")
MEMBER: Final = b"repotrial.fleet._member"


class Fleet:
    """One contract, and two processes that conduct runs on it."""

    def __init__(self, place: Path) -> None:
        self.loaded = make_say_contract(place / "contract")
        self.settings = FleetSettings(
            runs=place / "runs",
            installation=InstallationSettings(cache=place / "cache", home=place, variables={}),
            level=Level.L3,
            key=load_or_create_key(place / "key.pem"),
            jobs=2,
        )

    def plan(self, agent: ScriptAgent, count: int) -> FleetPlan:
        return plan_runs(
            [self.loaded],
            [(agent, None)],
            conditions=RunConditions(level=Level.L3, root_seed=20260307),
            repeats=count,
            runs=self.settings.runs,
        )


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    require_sandboxes()
    monkeypatch.setattr(_crew, "_WORTH_STARTING", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with scratch() as place:
        yield Fleet(place)


def list_members(harness: int) -> list[int]:
    """Children only: what a member starts has its command line until it executes its own."""
    tasks = Path("/proc", str(harness), "task").glob("*/children")
    children = " ".join(task.read_text("ascii") for task in tasks).split()
    return [pid for pid in map(int, children) if MEMBER in read_command(pid)]


def read_command(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return b""


def count_ends(events: list[FleetEvent]) -> Counter[str]:
    return Counter(event.run_id for event in events if isinstance(event, RunEnded | RunUndone))


def test_every_run_is_conducted_once_by_more_than_one_process(fleet: Fleet) -> None:
    plan = fleet.plan(QUICK, 6)
    members: set[int] = set()
    events = []
    for event in conduct_fleet(plan, fleet.settings):
        members |= {*list_members(os.getpid())}
        events.append(event)
    ended = [event for event in events if isinstance(event, RunEnded)]
    assert len(members) == 2
    assert count_ends(events) == {run.spec.run_id: 1 for run in plan.runs}
    assert [event.fault for event in ended] == [None] * 6
    for event in ended:
        verification = check_run(
            RunPaths(Path(event.directory)), trusted_keys=[fleet.settings.key.public_key]
        )
        assert verification.holds
    assert fleet.plan(QUICK, 6).missing == ()
    assert list_members(os.getpid()) == []


def test_a_member_that_is_killed_costs_only_what_it_was_at(fleet: Fleet) -> None:
    plan = fleet.plan(SLOW, 1)
    quick = fleet.plan(QUICK, 5)
    both = FleetPlan(runs=(*plan.runs, *quick.runs))
    slow_id = plan.runs[0].spec.run_id
    events = []
    for event in conduct_fleet(both, fleet.settings):
        events.append(event)
        over = {each.run_id for each in events if isinstance(each, RunEnded)}
        if len(over) == 5 and slow_id not in over:  # whoever still lives conducts the slow one
            for pid in list_members(os.getpid()):
                os.kill(pid, signal.SIGKILL)
    (lost,) = (event for event in events if isinstance(event, RunUndone))
    assert lost.run_id == slow_id
    assert lost.fault is not None
    assert lost.fault.startswith("member-lost: ")
    assert "exit code -9" in lost.fault
    assert count_ends(events) == {run.spec.run_id: 1 for run in both.runs}
    assert [run.spec.run_id for run in fleet.plan(SLOW, 1).missing] == [slow_id]
    assert fleet.plan(QUICK, 5).missing == ()


def test_what_the_dead_did_not_take_is_conducted_by_the_living(fleet: Fleet) -> None:
    plan = fleet.plan(QUICK, 12)
    events: list[FleetEvent] = []
    for event in conduct_fleet(plan, fleet.settings):
        if not any(isinstance(each, RunEnded) for each in events) and isinstance(event, RunEnded):
            os.kill(list_members(os.getpid())[0], signal.SIGKILL)
        events.append(event)
    lost = [event for event in events if isinstance(event, RunUndone)]
    assert len(lost) <= 1  # one run at a time each
    assert count_ends(events) == {run.spec.run_id: 1 for run in plan.runs}


def test_all_members_dead_before_they_began_is_told_for_every_run(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_crew, "_BOOT", "import os; os._exit(7)")
    events = [*conduct_fleet(fleet.plan(QUICK, 4), fleet.settings)]
    assert [type(event) for event in events] == [RunUndone] * 4
    assert all("exit code 7, exit code 7" in str(event) for event in events)


def test_a_program_that_cannot_be_started_is_said_before_any_run(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python3")
    with pytest.raises(MemberMissingError, match="/nowhere/python3"):
        next(conduct_fleet(fleet.plan(QUICK, 4), fleet.settings))
    assert not any(fleet.settings.runs.glob("*"))


@pytest.mark.parametrize("moment", ["a member begins", "tickets are fed"])
def test_an_interrupt_while_a_crew_starts_leaves_nobody_waiting(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    begin, start_thread = _crew._Member.begin, threading.Thread.start
    begun: list[MemberOrder] = []

    def begin_one(self: _crew._Member, order: MemberOrder) -> None:
        if begun and moment == "a member begins":
            raise KeyboardInterrupt
        begun.append(order)
        begin(self, order)

    def start_all_but_the_feeder(self: threading.Thread) -> None:
        if self.name == "tickets":
            raise KeyboardInterrupt
        start_thread(self)

    monkeypatch.setattr(_crew._Member, "begin", begin_one)
    monkeypatch.setattr(threading.Thread, "start", start_all_but_the_feeder)
    with pytest.raises(KeyboardInterrupt):
        next(conduct_fleet(fleet.plan(SLOW, 4), fleet.settings))
    assert list_members(os.getpid()) == []


def test_stopping_a_crew_seals_what_runs_and_tells_the_rest(fleet: Fleet) -> None:
    plan = fleet.plan(SLOW, 6)
    events = []
    for event in conduct_fleet(plan, fleet.settings):
        events.append(event)
        if sum(isinstance(each, RunStarted) for each in events) == 2:
            fleet.settings.stopper.stop()
    stopped = [event for event in events if isinstance(event, RunEnded)]
    undone = [event for event in events if isinstance(event, RunUndone)]
    assert [event.is_stopped for event in stopped] == [True] * len(stopped)
    assert [event.fault for event in undone] == [None] * len(undone)
    assert count_ends(events) == {run.spec.run_id: 1 for run in plan.runs}


def test_a_directory_whose_name_is_no_text_is_told_as_it_is(fleet: Fleet) -> None:
    runs = fleet.settings.runs.parent / os.fsdecode(b"runs-\xff")
    events = [*conduct_fleet(fleet.plan(QUICK, 2), dataclasses.replace(fleet.settings, runs=runs))]
    ended = [event for event in events if isinstance(event, RunEnded)]
    assert {Path(event.directory).parent for event in ended} == {runs}
    assert [event.fault for event in ended] == [None, None]


def test_a_crew_that_nobody_listens_to_any_more_ends(fleet: Fleet) -> None:
    events = conduct_fleet(fleet.plan(SLOW, 6), fleet.settings)
    next(event for event in events if isinstance(event, RunStarted))
    assert list_members(os.getpid())
    events.close()
    assert list_members(os.getpid()) == []


def test_a_harness_that_is_killed_takes_its_crew_and_their_sandboxes_along() -> None:
    with open_court() as court, foster_orphans():
        known = {*list_descendants(os.getpid())}
        contract = court.write_contract()
        script = court.write("slow.sh", f"sleep 60\n{HONEST}")
        words = court.build_words(contract, "--agent", f"script:{script}", "--repeats", "32", "--jobs", "2")
        with start(*words, stdout=subprocess.DEVNULL) as harness:
            if len(os.sched_getaffinity(0)) > 1:
                assert wait_until(lambda: len(list_members(harness.pid)) == 2)
            assert wait_until(lambda: any(court.runs.glob("*/trace.jsonl")))
            harness.kill()
        assert await_only(known) == []
