"""How an event document of ours differs from the reference's for the same trial."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repotrial.retrieval import (
    NormalizationOptions,
    NormalizedTask,
    build_task_index,
    find_runs,
    find_tasks_directory,
    load_retrieval_tools,
    normalize_run,
)

_SECTIONS = ("provenance", "coverage", "ground_truth")


def normalize_case(case: dict[str, Any], root: Path) -> list[NormalizedTask]:
    """Normalize what a packed case holds, as the command does."""
    run = root / case["run_dir"]
    options = NormalizationOptions(
        has_further_sources=True,
        tools=load_retrieval_tools(),
        tasks=build_task_index(find_tasks_directory(run)),
        generated_at="2026-01-01T00:00:00Z",
    )
    runs = find_runs(run) if case["all"] else (run,)
    return [task for each in runs for task in normalize_run(each, None, options)]


def list_differences(theirs: dict[str, Any], ours: dict[str, Any]) -> set[str]:
    """Names of what differs; events are paired by tool and arguments, in order."""
    found = {
        f"{section}.{key}"
        for section in _SECTIONS
        for key in theirs[section] | ours[section]
        if theirs[section].get(key) != ours[section].get(key)
    }
    left = list(ours["events"])
    for event in theirs["events"]:
        partner = next((each for each in left if _is_same_call(event, each)), None)
        if partner is None:
            found.add("events.missing")
            continue
        left.remove(partner)
        found |= {f"events.{key}" for key in event if event[key] != partner[key]}
    return found | {f"events.extra.{_classify(event)}" for event in left}


def _is_same_call(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(
        one["tool_name"] == other["tool_name"]
        and _common(one["arguments"], other["arguments"])
        and one["arguments"].get("file_path") == other["arguments"].get("file_path")
    )


def _common(one: dict[str, Any], other: dict[str, Any]) -> bool:
    keys = set(one) & set(other)
    return all(one[key] == other[key] for key in keys)


def _classify(event: dict[str, Any]) -> str:
    if event["is_subagent"]:
        return "subagent"
    return "untracked" if event["tool_category"] != "other" else "other"


def iter_paths(case: dict[str, Any]) -> Iterator[str]:
    """Event documents that the reference wrote."""
    return (name for name in case["expected"] if name.endswith(".retrieval_events.json"))


def summarize_document(document: dict[str, Any]) -> dict[str, Any]:
    """What a reviewer has to see of a document, on a line for each event."""
    coverage = document["coverage"]
    return {
        "trace_source": coverage["trace_source"],
        "degraded_reason": coverage["degraded_reason"],
        "skipped_entries": coverage.get("skipped_entries", {}),
        "ground_truth": [coverage["ground_truth_source"], *document["ground_truth"]["files"]],
        "events": [_summarize_event(event) for event in document["events"]],
    }


def _summarize_event(event: dict[str, Any]) -> str:
    marks = "".join(
        mark
        for mark, key in (("S", "is_subagent"), ("M", "is_mcp"), ("*", "hits_ground_truth"))
        if event[key]
    )
    when = f"{event['elapsed_seconds']}s {event['cumulative_tokens']}t"
    ranges = [
        f"{each['file']}:{each['line_start']}-{each['line_end']}" for each in event.get("line_ranges", [])
    ]
    words = [str(event["step_index"]), event["tool_name"], event["tool_category"], f"[{marks}]", when]
    return " ".join([*words, "->", ", ".join(event["target_files"]), *(["lines", *ranges] if ranges else [])])
