"""`repotrial run start`: agents on a contract, for real."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repotrial import api
from repotrial.authoring import lock_contract
from repotrial.trace import Holds, OperatorDecision, RunPaths, Termination, iter_events
from support.command_line import converse, start
from support.trials import HONEST, REFERENCE, WRONG, Court, open_court

PATIENCE = 600.0
EXAMPLE = Path(__file__).parents[2] / "examples" / "contracts" / "textkit-wide-chars"
"""It is certified."""


@pytest.fixture
def court() -> Iterator[Court]:
    with open_court() as court:
        yield court


def without_escapes(said: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)


def verdicts_of(events: list[dict[str, Any]]) -> dict[str, str]:
    return {
        f"{event['entry']['agent']}/{event['entry']['contract']}": event["entry"]["status"]
        for event in events
        if event["event"] == "scored"
    }


def test_doing_nothing_fails_and_the_reference_succeeds(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    ended = court.start(capsys, contract, "--agent", "noop", "--agent", "reference")
    assert (ended.status, ended.err.count("\n")) == (0, 1), "one note: it is not certified"
    *_, header, first, second, total, hint = ended.out.splitlines()
    assert header.split() == [
        "contract",
        "agent",
        "rep",
        "status",
        "G1",
        "G2",
        "G3",
        "G4",
        "score",
        "directory",
    ]
    assert first.split()[:8] == ["answer", "noop", "0", "failure", "pass", "pass", "FAIL", "pass"]
    assert second.split()[:9] == ["answer", "reference", "0", "success", "pass", "pass", "pass", "pass", "1"]
    assert total == "2 runs: 1 failure, 1 success"
    assert hint == f"next: repotrial run show {first.split()[-1]}"
    for line in (first, second):
        directory = Path(line.split()[-1])
        assert api.verify_run(directory, trusted_keys=None).holds
        assert (directory / "score.json").exists()
        assert (directory / "report.json").exists()


def test_scripts_commands_and_patches_are_judged_by_what_they_leave(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    honest = court.write("honest.sh", HONEST)
    wrong = court.write("wrong.sh", "echo 'echo 7' > answer.sh\n")
    loose = court.write("loose.patch", REFERENCE.replace("-echo 41", "-echo 40"))
    words = ["--agent", f"script:{honest}", "--agent", f"script:{wrong}", "--agent", f"patch:{loose}"]
    words += ["--agent", "command:sed -i 's/41/42/' answer.sh"]
    status, events = court.start_json(capsys, contract, *words)
    assert status == 0
    assert verdicts_of(events) == {
        "honest/answer": "success",
        "wrong/answer": "failure",
        "loose/answer": "failure",
        "sed/answer": "success",
    }
    gates = {e["entry"]["agent"]: e["entry"]["gates"] for e in events if e["event"] == "scored"}
    assert gates["loose"][0] == "failed"
    assert gates["wrong"] == ["passed", "passed", "failed", "passed"]
    assert events[-1] == {
        "event": "finished",
        "statuses": {"success": 2, "failure": 2},
        "excused": {},
        "invalid": {},
        "not_conducted": 0,
        "left": 0,
        "is_stopped": False,
    }


def test_predictions_are_resolved_or_not_and_none_is_dropped_in_silence(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contracts = [court.write_contract(f"org-{name}-1") for name in ("gold", "empty", "wrong")]
    bare = REFERENCE.partition("\n")[2]  # as models write it, without what only git knows
    patches = {"Org__Gold-1": bare, "org__empty-1": "", "org__wrong-1": WRONG, "org__other-9": WRONG}
    lines = [
        json.dumps({"instance_id": name, "model_patch": patch, "model_name_or_path": "Some/Model 2"})
        for name, patch in patches.items()
    ]
    file = court.write("predictions.jsonl", "\n".join(lines) + "\n")
    status, events = court.start_json(capsys, *contracts, "--agent", f"predictions:{file}")
    assert status == 0
    assert events[0] == {"event": "unmatched", "instance": "org__other-9"}
    assert verdicts_of(events) == {
        "some-model-2/org-gold-1": "success",
        "some-model-2/org-empty-1": "failure",
        "some-model-2/org-wrong-1": "failure",
    }
    summary = api.summarize_runs(court.runs).summary
    assert [(found.agent, found.attempted, found.success) for found in summary.agents] == [
        ("some-model-2", 3, 1)
    ]


def test_the_second_start_conducts_only_what_is_missing(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    court.start(capsys, contract, "--agent", "noop")
    first = court.list_runs()
    status, events = court.start_json(capsys, contract, "--agent", "noop")
    assert (status, court.list_runs()) == (0, first)
    assert [event["event"] for event in events] == ["uncertified", "skipped", "scored", "finished"]
    status, events = court.start_json(capsys, contract, "--agent", "noop", "--repeats", "2")
    assert status == 0
    assert len(court.list_runs()) == 2
    assert [event["event"] for event in events].count("skipped") == 1
    court.start(capsys, contract, "--agent", "noop", "--again")
    assert [name[-3:] for name in court.list_runs() if name.startswith("answer-noop-r0")] == ["-a1", "-a2"]


def test_a_dry_run_tells_and_starts_nothing(court: Court, capsys: pytest.CaptureFixture[str]) -> None:
    contract = court.write_contract()
    ended = court.start(capsys, contract, "--agent", "noop", "--repeats", "3", "--jobs", "2", "--dry-run")
    assert ended.status == 0
    assert ended.out.count("to be conducted") == 3
    assert "3 runs to conduct, 0 conducted before" in ended.out
    assert "at most 42 min 00 s one after the other" in ended.out
    assert "at most 0 USD" in ended.out
    assert not court.runs.exists()
    assert not (court.place / "seal-key.pem").exists()
    status, (plan,) = court.start_json(capsys, contract, "--agent", "noop", "--dry-run")
    assert (status, plan["missing"], plan["ceiling_seconds"]) == (0, 1, 600 + 2 * 60 * 2)


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_contract_that_check_calls_invalid_is_not_run(
    court: Court, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    contract = court.write_contract()
    (contract / "statement.md").write_text("# Title\n\n<!-- describe it -->\n", encoding="utf-8")
    lock_contract(contract)
    ended = court.start(capsys, contract, "--agent", "noop", *options)
    assert ended.status == 2
    assert "[empty-statement]" in ended.err
    assert f"repotrial contract check {contract}`" in ended.err
    assert not court.runs.exists()


def test_a_contract_that_nobody_certified_is_named_in_one_line(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    ended = court.start(capsys, contract, "--agent", "noop", "--dry-run")
    assert ended.err.splitlines() == [
        f"note: not certified: {contract}; `repotrial contract certify` tries them"
    ]
    _, (plan,) = court.start_json(capsys, contract, "--agent", "noop", "--dry-run")
    assert plan["uncertified"] == [str(contract)]
    _, events = court.start_json(capsys, contract, "--agent", "noop")
    assert [event for event in events if event["event"] == "uncertified"] == [
        {"event": "uncertified", "contracts": [str(contract)]}
    ]
    _, (plan,) = court.start_json(capsys, EXAMPLE, "--agent", "noop", "--dry-run")
    assert plan["uncertified"] == []


def test_an_expectation_that_is_not_met_shows_in_the_exit_code(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    words = (contract, "--agent", "reference", "--expect", "success")
    assert court.start(capsys, *words).status == 0
    assert court.start(capsys, *words, "--agent", "noop").status == 1
    assert court.start(capsys, *words, "--agent", "noop").status == 1, "also where it was conducted before"


def test_a_run_that_cannot_be_bound_is_recorded_and_is_the_machines_fault(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract(environment='absent_files = ["/usr"]')
    status, events = court.start_json(capsys, contract, "--agent", "noop", "--expect", "success")
    assert status == 3
    (ended,) = (event for event in events if event["event"] == "ended")
    assert "/usr" in ended["fault"]
    assert verdicts_of(events) == {"noop/answer": "invalid"}
    assert events[-1]["not_conducted"] == 1
    assert court.start(capsys, contract, "--agent", "noop").status == 3, "it is tried again"
    assert len(court.list_runs()) == 2


def test_a_tool_that_this_machine_lacks_is_told_before_anything_starts(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = court.write_contract("lacking", environment='tools = { no-such-tool = ">=1" }')
    for words in ([lacking], [lacking, court.write_contract()], [lacking, "--skip-unavailable"]):
        ended = court.start(capsys, *words, "--agent", "noop")
        assert (ended.status, ended.out) == (3, "")
        assert "error[contracts-unavailable] lacking: no-such-tool: expected >=1, found none" in ended.err
    assert not court.runs.exists()


def test_contracts_that_this_machine_cannot_run_are_left_out_on_demand(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = court.write_contract("lacking", environment='tools = { no-such-tool = ">=1" }')
    words: list[str | Path] = [lacking, court.write_contract(), "--agent", "noop", "--skip-unavailable"]
    ended = court.start(capsys, *words)
    assert ended.status == 0
    assert "left out: lacking: no-such-tool: expected >=1, found none; fix: install no-such-tool" in ended.err
    assert ended.out.splitlines()[-2] == "1 run: 1 failure"
    status, events = court.start_json(capsys, *words)
    assert status == 0
    (told,) = (event for event in events if event["event"] == "left-out")
    assert [item["contract"] for item in told["contracts"]] == ["lacking"]


def test_each_contract_has_its_own_script_and_all_are_one_agent(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contracts = [court.write_contract("first"), court.write_contract("second")]
    for contract, text in zip(contracts, (HONEST, "true\n"), strict=True):
        court.write(f"{contract.name}.sh", text)
    ended = court.start(capsys, *contracts, "--agent", f"script:{court.place}/{{contract}}.sh")
    *_, first, second, _, _ = ended.out.splitlines()
    assert first.split()[:4] == ["first", "script", "0", "success"]
    assert second.split()[:4] == ["second", "script", "0", "failure"]


def test_a_line_is_in_the_pipe_when_it_was_written(court: Court) -> None:
    words = court.build_words(court.write_contract(), "--agent", "command:sleep 5")
    with start(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert b"started" in process.stdout.readline()
        assert process.poll() is None, "it came while the agent was at work"


def test_what_cannot_be_recorded_is_not_conducted_and_says_why(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    court.runs.mkdir()
    (court.runs / ".under-way").write_text("not the directory that is needed")
    status, events = court.start_json(capsys, contract, "--agent", "noop")
    assert status == 3
    (undone,) = (event for event in events if event["event"] == "undone")
    assert undone["fault"].startswith("run-directory: ")
    assert undone["hint"] == "name a directory for runs that you may write to, on a disk with room"
    assert undone["hint"] in court.start(capsys, contract, "--agent", "noop").out


def test_a_directory_in_which_nothing_can_be_made_is_refused_before_anything_starts(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    court.runs.symlink_to("/proc/sys/kernel")  # for root as well
    ended = court.start(capsys, contract, "--agent", "noop")
    assert (ended.status, ended.out) == (3, "")
    assert f"error[runs-directory] {court.runs}: expected a directory that can be written to" in ended.err


def test_a_place_where_nothing_can_be_kept_is_refused_before_anything_starts(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    court.runs.write_text("in the way")
    for place in (court.runs, court.runs / "below"):
        ended = court.start(capsys, contract, "--agent", "noop", "--runs", place)
        assert (ended.status, ended.out) == (2, "")
        assert f"error[not-a-runs-directory] {place}: expected a directory for runs" in ended.err


def test_a_stale_lock_is_refused_before_anything_starts(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = court.write_contract()
    with (contract / "statement.md").open("a") as stream:
        stream.write("And now for something else.\n")
    ended = court.start(capsys, contract, "--agent", "noop")
    assert ended.status == 2
    assert "error[contract-invalid]" in ended.err
    assert not court.runs.exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--agent", "nobody"], "agent-name"),
        (["--agent", "patch:nowhere.patch"], "agent-file"),
        (["--agent", "human"], "human-unavailable"),
        (["--agent", "noop", "--secret", "REPOTRIAL_NO_SUCH_VARIABLE"], "secret-unset"),
        (["--agent", "predictions:/dev/null"], "nothing-to-run"),
    ],
)
def test_bad_usage_starts_nothing(
    court: Court, words: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = court.start(capsys, court.write_contract(), *words)
    assert ended.status == 2
    assert f"error[{code}]" in ended.err
    assert not court.runs.exists()


def interrupt(words: list[str], number: int, *, at_work: int) -> int:
    """Start the command, send it a signal when that many runs are at work, and give its exit code."""
    with start(*words, "--json", stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        working = set()
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "phase" and event["phase"] == "act":
                working.add(event["run_id"])
            if len(working) == at_work:
                process.send_signal(number)
                working.clear()
        return process.wait()


def test_ctrl_c_seals_what_runs_as_stopped_and_the_next_start_makes_a_new_attempt(court: Court) -> None:
    contract = court.write_contract()
    agents = [f"script:{court.write(f'{name}.sh', f'sleep 3000 # {name}')}" for name in ("one", "two")]
    words = court.build_words(contract, "--agent", agents[0], "--agent", agents[1], "--jobs", "2")
    # Both are at work at one time, or this waits in vain.
    assert interrupt(words, signal.SIGINT, at_work=2) == 130
    directories = sorted(court.runs.glob("[!.]*"))
    assert [path.name[-3:] for path in directories] == ["-a1", "-a1"]
    for directory in directories:
        checked = api.verify_run(directory, trusted_keys=None)
        assert checked.is_unchanged
        assert isinstance(checked.chain, Holds)
        payloads = [event.payload for event in iter_events(RunPaths(directory).trace)]
        (end,) = (payload for payload in payloads if isinstance(payload, Termination))
        assert end.category == "operator-abort"
        assert any(isinstance(payload, OperatorDecision) for payload in payloads)
        assert api.judge_run(directory).entry.status == "invalid"
    words = court.build_words(contract, "--agent", agents[0])
    assert interrupt(words, signal.SIGTERM, at_work=1) == 143
    assert sorted(path.name[-3:] for path in court.runs.glob("[!.]*")) == ["-a1", "-a1", "-a2"]


def test_the_same_command_twice_at_once_conducts_everything_once(court: Court) -> None:
    contract = court.write_contract()
    words = court.build_words(
        contract, "--agent", f"script:{court.write('slow.sh', 'sleep 2')}", "--repeats", "2"
    )
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(start(*words, stdout=subprocess.PIPE, text=True)) for _ in range(2)]
        said = [process.communicate()[0] for process in both]
    # Whichever came later was told so, or came when the other was done.
    assert sorted(path.name[-3:] for path in court.runs.glob("[!.]*")) == ["-a1", "-a1"], said


def test_what_is_stopped_while_it_is_judged_is_not_taken_for_conducted(court: Court) -> None:
    contract = court.write_contract(value="sleep 3000", seconds=3600)
    stopper = api.Stopper()
    events = []
    for event in court.conduct(contract, "reference", stopper=stopper):
        events.append(event)
        if isinstance(event, api.RunPhase) and event.phase == "accept":
            stopper.stop()
    (ended,) = (event for event in events if isinstance(event, api.RunEnded))
    assert ended.is_stopped
    (scored,) = (event for event in events if isinstance(event, api.RunScored))
    assert scored.entry.status == "invalid"
    assert len(court.plan(contract, "reference").fleet.missing) == 1


def test_leaving_early_stops_what_runs_and_seals_it(court: Court) -> None:
    contract = court.write_contract()
    agent = court.write("sleep.sh", "sleep 3000\n")
    agents = (f"script:{agent}", "noop")
    events = court.conduct(contract, *agents, stopper=api.Stopper())
    for event in events:
        if isinstance(event, api.RunPhase) and event.phase == "act":
            break
    events.close()
    (directory,) = court.runs.glob("[!.]*")
    assert api.verify_run(directory, trusted_keys=None).is_unchanged
    assert len(court.plan(contract, *agents).fleet.missing) == 2


def test_a_terminal_gets_a_display_that_moves_and_a_table(court: Court) -> None:
    contract = court.write_contract()
    words = court.build_words(contract, "--agent", "reference")
    ended = converse(*words, columns=200, seconds=PATIENCE)
    assert ended.status == 0
    assert "1 run: 1 success" in without_escapes(ended.out)


def test_ctrl_c_on_a_terminal_reaches_the_command_alone(court: Court) -> None:
    contract = court.write_contract()
    agent = court.write("sleeper.sh", "sleep 3000\n")
    words = court.build_words(contract, "--agent", f"script:{agent}")
    ended = converse(*words, answers=[("act      answer  sleeper #0", "\x03")], columns=200, seconds=PATIENCE)
    assert ended.status == 130
    assert "stopped: everything recorded is kept" in ended.out
    (directory,) = court.runs.glob("[!.]*")
    ends = [event.payload for event in iter_events(RunPaths(directory).trace)]
    assert [end.category for end in ends if isinstance(end, Termination)] == ["operator-abort"]


def test_a_person_works_in_the_workspace_until_enter(court: Court) -> None:
    contract = court.write_contract()
    words = court.build_words(contract, "--agent", "human")
    answers = [("press Enter when you are done", "\n")]
    ended = converse(*words, answers=answers, columns=200, seconds=PATIENCE)
    assert ended.status == 0
    assert "The answer is off by one" in ended.out
    assert "work in: " in ended.out
    assert "1 run: 1 failure" in without_escapes(ended.out)


def test_secrets_come_from_the_environment_and_stay_out_of_the_record(court: Court) -> None:
    contract = court.write_contract(environment='secrets = [{ name = "SERVICE_TOKEN", reason = "a test" }]')
    agent = court.write("print.sh", 'echo "got $SERVICE_TOKEN"; ' + HONEST)
    value = "hunter2hunter2hunter2"
    words = court.build_words(contract, "--agent", f"script:{agent}", "--secret", "SERVICE_TOKEN", "--json")
    with start(*words, stdout=subprocess.PIPE, env={"SERVICE_TOKEN": value}) as process:
        out, _ = process.communicate()
    assert process.returncode == 0, out
    assert value not in out.decode()
    (directory,) = court.runs.glob("[!.]*")
    found = [path for path in directory.rglob("*") if path.is_file() and value.encode() in path.read_bytes()]
    assert not found


def test_stopping_ends_the_preparation_of_an_environment(court: Court) -> None:
    contract = court.write_contract(
        limits='\n[[setup]]\nid = "long"\nrun = "sleep 600"\ntimeout_seconds = 900\n'
    )
    stopper = api.Stopper()
    events = court.conduct(contract, "noop", stopper=stopper)
    started = time.monotonic()
    told = []
    with contextlib.closing(events):
        for event in events:
            told.append(event)
            if isinstance(event, api.RunStarted):
                threading.Timer(3, stopper.stop).start()
    assert [event.is_stopped for event in told if isinstance(event, api.RunEnded)] == [True]
    assert time.monotonic() - started < 500, "it did not wait for the step"
    assert not [*(court.place / "cache").glob("bases/making/*")]
