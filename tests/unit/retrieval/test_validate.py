"""Documents held against their versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from repotrial.retrieval import EvaluationOptions, check_document, evaluate

EVENT: dict[str, Any] = {
    "step_index": 0,
    "timestamp": None,
    "tool_name": "Read",
    "tool_category": "file_read",
    "target_files": ["a.py"],
    "is_mcp": False,
}
DOCUMENT: dict[str, Any] = {
    "schema_version": "1.1",
    "generated_at": "2026-01-01T00:00:00Z",
    "provenance": {"run_id": "r", "task_name": "t", "config_name": "c", "benchmark": "unknown"},
    "coverage": {
        "has_trajectory": True,
        "has_transcript": False,
        "has_ground_truth": True,
        "trace_source": "trajectory",
        "degraded_reason": None,
    },
    "ground_truth": {"files": ["a.py"], "chunks": [{"file": "a.py", "line_start": 1, "line_end": 2}]},
    "events": [EVENT],
}


def _check(tmp_path: Path, document: Any) -> tuple[str, ...]:
    path = tmp_path / "x.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return check_document(path).problems


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_document_of_a_known_version_holds(version: str, tmp_path: Path) -> None:
    assert _check(tmp_path, {**DOCUMENT, "schema_version": version}) == ()


def test_a_later_minor_version_may_have_more(tmp_path: Path) -> None:
    assert _check(tmp_path, {**DOCUMENT, "schema_version": "1.7", "more": 1}) == ()
    assert _check(tmp_path, {**DOCUMENT, "more": 1}) == (
        "more: expected no such field in this version, found one",
    )


@pytest.mark.parametrize("version", ["2.0", "0.9", "11.0", "1", 1.0, None, "one", "1.0\n"])
def test_other_major_versions_are_refused(version: Any, tmp_path: Path) -> None:
    problems = _check(tmp_path, {**DOCUMENT, "schema_version": version})
    if version != "1":
        assert any("schema_version" in problem or "1." in problem for problem in problems)


def test_fields_of_1_1_do_not_belong_into_1_0(tmp_path: Path) -> None:
    event = {**EVENT, "line_ranges": [], "call_id": "x"}
    problems = _check(tmp_path, {**DOCUMENT, "schema_version": "1.0", "events": [event]})
    assert {problem.partition(":")[0] for problem in problems} == {
        "events[0].line_ranges",
        "events[0].call_id",
    }
    assert _check(tmp_path, {**DOCUMENT, "events": [event]}) == ()


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"events": [{**EVENT, "tool_category": "reading"}]}, "events[0].tool_category"),
        ({"events": [{**EVENT, "step_index": -1}]}, "events[0].step_index"),
        ({"events": "none"}, "events"),
        ({"coverage": {}}, "coverage"),
        (
            {"ground_truth": {"files": [], "chunks": [{"file": "a", "line_start": 0, "line_end": 1}]}},
            "line_start",
        ),
        ({"provenance": None}, "provenance"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], place: str, tmp_path: Path) -> None:
    (problem, *_) = _check(tmp_path, {**DOCUMENT, **change})
    assert place in problem


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "\xff", "{}", '{"schema_version": "1.0"}'])
def test_what_is_no_document_does_not_hold(text: str, tmp_path: Path) -> None:
    assert _check(tmp_path, text) != ()


def test_a_missing_file_does_not_hold(tmp_path: Path) -> None:
    assert not check_document(tmp_path / "none.json").holds
    assert not check_document(tmp_path).holds


@pytest.mark.parametrize("is_extended", [True, False])
@pytest.mark.parametrize("change", [{}, {"coverage": {"has_ground_truth": False}}])
def test_metrics_that_we_write_hold(change: dict[str, Any], tmp_path: Path, *, is_extended: bool) -> None:
    source, path = tmp_path / "t.retrieval_events.json", tmp_path / "t.retrieval_metrics.json"
    source.write_text(json.dumps({**DOCUMENT, **change}))
    options = EvaluationOptions(generated_at="now", is_extended=is_extended)
    evaluate([(source, tmp_path)], tmp_path / "summary.json", options)
    check = check_document(path)
    assert check.problems == ()
    assert (check.kind, check.schema_version) == ("metrics", "1.1" if is_extended else "1.0")
    spoiled = {**json.loads(path.read_text()), "file_level_metrics": {"computable": True, "mrr": 2}, "x": 1}
    assert len(_check(tmp_path, spoiled)) >= 2


def test_probe_flags_tell_what_ground_truth_allows(tmp_path: Path) -> None:
    """R12: `probe_available` is false only without file-level ground truth."""
    truth = {"files": ["a.py"], "expected_edit_files": ["a.py"]}
    coverage = {"has_ground_truth": True, "degraded_reason": "nothing was seen"}
    blind = {**DOCUMENT, "coverage": coverage, "ground_truth": truth, "events": []}
    unknown = {**DOCUMENT, "coverage": {"has_ground_truth": False}, "events": []}
    sources = []
    for number, each in enumerate((blind, unknown)):
        path = tmp_path / f"t{number}.retrieval_events.json"
        path.write_text(json.dumps(each))
        sources.append((path, tmp_path))
    evaluate(sources, tmp_path / "summary.json", EvaluationOptions(generated_at="now"))
    seen, unseen = (
        json.loads((tmp_path / f"t{number}.retrieval_metrics.json").read_text())["utilization_probes"]
        for number in (0, 1)
    )
    assert (seen["probe_available"], seen["expected_edit_probe_available"]) == (True, True)
    assert seen["reason"] == "degraded: nothing was seen"
    assert seen["util_read_overlap_with_relevant_files"] is None
    assert (unseen["probe_available"], unseen["reason"]) == (False, "no_ground_truth")
