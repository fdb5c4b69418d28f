"""From Setup to seal on record: what real runs leave of every command of the harness (C5, P14, Q8)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from repotrial import api
from repotrial._core.digest import digest_bytes
from repotrial._core.words import Level
from repotrial.contract import load_contract
from repotrial.environment import InstallationSettings, open_installation
from repotrial.report import build_run_page
from repotrial.run import ReferenceAgent, RunEnded, ScriptAgent, conduct_run
from repotrial.score import ScoreCard, StreamPointer, build_score_card, load_evidence
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    BuildCheck,
    DrawRevealed,
    EndCommand,
    Event,
    Exited,
    HarnessExecution,
    Intervention,
    MonitorAlert,
    MonitorReport,
    OnAlert,
    StaticCheck,
    TimedOut,
    check_run,
    iter_events,
)
from support.command_line import call
from support.greetings import SAY, build_request, make_say_contract
from support.harness import require_sandboxes
from support.workspaces import scratch

_CHECKS = """
[[checks]]
id = "built"
gate = "build"
judge = "out-of-process"
baseline = "pass"
run = "echo building; echo careful >&2; echo object > built.o; echo more >> README"
timeout_seconds = 60

[[checks.runners]]
run = "echo linking; exit 0"

[[checks]]
id = "linted"
gate = "build"
layer = "static"
judge = "out-of-process"
baseline = "pass"
run = "test ! -e bad.txt"
timeout_seconds = 60

[[checks]]
id = "suite"
gate = "acceptance"
judge = "out-of-process"
baseline = "pass"
run = "echo first; echo kept > $REPOTRIAL_RESULTS/notes.txt; test ! -e bad.txt"
timeout_seconds = 60

[[checks.runners]]
run = "[ ! -e slow.txt ] || sleep 600; [ ! -e tool.txt ] || missing-tool; echo second; test ! -e tool.txt"

[policy]"""
_EXAMPLES = Path(__file__).parents[2] / "examples" / "contracts"
_HONEST = "echo hello > said.txt\n"


class Room:
    """One contract with a check of two commands, and runs on it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        text = SAY.replace("\n[policy]", _CHECKS, 1).replace(
            '$REPOTRIAL_RESULTS/notes.txt; test ! -e bad.txt"\ntimeout_seconds = 60',
            '$REPOTRIAL_RESULTS/notes.txt; test ! -e bad.txt"\ntimeout_seconds = 5',
        )
        self._loaded = make_say_contract(root / "contract", text)
        self._settings = InstallationSettings(cache=root / "cache", home=root, variables={})

    @property
    def level(self) -> Level:
        with open_installation(self._loaded, self._settings) as installation:
            return installation.level

    def conduct(self, script: str) -> RunEnded:
        with open_installation(self._loaded, self._settings) as installation:
            agent = ScriptAgent(script=script.encode())
            return conduct_run(*build_request(self._loaded, agent, installation, self._root / "runs"))


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    require_sandboxes()
    with scratch() as root:
        yield Room(root)


@pytest.fixture(scope="module")
def honest(room: Room) -> RunEnded:
    return room.conduct(_HONEST)


def _list_events(run: RunEnded) -> list[Event]:
    return list(iter_events(run.paths.trace))


def _find_check(run: RunEnded, check_id: str) -> AcceptanceExecution | BuildCheck | StaticCheck:
    (found,) = (
        event.payload
        for event in _list_events(run)
        if isinstance(event.payload, AcceptanceExecution | BuildCheck | StaticCheck)
        and (event.payload.check_id, event.payload.subject) == (check_id, "candidate")
    )
    return found


def _judge(run: RunEnded) -> ScoreCard:
    return build_score_card(load_evidence(run.paths.root))


def test_an_honest_run_holds_and_passes(honest: RunEnded) -> None:
    found = check_run(honest.paths, trusted_keys=None)
    assert found.seal_report.is_intact
    assert [gate.outcome for gate in _judge(honest).gates] == ["passed"] * 4


@pytest.mark.parametrize(
    ("check_id", "kind", "said"),
    [
        ("built", BuildCheck, [(b"building\n", b"careful\n"), (b"linking\n", b"")]),
        ("linted", StaticCheck, [(b"", b"")]),
        ("suite", AcceptanceExecution, [(b"first\n", b""), (b"second\n", b"")]),
    ],
)
def test_every_runner_of_a_check_has_its_evidence(
    honest: RunEnded, check_id: str, kind: type, said: list[tuple[bytes, bytes]]
) -> None:
    event = _find_check(honest, check_id)
    assert type(event) is kind
    blobs = BlobStore(honest.paths.blobs)
    found = [(each.stdout.load(blobs).data, each.stderr.load(blobs).data) for each in event.runners]
    assert found == said
    assert all(each.exit == Exited(code=0) for each in event.runners)
    assert all(each.started_at_us <= each.ended_at_us for each in event.runners)
    starts = [each.started_at_us for each in event.runners]
    assert starts == sorted(starts)
    assert event.started_at_us <= starts[0]
    assert all(each.ceiling_us in (5_000_000, 60_000_000) for each in event.runners)


def test_each_command_of_a_check_has_the_files_that_it_changed(honest: RunEnded) -> None:
    first, second = _find_check(honest, "built").runners
    assert first.changed is not None
    assert second.changed is not None
    made = [each for each in first.changed.entries if each.path == "built.o"]
    assert [(each.before, each.after) for each in made] == [(None, digest_bytes(b"object\n"))]
    (grown,) = [each for each in first.changed.entries if each.path == "README"]
    assert grown.before != grown.after
    assert (first.changed.count, len(first.changed.entries)) == (2, 2)
    assert (second.changed.count, second.changed.entries) == (0, ())


def test_monitors_report_when_and_over_which_commands_they_watched(honest: RunEnded) -> None:
    reports = [event.payload for event in _list_events(honest) if isinstance(event.payload, MonitorReport)]
    ends = {each.check_id: each for each in reports if each.moment == "end"}
    assert {None, "built", "linted", "suite"} <= ends.keys()
    assert [watched.exit for watched in ends[None].commands] == [Exited(code=0)]
    suite = _find_check(honest, "suite")
    assert [(watched.command, watched.exit) for watched in ends["suite"].commands] == [
        (runner.command, runner.exit) for runner in suite.runners
    ]
    for end in ends.values():
        assert end.started_at_us is not None
        assert end.ended_at_us is not None
        assert end.started_at_us <= end.ended_at_us
    assert (ends["suite"].ended_at_us or 0) >= suite.runners[-1].ended_at_us


def test_the_run_directory_has_results_and_logs_of_each_check(honest: RunEnded) -> None:
    folder = honest.paths.acceptance / "suite" / "candidate-plain-1"
    assert (folder / "1.stdout").read_text() == "first\n"
    assert (folder / "2.stdout").read_text() == "second\n"
    assert (folder / "results" / "notes.txt").read_text() == "kept\n"
    assert not (folder / "1.stderr").exists()
    (folder / "1.stdout").write_text("other\n")
    assert not check_run(honest.paths, trusted_keys=None).seal_report.is_intact
    (folder / "1.stdout").write_text("first\n")


def test_a_runner_that_failed_is_told_apart_from_one_that_did_not(room: Room) -> None:
    run = room.conduct(f"{_HONEST}touch bad.txt\n")
    event = _find_check(run, "suite")
    assert [each.exit for each in event.runners] == [Exited(code=1), Exited(code=0)]
    assert [gate.outcome for gate in _judge(run).gates] == ["passed", "failed", "failed", "passed"]


def test_the_lines_that_say_why_are_opened_by_the_verdict_and_the_page(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    run = room.conduct(_HONEST + "echo x > bad.txt\n")
    (failed,) = [gate for gate in _judge(run).gates if gate.gate == "G3"]
    pointers = [pointer for pointer in failed.evidence if isinstance(pointer, StreamPointer)]
    check = _find_check(run, "suite")
    blobs = BlobStore(run.paths.blobs)
    printed = [runner.stdout.load(blobs).data for runner in check.runners]
    assert [
        printed[p.runner - 1][p.offset_bytes :][: p.length_bytes] for p in pointers if p.stream == "stdout"
    ] == [b"first"]
    shown = call(capsys, "run", "show", run.paths.root, "--lines").out
    page = build_run_page(run.paths.root)
    for pointer in pointers:
        end = pointer.offset_bytes + pointer.length_bytes
        assert f"event {pointer.seq}, {pointer.stream}, bytes {pointer.offset_bytes}-{end}" in shown
    assert "      | first" in shown
    assert ">first</pre>" in page
    assert ">first</pre>" not in build_run_page(run.paths.root, is_shared=True)


def test_a_missing_command_in_acceptance_is_evidence_of_the_build_gate(room: Room) -> None:
    run = room.conduct(f"{_HONEST}touch tool.txt\n")
    build = _judge(run).gates[1]
    assert build.outcome == "passed"
    names = [
        each for pointer in build.evidence if isinstance(pointer, StreamPointer) for each in pointer.missing
    ]
    assert [(each.kind, each.name) for each in names] == [("command", "missing-tool")]


def test_a_check_that_was_ended_for_time_leaves_alert_and_intervention(room: Room) -> None:
    run = room.conduct(f"{_HONEST}touch slow.txt\n")
    event = _find_check(run, "suite")
    assert [each.cause for each in event.runners] == ["ended", "timeout"]
    late = event.runners[1].exit
    assert isinstance(late, TimedOut)
    assert late.ceiling_us == 5_000_000 <= (late.observed_us or 0)
    events = _list_events(run)
    ((place, alert),) = (
        (each.seq, each.payload)
        for each in events
        if isinstance(each.payload, MonitorAlert) and each.payload.rule == "wall-time"
    )
    assert (alert.monitor, alert.phase) == ("resources", "accept")
    ceilings = {signal.name: signal.threshold for signal in alert.signals}
    assert ceilings["wall_us"] == 5_000_000
    answers = [each.payload for each in events if isinstance(each.payload, Intervention)]
    assert [(each.action, each.basis) for each in answers] == [(EndCommand(), OnAlert(alert=place))]
    gates = [gate.outcome for gate in _judge(run).gates]
    assert gates[3] == "passed"
    assert gates[2] == "errored"


_SETUP = """
[[setup]]
id = "prepare"
run = "echo preparing; mkdir made; echo made > made/file"
outputs = ["made"]

[[setup]]
run = "echo done >&2"

[[checks]]
id = "said\""""


def _list_executions(run: RunEnded, purpose: str) -> list[HarnessExecution]:
    found = [each.payload for each in _list_events(run)]
    return [each for each in found if isinstance(each, HarnessExecution) and each.purpose == purpose]


def _conduct_with_setup(root: Path, level: Level, *, step: str, runs: str) -> RunEnded:
    text = SAY.replace('\n[[checks]]\nid = "said"', _SETUP.replace("echo done >&2", step), 1)
    loaded = make_say_contract(root / "contract", text)
    settings = InstallationSettings(cache=root / "cache", home=root, variables={})
    agent = ScriptAgent(script=_HONEST.encode())
    return conduct_run(*build_request(loaded, agent, level, root / runs, settings=settings))


def test_setup_is_on_record_and_a_cached_one_says_when_it_ran(room: Room) -> None:
    with scratch() as root:
        runs = [_conduct_with_setup(root, room.level, step="echo done >&2", runs=name) for name in ("a", "b")]
        first, second = (_list_executions(run, "set-up") for run in runs)
        assert [(each.name, each.step, each.reused) for each in first] == [
            ("prepare", 0, False),
            ("step 2", 1, False),
        ]
        blobs = BlobStore(runs[0].paths.blobs)
        assert first[0].stdout.load(blobs).data == b"preparing\n"
        assert first[1].stderr.load(blobs).data == b"done\n"
        assert all(each.exit == Exited(code=0) for each in first)
        assert [(each.name, each.reused) for each in second] == [(each.name, True) for each in first]
        assert [each.started_at_us for each in second] == [each.started_at_us for each in first]
        events = _list_events(runs[0])
        assert [event.type for event in events[:3]] == ["run-opened", "phase-changed", "manifest-bound"]
        assert events[0].t <= first[0].started_at_us
        assert _list_executions(runs[0], "provision")
        for run in runs:
            assert [gate.outcome for gate in _judge(run).gates] == ["passed"] * 4


def test_a_setup_that_fails_is_on_record_with_what_it_printed(room: Room) -> None:
    with scratch() as root:
        run = _conduct_with_setup(root, room.level, step="echo no >&2; exit 3", runs="runs")
        assert run.fault is not None
        (_, failed) = _list_executions(run, "set-up")
        assert failed.exit == Exited(code=3)
        assert failed.stderr.load(BlobStore(run.paths.blobs)).data == b"no\n"


def test_a_run_is_judged_again_from_its_record_alone_twins_included(room: Room) -> None:
    loaded = load_contract(_EXAMPLES / "tillbook-state")
    with scratch() as root:
        settings = InstallationSettings(
            cache=root / "cache", home=root, variables={"PATH": os.environ["PATH"]}
        )
        request = build_request(loaded, ReferenceAgent(), room.level, root / "runs", settings=settings)
        run = conduct_run(*request)
        draws = [e.payload for e in _list_events(run) if isinstance(e.payload, DrawRevealed)]
        assert {draw.check_id for draw in draws} == {"unit", "regression"}
        assert all(draw.twins is not None and draw.inventory is not None for draw in draws)
        last_check = max(
            e.seq for e in _list_events(run) if isinstance(e.payload, AcceptanceExecution | BuildCheck)
        )
        revealed = [e.seq for e in _list_events(run) if isinstance(e.payload, DrawRevealed)]
        assert min(revealed) > last_check, "a draw is told after judging"
        found = api.rejudge_run(run.paths.root, None)
        assert (found.recorded, found.rejudged) == ("success", "success")
        assert found.verdict.executions == (), "every execution was judged, and none came out otherwise"
