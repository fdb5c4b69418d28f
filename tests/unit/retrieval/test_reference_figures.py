"""Fed with the reference's event documents, the stages give its figures, but for the table below."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial.retrieval import Evaluation, EvaluationOptions, evaluate
from support.retrieval_cases import list_cases, load_case

DELIBERATE = {
    "no-writes": "without a write an overlap of writes is null, not zero (R9)",
    "degraded": "a run of which nothing was seen is not computable, and enters no mean (R9)",
    "major": "an unknown major version is refused (R1)",
}
"""Every way in which our figures differ from the reference's, and why."""

_WRITE_PROBES = {
    "util_write_overlap_with_relevant_files_proxy",
    "util_referenced_file_correctness",
    "util_write_overlap_with_expected_edit_files",
}
_SECTIONS = ("file_level_metrics", "chunk_level_metrics", "utilization_probes", "error_taxonomy")


@pytest.mark.parametrize("file", list_cases())
def test_every_figure_of_every_case(file: Path, tmp_path: Path) -> None:
    case = load_case(file)
    for number, (name, document, expected) in enumerate(_iter_documents(case)):
        measured = _measure(tmp_path / str(number), document)
        if measured is None:
            assert _find_reason(document) == "major", name
            continue
        for section in _SECTIONS:
            differing = _differ(expected[section], measured[section])
            reason = _find_reason(document)
            if reason == "degraded":
                assert measured["file_level_metrics"]["computable"] is False
            elif reason == "no-writes":
                assert differing <= _WRITE_PROBES, (name, section, differing)
            else:
                assert not differing, (name, section, differing)


@pytest.mark.parametrize("file", list_cases())
def test_every_summary_of_every_case(file: Path, tmp_path: Path) -> None:
    case = load_case(file)
    for number, (name, expected) in enumerate(case["expected"].items()):
        if not name.endswith("run_retrieval_summary.json") or case["commands"] == ["pipeline_events"]:
            continue
        root = name.rsplit("/", 1)[0]
        documents = [
            document
            for place, document, _ in _iter_documents(case)
            if place.startswith(root) or "aggregate" in root
        ]
        if any(_find_reason(document) == "degraded" for document in documents):
            continue  # their means hold tasks that ours leave out
        found = json.loads(msgspec.json.encode(_evaluate(tmp_path / str(number), documents).summary))
        for section, value in expected.items():
            if section == "generated_at":
                continue
            if isinstance(value, dict):
                assert _differ(value, found[section]) <= _WRITE_PROBES, (name, section)
            else:
                assert found[section] == value, (name, section)


def test_the_table_of_differences_is_complete() -> None:
    assert set(DELIBERATE) == {"no-writes", "degraded", "major"}


def _iter_documents(case: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    written = case["expected"]
    if case["commands"] == ["pipeline_events"]:
        for name, expected in written.items():
            if name.endswith(".retrieval_metrics.json"):
                task = name.rsplit("/", 1)[1].replace("_metrics", "_events")
                source = next(text for place, text in case["input"].items() if place.endswith(f"/{task}"))
                yield name, json.loads(source), expected
        return
    for name, document in written.items():
        metrics = name.replace(".retrieval_events.json", ".retrieval_metrics.json")
        if name.endswith(".retrieval_events.json") and metrics in written:
            yield name, document, written[metrics]


def _measure(place: Path, document: Any) -> Any:
    (task,) = _evaluate(place, [document]).tasks
    return None if task.target is None else json.loads(task.target.read_bytes())


def _evaluate(place: Path, documents: list[Any]) -> Evaluation:
    place.mkdir()
    files = [(place / f"{number}.retrieval_events.json", place) for number in range(len(documents))]
    for (source, _), document in zip(files, documents, strict=True):
        source.write_text(json.dumps(document))
    options = EvaluationOptions(rule="reference", is_extended=False, generated_at="")
    return evaluate(files, place / "summary.json", options)


def _find_reason(document: Any) -> str | None:
    if not str(document.get("schema_version", "1.0")).startswith("1."):
        return "major"
    if document.get("coverage", {}).get("degraded_reason") and not document.get("events"):
        return "degraded"
    if not any(event.get("tool_category") == "file_write" for event in document.get("events", [])):
        return "no-writes"
    return None


def _differ(expected: dict[str, Any], found: dict[str, Any]) -> set[str]:
    missing = object()
    return {k for k in expected | found if expected.get(k, missing) != found.get(k, missing)}
