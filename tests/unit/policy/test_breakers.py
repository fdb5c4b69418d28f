"""Breakers: each rule from the events that meet it, and nothing from events that do not."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from repotrial.contract import Limits
from repotrial.policy import (
    BreakerState,
    Decision,
    Thresholds,
    build_settings,
    decide,
    parse_thresholds,
    read_thresholds,
    recompute_decisions,
)
from repotrial.trace import (
    Event,
    Exited,
    Intervention,
    Justification,
    MonitorAlert,
    OnAlert,
    OperatorDecision,
    Pause,
    Quarantine,
    Segment,
    Signal,
    Terminate,
    TimedOut,
)
from support.breakers import Record, build_body
from support.errors import raises_code
from support.programs import Programs

HOUR_US = 3_600_000_000
LIMITS = Limits(wall_seconds=3600, command_seconds=600, tokens=1_000_000, cost_usd=Decimal(10**6))
SETTINGS = build_settings(LIMITS)


def _fold(record: Record, limits: Limits = LIMITS, thresholds: Thresholds | None = None) -> list[Decision]:
    state = BreakerState(build_settings(limits, thresholds))
    return [decision for event in record.events for decision in decide(state, event)]


def _ends(decisions: list[Decision]) -> list[tuple[str, str]]:
    return [(each.ending.code, each.ending.nature) for each in decisions if each.ending is not None]


def test_the_same_call_on_the_same_tree_is_an_alert_then_a_wait_then_the_end() -> None:
    record = Record()
    for number in range(16):
        record.shell("python -m pytest -q", result="1 failed in 0.1s", description=f"try {number}")
    found = [each for each in _fold(record) if each.rule == "identical-calls"]
    assert [each.action for each in found] == [None, *["throttle"] * 8, "terminate"]
    waits = [each.wait_us for each in found if each.wait_us is not None]
    assert waits == sorted(waits)
    assert (waits[0], max(waits)) == (1_000_000, 30_000_000)
    assert found[-1].signals == (Signal(name="identical_calls", value=16, threshold=16),)
    assert _ends(found) == [("identical-calls", "resource")]
    assert found[-1].evidence[-1] == record.events[-1].seq


def test_asking_again_whether_something_is_done_is_no_loop() -> None:
    record = Record()
    for _ in range(30):
        record.call("write_stdin", {"session_id": 1, "chars": ""})
    assert _fold(record) == []


def test_the_same_call_after_a_change_is_another_call() -> None:
    record = Record()
    for number in range(20):
        record.shell("python -m pytest -q", result="3 passed")
        record.change("a.py", f"version {number}")
    assert _fold(record) == []


def test_a_change_that_is_taken_back_is_no_change() -> None:
    record = Record()
    for number in range(30):
        record.change("a.py", "one" if number % 2 else "two")
    trees = {record.tree_digest(index) for index in range(30)}
    assert len(trees) == 2


def test_the_same_package_again_and_again_ends_the_run() -> None:
    record = Record()
    for number in range(10):
        record.shell(f"pip install requests==2.{number}")
    found = [each for each in _fold(record) if each.rule == "dependency-reinstalls"]
    assert [each.action for each in found] == [None, "terminate"]
    assert _ends(found) == [("dependency-reinstalls", "resource")]


@pytest.mark.parametrize(
    "commands",
    [
        ("npm i @a/b@1", "npm install @a/b@2", "npm add @a/b"),
        (
            "pip install -r r.txt",
            "pip install -r s.txt -i http://127.0.0.1/",
            "python -m pip install -r r.txt",
        ),
        ("sudo apt-get install -y jq", "apt-get install jq", "apt install jq"),
        ("uv pip install 'Foo_Bar[x]>=2'", "pip install foo-bar", "poetry add foo_bar==1"),
        ("npm ci", "npm ci", "npm ci"),
    ],
)
def test_a_package_is_the_same_in_every_spelling(commands: tuple[str, ...]) -> None:
    record = Record()
    for command in commands:
        record.shell(command)
    assert [each.rule for each in _fold(record)] == ["dependency-reinstalls"]


@pytest.mark.parametrize("start", [Record.program, Record.program_of_the_first_release])
def test_installs_that_only_the_witness_sees_count_once(start: Callable[..., int]) -> None:
    record = Record()
    for _ in range(10):
        start(record, "/bin/sh", "-c", "pip install requests")
        start(record, "/usr/bin/pip", "install", "requests")
    found = [each for each in _fold(record) if each.rule == "dependency-reinstalls"]
    assert [each.signals[0].value for each in found] == [3, 6]


def test_installs_seen_twice_count_once() -> None:
    record = Record()
    for _ in range(2):
        record.shell("pip install requests")
        record.program("/usr/bin/pip", "install", "requests")
    assert _fold(record) == []


def test_many_resolutions_of_different_packages_end_the_run() -> None:
    record = Record()
    for number in range(40):
        record.shell(f"npm install left-pad-{number}")
    found = [each for each in _fold(record) if each.rule == "dependency-resolutions"]
    assert [each.signals[0].value for each in found] == [20, 40]
    assert _ends(found) == [("dependency-resolutions", "resource")]


def test_two_bad_patches_in_turns_end_the_run() -> None:
    record = Record()
    for content in ("one", "two", "one", "two"):
        record.change("a.py", content)
        record.shell("pytest -q", result="1 failed, 3 passed in 0.2s")
    found = [each for each in _fold(record) if each.rule == "oscillation"]
    assert [each.action for each in found] == [None, "terminate"]
    assert _ends(found) == [("oscillation", "resource")]


def test_going_back_to_a_tree_without_a_failure_between_is_no_oscillation() -> None:
    record = Record()
    for content in ("one", "two", "one", "two", "one"):
        record.change("a.py", content)
    record.shell("pytest -q", result="1 failed")
    assert _fold(record) == []


def test_a_pass_between_is_no_oscillation() -> None:
    record = Record()
    for content in ("one", "two", "one", "two"):
        record.change("a.py", content)
        record.shell("pytest -q", result="1 failed" if content == "one" else "4 passed")
    assert [each.rule for each in _fold(record)] == []


def test_repeated_failures_suspend_writing_and_then_set_back_to_what_passed() -> None:
    record = Record()
    good = record.change("a.py", "good")
    record.shell("pytest", exit_status=Exited(code=0))
    for number in range(16):
        record.change("a.py", f"bad {number}")
        record.shell("pytest", exit_status=Exited(code=1))
    found = [each for each in _fold(record) if each.rule == "repeated-failures"]
    assert [each.action for each in found] == ["suspend-writes", "roll-back"]
    assert found[1].restore == good


def test_running_failing_checks_twice_on_one_tree_is_one_attempt() -> None:
    record = Record()
    for number in range(8):
        record.change("a.py", f"bad {number}")
        record.shell("pytest", exit_status=Exited(code=1))
        record.shell("pytest -x", exit_status=Exited(code=1))
    assert [each.rule for each in _fold(record)] == []


def _parse_version(version: int) -> Thresholds:
    text = read_thresholds().decode().replace("\nrules = 3 ", f"\nrules = {version} ")
    return parse_thresholds(text.encode())


@pytest.mark.parametrize(("version", "ends"), [(1, []), (2, [("failed-check-cap", "resource")])])
def test_failing_checks_with_passing_ones_between_count_from_the_second_version_on(
    version: int, ends: list[tuple[str, str]]
) -> None:
    limits = Limits(wall_seconds=3600, command_seconds=3600, failed_check_cycles=3)
    record = Record()
    for number in range(3):
        record.change("a", f"bad {number}")
        record.shell("pytest", result="1 failed in 0.1s")
        record.change("a", f"good {number}")
        record.shell("pytest", result="1 passed in 0.1s")
    state = BreakerState(build_settings(limits, _parse_version(version)))
    assert _ends([decision for event in record.events for decision in decide(state, event)]) == ends
    assert state.failed_checks == 3


def test_a_model_that_only_talks_is_an_alert_then_the_end() -> None:
    record = Record()
    for _ in range(20):
        record.response(tokens=10, tool_calls=0)
    found = _fold(record)
    assert [(each.rule, each.signals[0].value, each.action) for each in found] == [
        ("turns-without-calls", 5, None),
        ("turns-without-calls", 15, "terminate"),
    ]
    assert _ends(found) == [("turns-without-calls", "resource")]


def test_a_model_that_talks_between_calls_is_left_alone() -> None:
    record = Record()
    for _ in range(10):
        for _ in range(4):
            record.response(tokens=10, tool_calls=0)
        record.response(tokens=10, tool_calls=2)
    assert _fold(record) == []


def test_answers_that_were_offered_no_tools_are_no_turns_without_calls() -> None:
    record = Record()
    for _ in range(40):
        record.response(tokens=10, tool_calls=None)
    assert _fold(record) == []


def _run_tests(record: Record, programs: Programs, code: int, words: str) -> None:
    since_us = record.now_us
    shell = programs.start("bash", "-lc", "pytest -q | tail -3")
    test = programs.start("pytest", "-q", parent=shell)
    programs.end(test, code)
    programs.end(shell, 0)
    record.shell("pytest -q | tail -3", result=words, since_us=since_us)


@pytest.mark.parametrize(("version", "failed"), [(1, 0), (2, 3)])
def test_checks_behind_a_pipe_are_judged_by_their_own_program(version: int, failed: int) -> None:
    """The pipe's exit status is that of `tail`, and the words that reach the model say nothing."""
    record = Record()
    programs = Programs(record.add, now=lambda: record.now_us)
    programs.start("agent")
    for number in range(3):
        record.change("a", str(number))
        _run_tests(record, programs, 1, "see above")
    state = BreakerState(build_settings(LIMITS, _parse_version(version)))
    for event in record.events:
        decide(state, event)
    assert state.failed_checks == failed


def test_words_of_a_failure_do_not_count_where_the_test_program_passed() -> None:
    record = Record()
    programs = Programs(record.add, now=lambda: record.now_us)
    programs.start("agent")
    _run_tests(record, programs, 0, "1 failed in 0.1s")
    state = BreakerState(build_settings(LIMITS))
    for event in record.events:
        decide(state, event)
    assert state.failed_checks == 0


def test_the_cap_on_failed_check_cycles_ends_the_run() -> None:
    limits = Limits(wall_seconds=3600, command_seconds=3600, failed_check_cycles=3)
    record = Record()
    for number in range(4):
        record.change("a.py", f"{number}")
        record.shell("npm test", result="# fail 2")
    assert _ends(_fold(record, limits)) == [("failed-check-cap", "resource")]


def test_a_mass_deletion_is_set_back() -> None:
    record = Record()
    before = record.change("a.py", "x")
    record.delete(*(f"f{number}" for number in range(200)))
    (decision,) = _fold(record)
    assert (decision.rule, decision.action, decision.restore) == ("mass-deletion", "roll-back", before)


def test_a_prohibited_command_sets_the_workspace_aside_and_ends_the_run_for_safety() -> None:
    record = Record()
    alert = record.policy("destructive-delete", "critical", "command")
    quarantine, end = _fold(record)
    assert (quarantine.action, quarantine.alert, end.action, end.alert) == (
        "quarantine",
        alert,
        "terminate",
        alert,
    )
    assert _ends([end]) == [("prohibited-operation", "safety")]


@pytest.mark.parametrize(("severity", "form"), [("warning", "natural-language"), ("warning", "code")])
def test_a_mention_in_prose_or_code_ends_nothing(severity: str, form: str) -> None:
    record = Record()
    for _ in range(50):
        record.policy("destructive-delete", severity, form)
    assert _fold(record) == []


def test_suspicious_commands_stop_the_run_for_a_person_where_that_is_asked_for() -> None:
    data = _edit("pause_after = 0", "pause_after = 3")
    record = Record()
    for _ in range(6):
        record.policy("git-history", "warning", "command")
    assert [each.action for each in _fold(record, thresholds=parse_thresholds(data))] == ["pause", "pause"]
    assert _fold(record) == []


def test_refused_system_calls_end_the_run_only_in_numbers() -> None:
    record = Record()
    for _ in range(100):
        record.alert("system-calls", "prohibited-call", "warning")
    (decision,) = _fold(record)
    assert _ends([decision]) == [("prohibited-operation", "safety")]
    assert decision.alert is None


def test_a_budget_alert_ends_the_run_on_its_own_signals() -> None:
    record = Record()
    signal = Signal(name="spent_usd", value="5.01", threshold="5")
    alert = record.alert("budget", "cost-cap", "critical", signal)
    (decision,) = _fold(record)
    assert (decision.alert, decision.signals) == (alert, (signal,))
    assert _ends([decision]) == [("cost-cap", "resource")]


def test_a_budget_spent_without_milestones_ends_the_run() -> None:
    record = Record()
    for number in range(9):
        record.response(tokens=90_000)
        record.shell(f"cat f{number}")
    (decision,) = _fold(record)
    assert decision.signals == (Signal(name="tokens_since_milestone", value=810_000, threshold=800_000),)
    assert _ends([decision]) == [("dominance", "resource")]


def test_cost_without_milestones_ends_the_run_as_well() -> None:
    record = Record()
    record.response(tokens=10, cost_usd="2.5")
    record.response(tokens=10, cost_usd="1.6")
    record.response(tokens=10, cost_usd="1")
    assert _ends(_fold(record, Limits())) == [("dominance", "resource"), ("cost-cap", "resource")]


def test_milestones_give_more_room() -> None:
    record = Record()
    for number in range(6):
        record.response(tokens=90_000)
        record.shell(f"cat f{number}")
    record.change("a.py", "x")
    record.shell("pytest", result="3 passed")
    record.response(tokens=300_000)
    assert _fold(record) == []


def _write_again_and_again(record: Record, *, with_tests: bool) -> None:
    for number in range(9):
        record.response(tokens=100_000)
        record.change("a.py", f"version {number}")
        if with_tests:
            record.shell("pytest", result="3 passed")


@pytest.mark.parametrize(("version", "ends"), [(2, []), (3, [("dominance", "resource")])])
@pytest.mark.parametrize("with_tests", [False, True])
def test_a_file_written_again_and_again_is_no_milestone_from_the_third_version_on(
    version: int, ends: list[tuple[str, str]], *, with_tests: bool
) -> None:
    """B15: neither a new tree nor a check that passed before."""
    record = Record()
    record.change("a.py", "first")
    record.shell("pytest", result="3 passed")
    _write_again_and_again(record, with_tests=with_tests)
    assert _ends(_fold(record, thresholds=_parse_version(version))) == ends


def test_a_check_that_fails_and_passes_again_is_a_milestone() -> None:
    record = Record()
    for number in range(4):
        record.change("a.py", f"version {number}")
        record.response(tokens=120_000)
        record.shell("pytest", result="1 failed in 0.1s")
        record.change("a.py", f"mended {number}")
        record.response(tokens=120_000)
        record.shell("pytest", result="3 passed")
    assert _ends(_fold(record)) == []


@pytest.mark.parametrize(
    ("version", "calls", "ends"),
    [(2, 5, 0), (2, 6, 1), (3, 6, 0), (3, 7, 1)],
)
def test_a_cap_on_calls_may_be_reached_from_the_third_version_on(version: int, calls: int, ends: int) -> None:
    """B2: `tool_calls = 6` with six calls passes."""
    record = Record()
    for number in range(calls):
        record.shell(f"cat f{number}")
    found = _fold(record, Limits(tool_calls=6), _parse_version(version))
    assert _ends(found) == [("tool-call-cap", "resource")] * ends


@pytest.mark.parametrize(("version", "failures", "ends"), [(2, 3, 1), (3, 3, 0), (3, 4, 1)])
def test_a_cap_on_failing_checks_may_be_reached_from_the_third_version_on(
    version: int, failures: int, ends: int
) -> None:
    record = Record()
    for number in range(failures):
        record.change("a.py", f"version {number}")
        record.shell("pytest", result="1 failed in 0.1s")
    found = _fold(record, Limits(failed_check_cycles=3), _parse_version(version))
    assert _ends(found) == [("failed-check-cap", "resource")] * ends


def test_tool_calls_beyond_their_rate_wait_until_the_minute_is_over() -> None:
    """Q12: the limit is filled, and one call more has to wait."""
    record = Record()
    for number in range(10):
        record.shell(f"cat f{number}", after_us=1_000_000)
    limits = Limits(tool_calls_per_minute=9)
    (decision,) = _fold(record, limits)
    assert (decision.rule, decision.action) == ("tool-call-rate", "throttle")
    assert decision.signals == (Signal(name="tool_calls_per_minute", value=10, threshold=9),)
    span_us = record.events[-1].t - _find_begin(record, decision)
    assert decision.wait_us == 60_000_000 - span_us
    assert _fold(record, limits, _parse_version(2)) == []


def _find_begin(record: Record, decision: Decision) -> int:
    """When the first event of its evidence happened."""
    return next(event.t for event in record.events if event.seq == decision.evidence[0])


def test_tool_calls_within_their_rate_do_not_wait() -> None:
    record = Record()
    for number in range(40):
        record.shell(f"cat f{number}", after_us=10_000_000)
    assert _fold(record, Limits(tool_calls_per_minute=9)) == []


def test_the_token_cap_and_the_run_ceiling_end_the_run_once() -> None:
    record = Record()
    record.change("a.py", "x")
    for _ in range(3):
        record.response(tokens=500_000, after_us=1)
        record.change("a.py", str(len(record.events)))
        record.shell(f"pytest tests/{len(record.events)}", exit_status=Exited(code=0))
    assert _ends(_fold(record)) == [("token-cap", "resource")]
    late = Record()
    late.response(tokens=1, after_us=HOUR_US)
    late.response(tokens=1)
    (end,) = [each for each in _fold(late) if each.rule == "wall-time"]
    assert end.ending is not None
    assert (end.ending.category, end.ending.nature) == ("run-timeout", "resource")


def test_calls_that_change_nothing_are_counted() -> None:
    record = Record()
    for number in range(240):
        record.shell(f"cat file{number}.py", after_us=1_000_000)
    assert [(each.rule, each.action) for each in _fold(record)] == [
        ("no-progress", None),
        ("no-progress", "terminate"),
    ]


def test_commands_beyond_the_ceiling_end_the_run_when_they_repeat() -> None:
    record = Record()
    for number in range(3):
        record.shell(f"sleep {number}", exit_status=TimedOut(ceiling_us=600_000_000), wall_us=600_000_001)
    assert [(each.rule, each.action) for each in _fold(record) if each.rule == "command-ceiling"] == [
        ("command-ceiling", None),
        ("command-ceiling", None),
        ("command-ceiling", "terminate"),
    ]


def test_bursts_of_calls_wait_longer_each_time() -> None:
    record = Record()
    for number in range(180):
        record.shell(f"cat {number}", after_us=1_000)
    found = [each for each in _fold(record) if each.rule == "burst"]
    assert [each.wait_us for each in found] == [1_000_000, 2_000_000, 4_000_000]


def test_expensive_commands_without_a_change_wait() -> None:
    record = Record()
    for _ in range(4):
        record.shell("make -j2", wall_us=90_000_000)
    found = [each for each in _fold(record) if each.rule == "expensive-repeats"]
    assert [each.action for each in found] == ["throttle", "throttle"]


def test_expensive_commands_after_a_change_do_not_wait() -> None:
    record = Record()
    for number in range(4):
        record.change("a.py", f"version {number}")
        record.shell("make -j2", wall_us=90_000_000)
    assert [each for each in _fold(record) if each.rule == "expensive-repeats"] == []


def test_floods_of_output_are_alerts_and_then_the_end() -> None:
    record = Record()
    for number in range(16):
        record.shell(f"cat {number}", result_bytes=16 * 1024**2)
    found = [each for each in _fold(record) if each.rule == "output-flood"]
    assert [each.action for each in found] == [*[None] * 15, "terminate"]


def test_a_long_silence_is_an_alert() -> None:
    record = Record()
    record.response(tokens=1)
    record.response(tokens=1, after_us=901_000_000)
    assert [each.rule for each in _fold(record)] == ["silence"]


def test_nothing_is_decided_outside_the_agents_time() -> None:
    record = Record(phase="set-up")
    for _ in range(30):
        record.shell("pip install x")
    assert _fold(record) == []


def test_the_whole_programs_own_record_is_no_call_of_a_tool() -> None:
    record = Record()
    record.program_end("agent", wall_us=HOUR_US)
    assert _fold(record) == []


def test_a_run_that_did_as_the_rules_say_agrees_when_it_is_computed_again() -> None:
    record = Record()
    for number in range(10):
        record.shell("pip install requests", description=str(number))
    honest = record.conduct(LIMITS)
    found = recompute_decisions(honest, SETTINGS)
    assert found
    assert all(each.is_agreed for each in found)
    assert [each.rule for each in found if each.status == "agrees"] == [
        "dependency-reinstalls",
        "identical-calls",
        "dependency-reinstalls",
    ]


_STEPS = st.sampled_from(
    [
        "ls",
        "pytest-fails",
        "pytest-passes",
        "install",
        "one",
        "two",
        "tokens",
        "probe",
        "slow",
        "delete",
        "attack",
    ]
)


def _take_step(record: Record, step: str) -> None:
    match step:
        case "pytest-fails":
            record.shell("pytest", result="1 failed")
        case "pytest-passes":
            record.shell("pytest", result="2 passed")
        case "install":
            record.shell("pip install x y")
        case "one" | "two":
            record.change("a.py", step)
        case "tokens":
            record.response(tokens=50_000)
        case "probe":
            record.alert("system-calls", "prohibited-call", "warning")
        case "slow":
            record.shell("make", wall_us=61_000_000)
        case "delete":
            record.delete(*(f"f{number}" for number in range(250)))
        case "attack":
            record.policy("exfiltration", "critical", "command")
        case _:
            record.shell(step)


@given(st.lists(_STEPS, max_size=60))
@hypothesis_settings(max_examples=60, deadline=None)
def test_whatever_happens_the_live_decisions_and_the_recomputed_ones_agree(steps: list[str]) -> None:
    record = Record()
    for step in steps:
        _take_step(record, step)
    found = recompute_decisions(record.conduct(LIMITS), SETTINGS)
    assert [each for each in found if not each.is_agreed] == []


def test_quarantine_and_end_on_one_alert_agree() -> None:
    record = Record()
    alert = record.policy("exfiltration", "critical", "command")
    record.add(Intervention(action=Quarantine(), basis=OnAlert(alert=alert), effective=True), actor="harness")
    record.add(Intervention(action=Terminate(), basis=OnAlert(alert=alert), effective=True), actor="harness")
    assert [each.status for each in recompute_decisions(record.events, SETTINGS)] == ["agrees", "agrees"]


def test_what_the_rules_say_after_a_person_has_ended_the_run_need_not_be_done() -> None:
    thresholds = parse_thresholds(_edit("pause_after = 0", "pause_after = 1"))
    record = Record()
    record.policy("git-history", "warning", "command")
    for number in range(3):
        record.shell("pip install requests", description=str(number))
    (pause, later) = _fold(record, thresholds=thresholds)
    asked = record.add(pause.build_alert(), actor="monitor")
    waiting = record.add(
        Intervention(action=Pause(), basis=OnAlert(alert=asked), effective=True), actor="harness"
    )
    why = Justification(reason="abort", text="no")
    record.add(
        OperatorDecision(operator="o", decision="abort", answers=waiting, justification=why), actor="operator"
    )
    statuses = [
        each.status for each in recompute_decisions(record.events, build_settings(LIMITS, thresholds))
    ]
    assert statuses == ["agrees", "after-end"]
    assert later.rule == "dependency-reinstalls"


def _drop(events: list[Event], kind: type) -> list[Event]:
    index = next(place for place, event in enumerate(events) if isinstance(event.payload, kind))
    return events[:index] + events[index + 1 :]


def test_an_alert_that_is_missing_is_named() -> None:
    record = Record()
    for number in range(4):
        record.shell("pip install requests", description=str(number))
    statuses = [
        each.status for each in recompute_decisions(_drop(record.conduct(LIMITS), MonitorAlert), SETTINGS)
    ]
    assert statuses == ["alert-missing"]


def test_an_intervention_that_is_missing_is_named() -> None:
    record = Record()
    for number in range(8):
        record.shell("ls", description=str(number))
    events = _drop(record.conduct(LIMITS), Intervention)
    statuses = [each.status for each in recompute_decisions(events, SETTINGS)]
    assert "intervention-missing" in statuses


def test_an_alert_and_an_intervention_that_no_rule_explains_are_named() -> None:
    record = Record()
    record.shell("ls")
    alert = record.alert("breakers", "identical-calls", "critical")
    record.add(Intervention(action=Terminate(), basis=OnAlert(alert=alert), effective=True), actor="harness")
    statuses = {each.status for each in recompute_decisions(record.events, SETTINGS)}
    assert statuses == {"alert-extra", "intervention-extra"}


def test_an_alert_with_another_value_is_both_missing_and_extra() -> None:
    record = Record()
    for number in range(3):
        record.shell("pip install requests", description=str(number))
    signal = Signal(name="installs_of_one_package", value=9, threshold=3)
    record.alert("breakers", "dependency-reinstalls", "warning", signal)
    statuses = [each.status for each in recompute_decisions(record.events, SETTINGS)]
    assert statuses == ["alert-missing", "alert-extra"]


def test_bodies_that_are_kept_elsewhere_are_read_by_the_given_reader() -> None:
    record = Record()
    for number in range(6):
        record.blob_shell(f"pip install requests=={number}")
    assert _fold(record) == []
    state = BreakerState(SETTINGS, read=record.read)
    found = [decision for event in record.events for decision in decide(state, event)]
    assert [each.rule for each in found] == ["dependency-reinstalls", "dependency-reinstalls"]


def test_a_segment_names_its_form() -> None:
    segment = Segment(format="command", body=build_body("rm -rf ~"), event=0)
    assert segment.format == "command"


def test_thresholds_have_a_digest_and_a_recorded_first_change() -> None:
    thresholds = parse_thresholds(read_thresholds())
    assert thresholds.digest.startswith("sha256:")
    assert thresholds.changes[0].what == "first values"
    other = parse_thresholds(_edit("percent = 80", "percent = 90"))
    assert other.digest != thresholds.digest
    assert other.dominance.percent == 90


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("percent = 80", "percent = 180"),
        ("percent = 80", "percentage = 80"),
        ("alert_after = 5", "alert_after = -5"),
        ('schema = "repotrial/thresholds@1"', 'schema = "repotrial/thresholds@9"'),
        ("\n[[changes]]", "\n[[history]]"),
        ("[burst]", "[burst"),
    ],
)
def test_thresholds_that_mean_nothing_are_refused(before: str, after: str) -> None:
    with raises_code("thresholds-invalid"):
        parse_thresholds(_edit(before, after))


def _edit(before: str, after: str) -> bytes:
    from importlib.resources import files

    text = files("repotrial.policy").joinpath("_data", "thresholds.toml").read_text("utf-8")
    assert before in text
    return text.replace(before, after, 1).encode()


def test_a_contracts_limits_become_caps() -> None:
    settings = build_settings(Limits(tokens=7, tool_calls=3))
    assert (settings.caps.wall_us, settings.caps.command_us) == (1_800_000_000, 600_000_000)
    assert (settings.caps.tokens, settings.caps.tool_calls) == (7, 3)
    assert settings.caps.cost_micro_usd == 5_000_000


def test_the_cap_on_tool_calls_ends_the_run() -> None:
    record = Record()
    for number in range(4):
        record.change("a.py", str(number))
        record.shell(f"cat {number}")
    assert _ends(_fold(record, Limits(tool_calls=3)))[0] == ("tool-call-cap", "resource")


def test_a_trace_of_a_threshold_of_zero_decides_nothing() -> None:
    text = _edit("percent = 80", "percent = 0").decode()
    lines = [
        line.partition("=")[0] + "= 0" if "_after" in line.partition("#")[0] and "=" in line else line
        for line in text.splitlines()
    ]
    thresholds = parse_thresholds("\n".join(lines).encode())
    record = Record()
    for number in range(30):
        record.shell("pip install x", note=str(number), after_us=1_000_000)
        record.policy("destructive-delete", "critical", "command")
    assert _fold(record, thresholds=thresholds) == []
