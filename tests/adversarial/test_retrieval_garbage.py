"""No bytes in a run directory lead to anything but documents that say what was missing."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from repotrial.retrieval import (
    NormalizationOptions,
    NormalizedTask,
    build_task_index,
    check_document,
    load_retrieval_tools,
    normalize_run,
)
from repotrial.retrieval._extract import Extractor, TracedCall
from repotrial.retrieval._places import build_names

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["type", "message", "content", "steps", "tool_calls", "arguments", "input", "name", "id", "observation",
     "results", "source_call_id", "usage", "timestamp", "file_path", "path", "command", "task_name"]
)  # fmt: skip
SHAPED = st.recursive(
    JSON, lambda inner: st.dictionaries(KEYS, inner, max_size=6) | st.lists(inner, max_size=4), max_leaves=20
)
TOOLS = st.sampled_from(
    ["Read", "Grep", "Glob", "Bash", "Edit", "apply_patch", "LS", "execute_bash", "str_replace_editor",
     "mcp__sourcegraph__sg_keyword_search", "mcp__sourcegraph__read_file", "mcp__x__list_files", "shell"]
)  # fmt: skip
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        ["file_path", "path", "command", "cmd", "pattern", "query", "files", "offset", "limit", "view_range",
         "startLine", "endLine", "repo", "symbol", "input", "workdir", "output_mode", "changes"]
    ),
    JSON,
    max_size=6,
)  # fmt: skip
FAST = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def _normalize(root: Path, files: dict[str, bytes]) -> list[NormalizedTask]:
    trial = root / "run" / "baseline" / "job" / "t__1"
    for name, data in {"result.json": b'{"task_name": "t"}', **files}.items():
        path = trial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    options = NormalizationOptions(
        tools=load_retrieval_tools(), tasks=build_task_index(None), generated_at="now"
    )
    return list(normalize_run(root / "run", None, options))


def _normalize_once(files: dict[str, bytes]) -> NormalizedTask:
    with tempfile.TemporaryDirectory() as directory:
        (task,) = _normalize(Path(directory), files)
        assert task.problem is None
        assert task.target is not None
        assert check_document(Path(task.target)).problems == ()
        return task


@FAST
@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=100))
@example(b"", b"", b"")
@example(b"[1,2]", b'{"type": "assistant", "message": null}', b"[]")
def test_random_bytes(trajectory: bytes, transcript: bytes, result: bytes) -> None:
    _normalize_once(
        {"agent/trajectory.json": trajectory, "agent/claude-code.txt": transcript, "result.json": result}
    )


@FAST
@given(SHAPED, st.lists(SHAPED, max_size=4), SHAPED)
def test_wrong_types_in_every_field(trajectory: Any, transcript: list[Any], result: Any) -> None:
    _normalize_once(
        {
            "agent/trajectory.json": json.dumps(trajectory).encode(),
            "agent/claude-code.txt": "\n".join(json.dumps(entry) for entry in transcript).encode(),
            "result.json": json.dumps(result).encode(),
        }
    )


@settings(max_examples=120, deadline=None)
@given(TOOLS, ARGUMENTS | st.text(max_size=200), st.text(max_size=200) | JSON.map(json.dumps), st.booleans())
@example("Bash", {"command": "cat <<" * 40}, "", False)
@example("Grep", {"path": "\x00"}, "a" * 10_000 + ":1:", False)
@example("mcp__sourcegraph__read_file", {"path": "a" * 5000, "repo": "::"}, "[" * 5000, False)
@example("apply_patch", "*** Begin Patch\n*** Update File: \n", "", False)
def test_any_call_gives_events_or_none(name: str, arguments: Any, output: str, is_error: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    names = build_names(roots=("/workspace",), truth=("o/r::a.py", "::", "x::"))
    call = TracedCall(name=name, arguments=arguments, outputs=(output,), is_error=is_error)
    for found in Extractor(load_retrieval_tools(), names, "/workspace").extract(call):
        for place in found.places:
            assert names.name(place) == names.name(place).lower()
            assert (place.first is None) or place.first >= 1


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 60_000,
        "http://a/" * 10_000,
        "# " + "a/" * 40_000,
        "URL: https://" + "a/" * 40_000,
        " (1" * 40_000,
        "a:1:" * 60_000,
        "'" * 60_000,
        '{"a": "' * 30_000,
        '{"text": "' + "\\" * 40_001,
        "-rw-r--r-- 1 " * 20_000,
        "r:" * 40_000,
        "1: " * 30_000,
    ],
    ids=lambda text: text[:8].encode().hex(),
)
@pytest.mark.parametrize("name", ["Grep", "Read", "Bash", "mcp__sourcegraph__keyword_search", "LS", "Write"])
def test_texts_that_punish_patterns_are_read_all_the_same(name: str, text: str) -> None:
    names = build_names(roots=("/workspace",), truth=("o/r::a.py",))
    for arguments in ({"command": "ls; grep -rn x .", "path": "a", "query": text[:50_000]}, text[:50_000]):
        call = TracedCall(name=name, arguments=arguments, outputs=(text,))
        Extractor(load_retrieval_tools(), names, "/workspace").extract(call)


def test_truncated_and_deeply_nested_json(tmp_path: Path) -> None:
    deep = b'{"type": "assistant", "message": {"content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    call = {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "a.py"}}
    good = json.dumps({"type": "assistant", "message": {"role": "assistant", "content": [call]}}).encode()
    (task,) = _normalize(tmp_path, {"agent/claude-code.txt": b"\n".join([good, deep, good[:40], b""])})
    assert task.calls_seen == 1
    assert task.coverage is not None
    assert sum(dict(task.coverage.skipped_entries or {}).values()) == 2


def test_a_line_longer_than_any_entry_is_counted_and_not_held(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "a.py"}}
    good = json.dumps({"type": "assistant", "message": {"role": "assistant", "content": [call]}}).encode()
    trial = tmp_path / "run" / "baseline" / "job" / "t__1"
    (trial / "agent").mkdir(parents=True)
    with (trial / "agent" / "claude-code.txt").open("wb") as stream:
        stream.write(good + b"\n")
        stream.seek(200 * 1024 * 1024, os.SEEK_CUR)  # a hole: nothing is stored, but it has to be read
        stream.write(b"\n" + good + b"\n")
    (task,) = _normalize(tmp_path, {})
    assert task.calls_seen == 2
    assert task.coverage is not None
    assert dict(task.coverage.skipped_entries or {}) == {"too-long": 1}


@pytest.mark.parametrize("name", ["result.json", "agent/trajectory.json", "agent/claude-code.txt"])
def test_links_and_directories_in_place_of_files_are_not_followed(name: str, tmp_path: Path) -> None:
    _normalize(tmp_path, {"agent/trajectory.json": b"{}", "agent/claude-code.txt": b"{}"})
    trial = tmp_path / "run" / "baseline" / "job" / "t__1"
    (trial / name).unlink()
    (trial / name).mkdir()
    for task in _normalize_again(tmp_path):
        assert task.problem is None or task.is_passed_over
    (trial / name).rmdir()
    (trial / name).symlink_to(tmp_path / "nowhere")
    for task in _normalize_again(tmp_path):
        assert task.problem is None or task.is_passed_over


def _normalize_again(root: Path) -> list[NormalizedTask]:
    options = NormalizationOptions(
        tools=load_retrieval_tools(), tasks=build_task_index(None), generated_at="now", is_rehearsal=True
    )
    return list(normalize_run(root / "run", None, options))


def test_lines_are_cut_at_newlines_alone(tmp_path: Path) -> None:
    call = {
        "type": "tool_use",
        "id": "1",
        "name": "Read",
        "input": {"file_path": "a.py", "note": "x\u2028y\u0085z"},
    }
    entry = {"type": "assistant", "message": {"role": "assistant", "content": [call]}}
    data = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
    (task,) = _normalize(tmp_path, {"agent/claude-code.txt": data})
    assert task.calls_seen == 1
    assert task.coverage is not None
    assert not task.coverage.skipped_entries
