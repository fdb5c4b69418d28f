"""The report of SWE-bench's harness: every instance in the list where it belongs, and in one only."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial.interop import build_swebench_report
from repotrial.score import AgentIdentity, ScoreCard, build_score_card, load_evidence
from support.errors import raises_code
from support.score_runs import FAILED, HUNG, ScoreRun, write_run

FOUR = ("resolved_ids", "unresolved_ids", "empty_patch_ids", "error_ids")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ScoreCard]:
    place = tmp_path_factory.mktemp("runs")
    unfinished = ScoreRun(place / "invalid")
    unfinished.end_acting()
    roots: dict[str, Path] = {
        "success": write_run(place / "success"),
        "failure": write_run(place / "failure", {"unit": FAILED}),
        "errored": write_run(place / "errored", {"unit": HUNG}),
        "invalid": unfinished.finish(),
    }
    return {name: build_score_card(load_evidence(root)) for name, root in roots.items()}


def rename(card: ScoreCard, contract_id: str, **fields: object) -> ScoreCard:
    identity = msgspec.structs.replace(card.identity, contract_id=contract_id, **fields)
    return msgspec.structs.replace(card, identity=identity)


def lists_of(report: msgspec.Struct) -> tuple[tuple[str, ...], ...]:
    return tuple(getattr(report, name) for name in FOUR)


def test_every_verdict_has_its_list(cards: dict[str, ScoreCard]) -> None:
    empty = rename(cards["failure"], "o-r-3", change_digest=digest_bytes(b""))
    report = build_swebench_report(
        [
            rename(cards["success"], "o-r-1"),
            rename(cards["failure"], "o-r-2"),
            empty,
            rename(cards["errored"], "o-r-4"),
            rename(cards["invalid"], "o-r-5"),
        ],
        instance_ids=["O__R-1", "O__R-2", "O__R-3", "O__R-4", "O__R-6"],
    )
    assert lists_of(report) == (("O__R-1",), ("O__R-2",), ("O__R-3",), ("O__R-4", "o-r-5"))
    assert report.completed_ids == ("O__R-1", "O__R-2")
    assert report.incomplete_ids == ("O__R-6",)
    assert (report.total_instances, report.submitted_instances, report.completed_instances) == (6, 5, 2)
    counts = (report.resolved_instances, report.unresolved_instances, report.empty_patch_instances)
    assert (*counts, report.error_instances) == (1, 1, 1, 2)


def test_an_instance_is_resolved_only_if_every_run_that_was_judged_resolved_it(
    cards: dict[str, ScoreCard],
) -> None:
    assert build_swebench_report([cards["success"], cards["failure"]]).resolved_ids == ()
    after_a_crash = build_swebench_report([cards["invalid"], cards["success"]])
    assert (len(after_a_crash.resolved_ids), after_a_crash.error_ids) == (1, ())


def test_runs_of_several_agents_are_not_one_report(cards: dict[str, ScoreCard]) -> None:
    other = AgentIdentity(name="other", version="1", model=Unknown(reason="none"))
    with raises_code("swebench-mixed-agents", match="other 1"):
        build_swebench_report([cards["success"], rename(cards["success"], "a", agent=other)])


def test_a_record_that_names_no_contract_is_about_no_instance(cards: dict[str, ScoreCard]) -> None:
    identity = msgspec.structs.replace(cards["invalid"].identity, contract_id=Unknown(reason="gone"))
    report = build_swebench_report([msgspec.structs.replace(cards["invalid"], identity=identity)])
    assert report == build_swebench_report([])


def test_the_document_has_the_fields_that_other_tools_read() -> None:
    document = msgspec.to_builtins(build_swebench_report([]))
    assert document["schema_version"] == 2
    assert {*FOUR, "completed_ids", "submitted_ids", "incomplete_ids", "total_instances"} <= document.keys()
