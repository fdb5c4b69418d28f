"""A pilot from end to end: killed in the middle and resumed; and every way of tampering, by name."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from numpy.random import SeedSequence

from repotrial import api
from repotrial._core.absence import NotComputable
from repotrial._core.errors import EvidenceError, RepoTrialError, UsageError
from support.exhaustive import IS_EXHAUSTIVE
from support.pilots import build_machine, write_pilot

FLAKY = '["dashes", "doubled", "first", "last", "length", "lower", "reverse", "upper"]'
PRICES = """\
action_type,unit,unit_price,notes
exec:wall,second,0.01,test
overhead:wall,second,0,test
storage:byte,byte,0,test
"""


def _command(directory: Path, *words: str) -> list[str]:
    place = directory.parents[1]
    options = ["--cache", str(place / "cache"), "--key-file", str(place / "key.pem")]
    return [sys.executable, "-m", "repotrial", *words, *options]


def _freeze(directory: Path) -> None:
    place = directory.parents[1]
    machine = build_machine(place)
    api.plan_pilot(directory, machine)
    api.freeze_pilot(directory, machine, key_file=place / "key.pem", conducting=[], reason=None, removed={})


def _journal(directory: Path) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in (directory / "journal.jsonl").read_bytes().splitlines()]


def _conducted(directory: Path) -> list[dict[str, object]]:
    return [entry for entry in _journal(directory) if entry["kind"] == "conducted"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Killed without a word in the middle of stage 2, and resumed to its end."""
    directory = write_pilot(tmp_path_factory.mktemp("pilot"))
    (directory / "prices.csv").write_text(PRICES, "utf-8")
    file = directory / "pilot.toml"
    file.write_text(file.read_text("utf-8").replace("# prices =", "prices ="), "utf-8")
    _freeze(directory)
    words = _command(directory, "pilot", "run", str(directory), "--jobs", "2")
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)
    while running.poll() is None and len(_read_lines(directory)) < 15:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert 0 < len(_conducted(directory)) < 50
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "stage 3 is refused" in done.stdout
    return directory


def _read_lines(directory: Path) -> list[bytes]:
    file = directory / "journal.jsonl"
    lines = file.read_bytes().splitlines() if file.is_file() else []
    return [line for line in lines if b'"conducted"' in line]


@pytest.fixture
def copy(ended: Path, tmp_path: Path) -> Path:
    shutil.copytree(ended.parents[0], tmp_path / "example")
    return tmp_path / "example" / ended.name


def _find(directory: Path, place: Path) -> str:
    return "\n".join(api.show_pilot(directory, build_machine(place)).findings)


def test_no_run_is_lost_or_doubled_after_a_kill(ended: Path) -> None:
    conducted = _conducted(ended)
    planned = (ended / "plan" / "randomization-plan.csv").read_text("utf-8").splitlines()[1:]
    due = sorted(line.rsplit(",", 1)[1] for line in planned if line.split(",")[1] in "12")
    assert sorted(str(entry["run_id"]) for entry in conducted) == due
    assert len({entry["directory"] for entry in conducted}) == len(due) == 50


def test_the_ledger_and_the_runs_agree_to_the_cent(ended: Path, tmp_path: Path) -> None:
    data = [msgspec.convert(entry["data"], dict[str, str]) for entry in _conducted(ended)]
    total = sum((Decimal(each["usd"]) for each in data), start=Decimal(0))
    assert total > 0
    (envelope,) = api.show_pilot(ended, build_machine(tmp_path)).envelopes
    assert Decimal(envelope.spent) - Decimal(envelope.assumed) <= total
    assert abs(Decimal(envelope.spent) - total) <= Decimal(envelope.assumed)
    assert envelope.held == "0"


def test_a_pilot_at_its_end_holds_and_has_a_band_but_no_rate(ended: Path, tmp_path: Path) -> None:
    status = api.show_pilot(ended, build_machine(tmp_path))
    assert status.findings == ()
    assert status.state.startswith("cannot reach")
    assert [(stage.planned, stage.conducted) for stage in status.stages] == [(10, 10), (40, 40), (0, 0)]
    (band,) = status.bands
    assert band.tasks == 8
    assert band.low < 0.5 < band.high


def test_giving_the_command_again_conducts_nothing(ended: Path) -> None:
    before = len(_journal(ended))
    subprocess.run(_command(ended, "pilot", "run", str(ended)), capture_output=True, check=False)
    assert [entry for entry in _journal(ended)[before:] if entry["kind"] in ("started", "conducted")] == []


def test_editing_the_frozen_plan_is_named(copy: Path, tmp_path: Path) -> None:
    rows = copy / "plan" / "randomization-plan.csv"
    rows.write_text(rows.read_text("utf-8").replace(",strong,", ",weak,", 1), "utf-8")
    assert "the frozen plan was edited" in _find(copy, tmp_path)


def test_relabeling_an_arm_is_named(copy: Path, tmp_path: Path) -> None:
    file = copy / "pilot.toml"
    text = file.read_text("utf-8").replace('"strong"', '"mighty"').replace("strong-against", "mighty-against")
    file.write_text(text, "utf-8")
    assert "pilot.toml: expected it as frozen, found it edited" in _find(copy, tmp_path)


def test_editing_a_price_is_named(copy: Path, tmp_path: Path) -> None:
    (copy / "prices.csv").write_text(PRICES.replace("0.01", "0.001"), "utf-8")
    assert "a price was edited after freezing" in _find(copy, tmp_path)


def test_swapping_a_contract_version_is_named(copy: Path, tmp_path: Path) -> None:
    contract = copy.parent / "contracts" / "upper"
    file = contract / "contract.toml"
    file.write_text(file.read_text("utf-8").replace("timeout_seconds = 60", "timeout_seconds = 61"), "utf-8")
    api.lock_contract(contract)
    with pytest.raises(RepoTrialError, match="upper"):
        api.show_pilot(copy, build_machine(tmp_path))


def test_adding_a_run_from_another_pilot_is_named(copy: Path, tmp_path: Path) -> None:
    run = next(path for path in (copy / "runs").iterdir() if (path / "seal.json").is_file())
    shutil.copytree(run, copy / "runs" / "upper-strong-r0-0123456789.1")
    assert "run-from-elsewhere" in _find(copy, tmp_path)


def test_dropping_a_failed_run_is_named(copy: Path, tmp_path: Path) -> None:
    name = str(_conducted(copy)[3]["directory"])
    shutil.rmtree(copy / "runs" / name)
    assert f"{name}: expected the record of a run, found none [run-dropped]" in _find(copy, tmp_path)


def test_dropping_a_failed_run_from_the_journal_too_is_named(copy: Path, tmp_path: Path) -> None:
    name = str(_conducted(copy)[3]["directory"])
    shutil.rmtree(copy / "runs" / name)
    file = copy / "journal.jsonl"
    lines = [line for line in file.read_bytes().splitlines() if name.encode() not in line]
    file.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(EvidenceError, match="expected the line that follows"):
        _find(copy, tmp_path)


def _cut_end(directory: Path, runs: int) -> None:
    """The last runs, and everything that the journal says since the first of them was started."""
    lost = {str(entry["run_id"]) for entry in _conducted(directory)[-runs:]}
    for name in [str(entry["directory"]) for entry in _conducted(directory)[-runs:]]:
        shutil.rmtree(directory / "runs" / name)
    entries = _journal(directory)
    first = min(place for place, entry in enumerate(entries) if entry["run_id"] in lost)
    file = directory / "journal.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:first]))


def test_an_end_of_the_journal_cut_off_together_with_its_runs_is_named(copy: Path, tmp_path: Path) -> None:
    _cut_end(copy, 3)
    assert "its end is cut off [journal-cut]" in _find(copy, tmp_path)


def test_cutting_off_the_signed_end_as_well_is_named(copy: Path, tmp_path: Path) -> None:
    _cut_end(copy, 3)
    (copy / "journal.head.json").unlink()
    assert "expected the signed end of the journal, found none [journal-unsigned]" in _find(copy, tmp_path)


def test_an_end_signed_for_another_journal_is_named(copy: Path, tmp_path: Path) -> None:
    file = copy / "journal.head.json"
    data = msgspec.json.decode(file.read_bytes())
    signature = data["signatures"][0]["sig"]
    data["signatures"][0]["sig"] = ("B" if signature[0] == "A" else "A") + signature[1:]
    file.write_bytes(msgspec.json.encode(data, order="sorted"))
    assert "expected a signature of a registered key, found none [journal-head-forged]" in _find(
        copy, tmp_path
    )


def test_a_registration_signed_anew_with_another_key_does_not_let_the_machine_conduct(
    copy: Path, tmp_path: Path
) -> None:
    (copy / "registrations" / "1.json").unlink()
    machine = build_machine(tmp_path)
    api.freeze_pilot(copy, machine, key_file=tmp_path / "mine.pem", conducting=[], reason=None, removed={})
    done = subprocess.run(
        _command(copy, "pilot", "run", str(copy)), capture_output=True, text=True, check=False
    )
    assert "key-not-registered" in done.stderr


def test_an_edited_registration_is_named(copy: Path, tmp_path: Path) -> None:
    file = copy / "registrations" / "1.json"
    data = msgspec.json.decode(file.read_bytes())
    signature = data["signatures"][0]["sig"]
    data["signatures"][0]["sig"] = ("B" if signature[0] == "A" else "A") + signature[1:]
    file.write_bytes(msgspec.json.encode(data, order="sorted"))
    assert "registration-forged" in _find(copy, tmp_path)


def test_peeking_while_a_pilot_is_under_way_is_refused(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path)
    _freeze(directory)
    words = _command(directory, "pilot", "run", str(directory), "--stage", "1", "--jobs", "2")
    subprocess.run(words, capture_output=True, check=True)
    with pytest.raises(UsageError, match="found one under way"):
        api.list_runs(directory / "runs", api.RunFilter())


def test_after_the_end_the_runs_may_be_listed(ended: Path) -> None:
    assert len(api.list_runs(ended / "runs", api.RunFilter(agent="strong", status="success"))) > 0


def test_three_stages_with_registered_looks_and_a_logged_adaptation(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path, smallest_effect="0.9", least_tasks="4")
    file = directory / "pilot.toml"
    text = file.read_text("utf-8").replace("# contrast = ", "contrast = ", 1)
    file.write_text(text, "utf-8")
    _freeze(directory)
    words = _command(directory, "pilot", "run", str(directory), "--jobs", "2")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    entries = _journal(directory)
    (adaptation,) = [entry for entry in entries if entry["kind"] == "adaptation"]
    assert '"repeats":2' in str(adaptation["data"])
    looks = [msgspec.convert(entry["data"], dict[str, str]) for entry in entries if entry["kind"] == "look"]
    status = api.show_pilot(directory, build_machine(tmp_path))
    assert [float(look["fraction"]) for look in looks] == [0.5, 0.75, 1.0]
    assert status.rule_off == ""
    assert [stage.planned - stage.conducted for stage in status.stages] == [0, 0, 0]
    assert status.findings == ()


@pytest.mark.skipif(not IS_EXHAUSTIVE, reason="eighty runs: REPOTRIAL_EXHAUSTIVE=1 conducts them")
def test_a_rule_whose_assumption_stage_2_refutes_is_off_and_no_look_is_held(tmp_path: Path) -> None:
    """An arm that solves a task in its first run and never again varies more than was planned (Q16)."""
    directory = write_pilot(tmp_path, smallest_effect="0.9", least_tasks="4", icc="0.8")
    seed = int(SeedSequence(20260307, spawn_key=(0, 0)).generate_state(1)[0])  # of the agent, run 0
    for task in (directory.parent / "agents" / "weak").iterdir():
        solving = (directory.parent / "agents" / "strong" / task.name).read_text("utf-8")
        task.write_text(f'[ "$REPOTRIAL_SEED" = {seed} ] || exit 0\n{solving}', "utf-8")
    file = directory / "pilot.toml"
    file.write_text(file.read_text("utf-8").replace("# contrast = ", "contrast = ", 1), "utf-8")
    _freeze(directory)
    words = _command(directory, "pilot", "run", str(directory), "--jobs", "2")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "the efficacy rule is off: stage 2 refutes what it rests on: planning-values" in done.stdout
    status = api.show_pilot(directory, build_machine(tmp_path))
    assert "vary by" in status.rule_off
    assert [stage.planned - stage.conducted for stage in status.stages] == [0, 0, 0]
    assert status.stages[2].planned > 0
    assert [entry for entry in _journal(directory) if entry["kind"] == "look"] == []


def test_a_run_that_was_stopped_is_conducted_anew_and_taken_for_nothing_else(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path)
    _freeze(directory)
    words = _command(directory, "pilot", "run", str(directory), "--stage", "1", "--jobs", "2")
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)
    while running.poll() is None and not _find_started(directory):
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    running.wait()
    subprocess.run(words, capture_output=True, check=True)
    status = api.show_pilot(directory, build_machine(tmp_path))
    assert status.findings == ()
    assert (status.stages[0].conducted, len(_conducted(directory))) == (10, 10)


def _find_started(directory: Path) -> list[Path]:
    return [path for path in (directory / "runs").glob("*/trace.jsonl") if path.stat().st_size]


def test_an_envelope_that_does_not_allow_the_next_run_stops_the_pilot_before_it(tmp_path: Path) -> None:
    # Half of B_run is kept for acceptance: three dollars have no room for it once two and a half are spent.
    directory = write_pilot(tmp_path, run_usd="1", task_usd="3", total_usd="3")
    (directory / "prices.csv").write_text(PRICES.replace("0.01", "100"), "utf-8")
    file = directory / "pilot.toml"
    file.write_text(file.read_text("utf-8").replace("# prices =", "prices ="), "utf-8")
    _freeze(directory)
    done = subprocess.run(
        _command(directory, "pilot", "run", str(directory)), capture_output=True, text=True, check=False
    )
    assert "stop: budget: an envelope does not allow the next run" in done.stdout, done.stdout + done.stderr
    assert 0 < len(_conducted(directory)) < 10
    (envelope,) = api.show_pilot(directory, build_machine(tmp_path)).envelopes
    assert Decimal(envelope.spent) > Decimal("2.5") - 1
    assert envelope.held == "0"
    # No task is complete: the analysis has no rate, and shows what was conducted beside it.
    figures = api.analyze_conducted(directory).pilot
    assert not isinstance(figures, NotComputable)
    flow = figures.flow
    assert (flow["contracts analyzed"], flow["trials analyzed"]) == (0, 0)
    assert flow["trials beside the estimates"] == len(_conducted(directory))
    assert flow["trials never started"] + flow["trials beside the estimates"] == flow["trials planned"] == 50


def test_a_boundary_violated_in_stage_1_stops_the_pilot_for_all_arms(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path)
    for script in (directory.parent / "agents" / "weak").iterdir():
        script.write_text("#!/bin/bash\nexec 3<>/dev/tcp/192.0.2.1/80\ntrue\n", "utf-8")
    _freeze(directory)
    words = _command(directory, "pilot", "run", str(directory), "--jobs", "2")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "stop: safety: " in done.stdout, done.stdout + done.stderr
    (stop,) = [entry for entry in _journal(directory) if entry["kind"] == "stop"]
    assert "violated a boundary" in str(stop["data"])
    assert 0 < len(_conducted(directory)) <= 10
    before = len(_conducted(directory))
    subprocess.run(words, capture_output=True, check=False)
    assert len(_conducted(directory)) == before


def test_changes_of_contracts_listed_as_flaky_are_judged_again_and_the_rule_decides(tmp_path: Path) -> None:
    directory = write_pilot(tmp_path, passes="2", reruns="3", contracts=FLAKY)
    (directory / "prices.csv").write_text(PRICES, "utf-8")
    file = directory / "pilot.toml"
    file.write_text(file.read_text("utf-8").replace("# prices =", "prices ="), "utf-8")
    _freeze(directory)
    words = _command(directory, "pilot", "run", str(directory), "--stage", "1", "--jobs", "2")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    entries = _journal(directory)
    again = [entry for entry in entries if entry["kind"] == "judged-again"]
    # Two judgments decide each: two passes, or two failures of three. All of it is in the ledger.
    assert len(again) == len(_conducted(directory)) == 10
    data = [msgspec.convert(entry["data"], dict[str, str]) for entry in (*again, *_conducted(directory))]
    total = sum((Decimal(each["usd"]) for each in data), start=Decimal(0))
    status = api.show_pilot(directory, build_machine(tmp_path))
    assert Decimal(status.envelopes[0].spent) == total
    assert (status.findings, status.stages[0].indeterminate) == ((), 0)
    shutil.rmtree(directory / "runs" / str(again[0]["directory"]))
    assert "[run-dropped]" in _find(directory, tmp_path)
