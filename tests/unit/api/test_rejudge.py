"""A corrected judge on recorded runs: what changes, what is kept, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from repotrial import api
from repotrial._core.absence import NotComputable
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import EvidenceError
from repotrial.authoring import lock_contract
from repotrial.contract import Check, Inventory, Overlay, ResultFile, Runner, parse_record
from repotrial.judging import apply_judgement, judge_recorded
from repotrial.score import RejudgedVerdict, ScoreCard
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    Errored,
    Failed,
    NotStarted,
    RunPaths,
    Signaled,
    iter_events,
)
from support.command_line import call
from support.errors import raises_code
from support.trials import Court

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "data" / "golden-runs"
INVENTORY = Inventory(fail_to_pass=("cases::answer",), pass_to_pass=("cases::runs",))


@pytest.fixture
def court(tmp_path: Path) -> Court:
    """Where contracts are written; nothing is conducted."""
    return Court(tmp_path)


def _copy(court: Court, name: str) -> Path:
    return Path(shutil.copytree(GOLDEN / name, court.runs / name))


def _write_inventory(contract: Path, *, pass_to_pass: list[str]) -> None:
    document = {"fail_to_pass": ["cases::answer"], "pass_to_pass": pass_to_pass}
    (contract / "inventory.json").write_text(json.dumps(document), encoding="utf-8")
    lock_contract(contract)


def _list_files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and "rejudged" not in path.parts
    }


@pytest.mark.parametrize("name", ["quiet-success", "quiet-failure", "prohibited-operation"])
def test_the_same_inventory_gives_the_same_score_card(court: Court, name: str) -> None:
    run = _copy(court, name)
    found = api.rejudge_run(run, api.load_judge(court.write_contract()))
    assert not found.is_changed
    assert found.recorded == found.rejudged
    assert found.verdict.executions == ()
    assert found.verdict.score == msgspec.json.decode((run / "score.json").read_bytes(), type=ScoreCard)


@pytest.mark.parametrize("name", ["feedmill-upgrade-honest", "feedmill-upgrade-noop", "tillbook-state-cheat"])
def test_the_draw_of_twins_is_not_on_record_and_their_outcome_is_kept(court: Court, name: str) -> None:
    run = _copy(court, name)
    contract = ROOT / "examples" / "contracts" / name.rpartition("-")[0]
    found = api.rejudge_run(run, api.load_judge(contract))
    assert not found.is_changed
    kept = {(each.check, each.variant) for each in found.verdict.executions}
    assert kept == {("unit", "twins"), ("regression", "twins")}
    assert all("the draw is not on record" in str(each) for each in found.verdict.executions)
    assert found.verdict.score == msgspec.json.decode((run / "score.json").read_bytes(), type=ScoreCard)


def test_a_corrected_inventory_flips_a_verdict_under_a_label_and_leaves_the_old_one(court: Court) -> None:
    run = _copy(court, "wrong-inventory")
    before = _list_files(run)
    judge = api.load_judge(court.write_contract())
    found = api.rejudge_run(run, judge)
    assert (found.recorded, found.rejudged, found.is_changed) == ("failure", "success", True)
    (execution,) = found.verdict.executions
    assert str(execution) == "cases, attempt 1: fail: no result of cases::phantom -> pass"
    written = msgspec.json.decode(Path(found.document).read_bytes(), type=RejudgedVerdict)
    assert written == found.verdict
    assert judge.lock is not None
    assert (written.label, written.rejudged_version_id) == ("rejudged", judge.lock.version_id)
    assert written.recorded_version_id == parse_record((run / "contract.json").read_bytes()).lock.version_id
    assert written.recorded_version_id != written.rejudged_version_id
    assert _list_files(run) == before
    assert api.judge_run(run).entry.status == "failure"
    assert api.verify_run(run, trusted_keys=None).holds, "the document is no part of the sealed record"


def test_an_inventory_that_asks_for_more_flips_a_success(court: Court) -> None:
    contract = court.write_contract()
    _write_inventory(contract, pass_to_pass=["cases::runs", "cases::forgotten"])
    found = api.rejudge_run(_copy(court, "quiet-success"), api.load_judge(contract))
    assert (found.recorded, found.rejudged) == ("success", "failure")
    (check,) = (check for check in found.verdict.score.checks if check.check == "cases")
    assert check.why == ("cases, attempt 1: no result of cases::forgotten",)


def test_no_verdict_is_written_over_another(court: Court) -> None:
    run = _copy(court, "wrong-inventory")
    contract = court.write_contract()
    first = api.rejudge_run(run, api.load_judge(contract))
    kept = Path(first.document).read_bytes()
    assert api.rejudge_run(run, api.load_judge(contract)).document == first.document
    _write_inventory(contract, pass_to_pass=["cases::runs", "cases::forgotten"])
    second = api.rejudge_run(run, api.load_judge(contract))
    assert second.rejudged == "failure"
    assert Path(first.document).read_bytes() == kept
    assert len(api.list_rejudged(run)) == 2


def _swap_results(run: Path) -> None:
    (blob,) = (path for path in (run / "blobs").rglob("*") if path.is_file() and _is_junit(path))
    blob.write_bytes(blob.read_bytes().replace(b'name="runs"', b'name="phantom"'))


def _is_junit(path: Path) -> bool:
    return b'name="runs"' in path.read_bytes()


def _edit_event(run: Path) -> None:
    trace = run / "trace.jsonl"
    trace.write_bytes(trace.read_bytes().replace(b"cases::phantom", b"cases::another"))


def _edit_contract(run: Path) -> None:
    (run / "contract.json").write_bytes((run / "contract.json").read_bytes().replace(b"= 42", b"= 43"))


@pytest.mark.parametrize("tamper", [_swap_results, _edit_event, _edit_contract])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_tampered_record_is_refused(
    court: Court, tamper: Callable[[Path], None], *, is_sealed: bool
) -> None:
    run = _copy(court, "wrong-inventory")
    if not is_sealed:
        (run / "seal.json").unlink()
    tamper(run)
    with pytest.raises(EvidenceError):
        api.rejudge_run(run, api.load_judge(court.write_contract()))
    assert api.list_rejudged(run) == ()


def test_an_unsealed_record_that_nothing_happened_to_is_judged(court: Court) -> None:
    run = _copy(court, "wrong-inventory")
    (run / "seal.json").unlink()
    assert api.rejudge_run(run, api.load_judge(court.write_contract())).rejudged == "success"


def test_another_contract_is_refused(court: Court) -> None:
    judge = api.load_judge(court.write_contract(identifier="another"))
    with raises_code("other-contract", match="expected the contract answer, found another"):
        api.rejudge_run(_copy(court, "quiet-success"), judge)


def test_a_contract_that_is_not_as_it_was_locked_is_refused(court: Court) -> None:
    contract = court.write_contract()
    (contract / "inventory.json").write_text('{"fail_to_pass": ["cases::answer"]}', encoding="utf-8")
    with raises_code("contract-invalid"):
        api.load_judge(contract)


def test_a_check_whose_command_or_files_are_others_keeps_its_outcome(court: Court) -> None:
    contract = court.write_contract(value="false")
    script = contract / "checks" / "judge.sh"
    script.write_text(script.read_text(encoding="utf-8") + "# another\n", encoding="utf-8")
    lock_contract(contract)
    found = api.rejudge_run(_copy(court, "quiet-success"), api.load_judge(contract))
    assert found.rejudged == "success"
    assert [str(each) for each in found.verdict.executions] == [
        "value, attempt 1: the contract has other commands or files for it than the run executed",
        "cases, attempt 1: files of the check are others than the run's: checks/judge.sh",
    ]


def test_a_check_that_the_contract_no_longer_has_keeps_its_outcome(court: Court) -> None:
    contract = court.write_contract()
    path = contract / "contract.toml"
    path.write_text(
        path.read_text(encoding="utf-8").replace('id = "value"', 'id = "other"'), encoding="utf-8"
    )
    lock_contract(contract)
    found = api.rejudge_run(_copy(court, "quiet-success"), api.load_judge(contract))
    assert [str(each) for each in found.verdict.executions] == [
        "value, attempt 1: the contract has no such check"
    ]


def test_a_link_in_the_place_of_the_folder_is_not_followed(court: Court, tmp_path: Path) -> None:
    run = _copy(court, "wrong-inventory")
    (run / "seal.json").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / "rejudged").symlink_to(elsewhere)
    with raises_code("score-write", match="found a link"):
        api.rejudge_run(run, api.load_judge(court.write_contract()))
    assert list(elsewhere.iterdir()) == []


class _Recorded:
    """One execution of the check `cases`, on record."""

    def __init__(self, name: str) -> None:
        paths = RunPaths(GOLDEN / name)
        self.check = next(
            check
            for check in parse_record(paths.contract.read_bytes()).contract.checks
            if check.id == "cases"
        )
        (self.event,) = (
            event.payload
            for event in iter_events(paths.trace)
            if isinstance(event.payload, AcceptanceExecution) and event.payload.check_id == "cases"
        )
        self.blobs = BlobStore(paths.blobs)

    def judge(
        self,
        event: AcceptanceExecution | None = None,
        *,
        recorded: Check | None = None,
        check: Check | None = None,
        inventory: Inventory | None = INVENTORY,
    ) -> str:
        """The outcome now, or why there is none."""
        then = recorded or self.check
        found = judge_recorded(
            event or self.event, self.blobs, recorded=then, check=check or then, inventory=inventory
        )
        if isinstance(found, NotComputable):
            return found.reason
        return str(type(apply_judgement(event or self.event, found).outcome).__name__)


def test_results_that_are_not_on_record_are_said_by_name() -> None:
    recorded = _Recorded("quiet-success")
    assert recorded.judge() == "Passed"
    lost = msgspec.structs.replace(recorded.event, logs=())
    assert recorded.judge(lost) == "results are not on record: expected junit.xml, found no such file"
    other = msgspec.structs.replace(recorded.event, results_digest=digest_bytes(b"more"))
    assert recorded.judge(other) == (
        "results on record are not all that was judged, or secrets were replaced"
    )


def test_standard_output_that_was_cut_is_said_by_name() -> None:
    recorded = _Recorded("quiet-success")
    printed = msgspec.structs.replace(
        recorded.check, results=(ResultFile(format="tap"),), inventory="inventory.json"
    )
    cut = msgspec.structs.replace(
        recorded.event,
        stdout=msgspec.structs.replace(recorded.event.stdout, length_bytes=10**6),
    )
    assert recorded.judge(cut, recorded=printed) == (
        "results are not on record: expected all of standard output, found 1000000 bytes"
    )


def test_a_check_that_waited_for_another_was_not_executed() -> None:
    recorded = _Recorded("quiet-success")
    waited = msgspec.structs.replace(
        recorded.event, exit=NotStarted(reason="needs value, which did not pass"), outcome=Failed(summary="")
    )
    assert recorded.judge(waited) == "it was not executed: needs value, which did not pass"


def test_an_error_stays_the_error_that_is_on_record() -> None:
    recorded = _Recorded("quiet-success")
    slow = msgspec.structs.replace(
        recorded.event,
        cause="timeout",
        exit=Signaled(signal=9),
        outcome=Errored(reason="timeout", detail="ended by the harness (timeout) after 60.0 s"),
        logs=(),
        results_digest=None,
        passed_count=0,
    )
    found = judge_recorded(
        slow, recorded.blobs, recorded=recorded.check, check=recorded.check, inventory=INVENTORY
    )
    assert not isinstance(found, NotComputable)
    assert apply_judgement(slow, found) is slow


def test_a_corrected_place_of_the_results_reads_what_was_missed() -> None:
    recorded = _Recorded("quiet-success")
    wrong = msgspec.structs.replace(recorded.check, results=(ResultFile(format="junit", path="other.xml"),))
    missed = msgspec.structs.replace(
        recorded.event, outcome=Errored(reason="crash", detail="no such file"), results_digest=None
    )
    assert recorded.judge(missed, recorded=wrong) == "Errored"
    assert recorded.judge(missed, recorded=wrong, check=recorded.check) == "Passed"


def test_of_several_commands_only_a_pass_tells_how_each_ended() -> None:
    recorded = _Recorded("quiet-success")
    several = msgspec.structs.replace(recorded.check, runners=(Runner(run="true"),))
    assert recorded.judge(recorded=several) == "Passed"
    failed = msgspec.structs.replace(recorded.event, outcome=Failed(summary="exit code 1"))
    assert recorded.judge(failed, recorded=several) == (
        "the record has of its commands only how the last one ended"
    )


def test_an_authors_wrong_suite_without_an_inventory_needs_no_draw() -> None:
    recorded = _Recorded("quiet-success")
    negative = msgspec.structs.replace(
        recorded.check, inventory=None, negative=(Overlay(source="negative", target="acceptance"),)
    )
    twins = msgspec.structs.replace(recorded.event, variant="twins")
    assert recorded.judge(twins, recorded=negative, inventory=None) == "Failed", "tests of it passed"
    assert "the draw is not on record" in recorded.judge(twins)


def test_the_command_tells_what_changed_and_show_mentions_it(
    court: Court, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, quiet = _copy(court, "wrong-inventory"), _copy(court, "quiet-success")
    contract = court.write_contract()
    shown = call(capsys, "run", "show", "--verdict", wrong)
    assert "rejudged" not in shown.out
    ended = call(capsys, "run", "rejudge", court.runs, "--contract", contract)
    assert ended.status == 0
    assert "failure -> success" in ended.out
    assert "cases, attempt 1: fail: no result of cases::phantom -> pass" in ended.out
    assert "2 runs: 1 unchanged, 1 changed" in ended.out
    told = json.loads(call(capsys, "run", "rejudge", quiet, "--contract", contract, "--json").out)
    assert [(each["recorded"], each["rejudged"]) for each in told] == [("success", "success")]
    (name,) = api.list_rejudged(wrong)
    assert f"rejudged/{name}" in call(capsys, "run", "show", "--verdict", wrong).out
    listed = json.loads(call(capsys, "run", "list", court.runs, "--json").out)
    assert {Path(each["directory"]).name: each["status"] for each in listed} == {
        "quiet-success": "success",
        "wrong-inventory": "failure",
    }
