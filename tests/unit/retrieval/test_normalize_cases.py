"""Packed cases: our event documents, the reference's, and every way in which they differ on purpose."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from repotrial.retrieval import check_document
from support.retrieval_cases import list_cases, load_case, unpack_case
from support.retrieval_differences import iter_paths, list_differences, normalize_case, summarize_document

EXPECTED = Path(__file__).parents[2] / "data" / "retrieval"

ALWAYS = {
    "provenance.benchmark": "suites have the names of the specification, not their old ones (R2)",
    "events.cumulative_tokens": "a running total, each message once, caches not twice (R7)",
    "events.extra.other": "shell and subagent calls are events of category `other` (R7)",
    "coverage.skipped_entries": "since 1.1: what could not be read is counted",
}
_HITS = {"events.hits_ground_truth", "events.matched_ground_truth_files"}
_CHAIN = "ground truth follows the specification's order, confidence and forms (R5)"
_SPECIFIED = {"coverage.ground_truth_confidence": _CHAIN}
_RESULTS = {
    "events.target_files": "results of a trajectory's calls are read where ATIF has them",
    **dict.fromkeys(_HITS, "so they can be hits"),
}
_INCOMPLETE = {"coverage.degraded_reason": "incomplete events have a reason, too (R3)"}
_CRASH = {"files.extra": "the reference stops here; ours writes a degraded document"}

DELIBERATE: dict[str, dict[str, str]] = {
    "01_traj_only_local": _RESULTS,
    "05_no_result_json": _RESULTS,
    "07_corrupt_trajectory_good_transcript": _INCOMPLETE,
    "09_junk_lines_in_transcript": _INCOMPLETE,
    "11_traj_events_transcript_none": {
        **_RESULTS,
        "coverage.trace_source": "a call that only the transcript has is recovered",
        "events.extra.untracked": "that call is a shell command that reads a file",
        "events.step_index": "it comes first",
    },
    "13_mcp_transcript_string": {"events.target_files": "files without an extension are files"},
    "15_all_tool_names": {
        **_SPECIFIED,
        "events.arguments": "of list_repos, for it is `other`",
        "events.tool_category": "list_repos is `other`, as the specification says",
        "events.extra.untracked": "tools of other servers and of other agents are known",
    },
    "17_subagent_merge_shift": {
        **_RESULTS,
        "events.extra.subagent": "a subagent's calls are recovered from the transcript",
        "events.step_index": "they are numbered where they stand",
    },
    "19_zero_ground_truth": {"events.target_files": _RESULTS["events.target_files"]},
    "21_chunks": {"ground_truth.chunks": "a chunk without its file or its line is none"},
    "23_defects_as_object": {
        **_SPECIFIED,
        "coverage.ground_truth_source": _CHAIN,
        "coverage.has_chunk_ground_truth": _CHAIN,
        "ground_truth.chunks": _CHAIN,
        "ground_truth.files": _CHAIN,
    },
    "25_write_probes": {
        "events.arguments": "a notebook's path is kept",
        "events.target_files": "a notebook is a file, and so is a Makefile",
    },
    "27_duplicate_paths": {
        **_SPECIFIED,
        "events.target_files": "dots are resolved; a directory called `workspace` stays",
        **dict.fromkeys(_HITS, "so other paths are the same"),
    },
    "29_size_slices": _SPECIFIED,
    "33_grep_output_shapes": {
        "events.target_files": "`path:line:text` names `path`; prose and failed calls name nothing",
        **dict.fromkeys(_HITS, "so other files are hits"),
    },
    "35_grep_context_noise": {"events.target_files": "lines of context are no files"},
    "37_k_beyond_list": {"events.elapsed_seconds": "times are subtracted as integers, then rounded"},
    "39_arguments_shapes": {"events.target_files": "every name of the argument that holds a path is known"},
    "42_gt_chain_sdlc": {
        **_SPECIFIED,
        **dict.fromkeys(_HITS, _CHAIN),
        **dict.fromkeys(
            (
                "coverage.ground_truth_source",
                "coverage.has_ground_truth",
                "ground_truth.expected_edit_files",
                "ground_truth.expected_edit_files_confidence",
                "ground_truth.expected_edit_files_source",
                "ground_truth.files",
            ),
            _CHAIN,
        ),
    },
    "44_org_oracles": {
        **_SPECIFIED,
        "events.target_files": "`repo::path` is met by a file of that repository",
        **dict.fromkeys(_HITS, "so it can be a hit"),
        **dict.fromkeys(
            (
                "coverage.ground_truth_source",
                "ground_truth.expected_edit_files",
                "ground_truth.expected_edit_files_confidence",
                "ground_truth.expected_edit_files_source",
                "ground_truth.files",
            ),
            _CHAIN,
        ),
    },
    "45_task_names": {
        "files.extra": "`delta_case` keeps its name",
        "files.missing": "`delta_case` keeps its name",
        "provenance.model": "the trace names the model where result.json does not",
    },
    "47_repeat_trials": {
        "files.extra": "repeats are kept, as __r2 and so on, by time",
        "provenance.batch_timestamp": "the first trial has the plain name",
        "provenance.trial_name": "the first trial has the plain name",
        "events.missing": "the first trial has the plain name",
        "events.extra.untracked": "the first trial has the plain name",
    },
    "51_result_matching": {**_INCOMPLETE, "events.target_files": "the first result of a call stands"},
    "55_line_separator_in_json": {
        "events.extra.untracked": "entries are cut at newlines alone",
        "events.step_index": "so none is lost",
        "events.target_files": "so none is lost",
    },
    "60_crash_transcript_array_line": _CRASH,
    "62_crash_trajectory_list": _CRASH,
    "64_crash_tool_calls_strings": _CRASH,
}
"""Each way in which a case's documents differ from the reference's, and why."""


@pytest.mark.parametrize("file", list_cases())
def test_documents_differ_from_the_references_only_on_purpose(file: Path, tmp_path: Path) -> None:
    case = load_case(file)
    if case["commands"] == ["pipeline_events"]:
        return  # it holds documents, not traces
    root = unpack_case(case, tmp_path)
    before = _digest_tree(root)
    tasks = normalize_case(case, root)
    assert all(task.problem is None or task.is_passed_over for task in tasks)
    assert {name: text for name, text in _digest_tree(root).items() if name in before} == before
    ours, theirs = _load_documents(root), {name: case["expected"][name] for name in iter_paths(case)}
    found = {each for name in ours.keys() & theirs for each in list_differences(theirs[name], ours[name])}
    found |= {"files.extra"} if ours.keys() - theirs else set()
    found |= {"files.missing"} if theirs.keys() - ours else set()
    assert found - ALWAYS.keys() == DELIBERATE.get(file.stem, {}).keys()
    assert all(check_document(root / "runs" / name).holds for name in ours)


@pytest.mark.parametrize("file", list_cases())
def test_where_the_reference_is_wrong_documents_are_as_reviewed(file: Path, tmp_path: Path) -> None:
    expected = EXPECTED / f"{file.stem}.json"
    if not expected.is_file():
        return  # the reference is right, or nearly
    case = load_case(file)
    root = unpack_case(case, tmp_path)
    normalize_case(case, root)
    found = {name: summarize_document(document) for name, document in _load_documents(root).items()}
    assert found == json.loads(expected.read_text())


@pytest.mark.parametrize("file", list_cases())
def test_a_summary_counts_the_events_of_its_document(file: Path, tmp_path: Path) -> None:
    case = load_case(file)
    if case["commands"] == ["pipeline_events"]:
        return  # it holds documents, not traces
    root = unpack_case(case, tmp_path)
    normalize_case(case, root)
    for document in _load_documents(root).values():
        events, summary = document["events"], document["summary"]
        hits = [event["step_index"] for event in events if event["hits_ground_truth"]]
        assert summary["total_events"] == len(events)
        assert summary["mcp_events"] == sum(event["is_mcp"] for event in events)
        assert summary["local_events"] == sum(not event["is_mcp"] for event in events)
        assert summary["unique_files_accessed"] == len({f for event in events for f in event["target_files"]})
        assert summary["ground_truth_files_hit"] == len(
            {f for event in events for f in event["matched_ground_truth_files"]}
        )
        assert summary["first_ground_truth_hit_step"] == (hits[0] if hits else None)
        assert summary["events_by_category"] == Counter(event["tool_category"] for event in events)


@pytest.mark.parametrize("file", list_cases())
def test_normalizing_again_changes_nothing(file: Path, tmp_path: Path) -> None:
    case = load_case(file)
    if case["commands"] == ["pipeline_events"] or file.stem[:2] not in {"03", "17", "47"}:
        return
    root = unpack_case(case, tmp_path)
    normalize_case(case, root)
    before = _digest_tree(root)
    normalize_case(case, root)
    assert _digest_tree(root) == before


def test_every_case_of_the_table_has_a_reason() -> None:
    assert all(reason for reasons in (ALWAYS, *DELIBERATE.values()) for reason in reasons.values())


def _load_documents(root: Path) -> dict[str, Any]:
    runs = root / "runs"
    files = sorted(runs.rglob("*.retrieval_events.json"))
    return {file.relative_to(runs).as_posix(): json.loads(file.read_bytes()) for file in files}


def _digest_tree(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }
