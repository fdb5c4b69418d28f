"""Real traces: every one normalizes, and what was seen in it is counted."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from repotrial.retrieval import (
    NormalizationOptions,
    NormalizedTask,
    build_task_index,
    check_document,
    load_retrieval_tools,
    normalize_run,
)

_SHARED = Path(__file__).parents[3].parent / "shared" / "data"
_BUNDLED = Path(__file__).parents[2] / "data" / "transcripts"


def _list_traces() -> list[Any]:
    files = sorted((_SHARED / "traces").rglob("*.json*")) + sorted((_SHARED / "agent_samples").glob("*.*"))
    bundled = [path for path in sorted(_BUNDLED.iterdir()) if path.is_file()]
    if not files:
        reason = "the real traces are not beside the project (../shared/data/traces)"
        skipped = pytest.param(None, marks=pytest.mark.skip(reason=reason))
        return [*(pytest.param(path, id=f"bundled-{path.name}") for path in bundled), skipped]
    return [pytest.param(path, id=path.name) for path in (*bundled, *files)]


def normalize_trace(trace: Path, root: Path) -> NormalizedTask:
    """A run that has this trace as its only one."""
    trial = root / "run" / "real" / "job" / "t__1"
    (trial / "agent").mkdir(parents=True)
    is_atif = trace.parent.name == "atif"
    name = "trajectory.json" if is_atif else _choose_name(trace)
    (trial / "agent" / name).write_bytes(trace.read_bytes())
    (trial / "result.json").write_text('{"task_name": "t"}')
    options = NormalizationOptions(
        tools=load_retrieval_tools(), tasks=build_task_index(None), generated_at="now"
    )
    (task,) = normalize_run(root / "run", None, options)
    return task


def _choose_name(trace: Path) -> str:
    return "mini-swe-agent.trajectory.json" if trace.suffix == ".json" else "transcript.txt"


def test_the_table_of_the_docs_is_what_the_traces_give() -> None:
    if not (_SHARED / "traces").is_dir():
        pytest.skip("the real traces are not beside the project (../shared/data/traces)")
    root = Path(__file__).parents[3]
    spec = importlib.util.spec_from_file_location("retrieval_table", root / "tools" / "retrieval_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (root / "docs" / "explanation" / "retrieval.md").read_text(encoding="utf-8")
    assert module.build_table(_SHARED / "traces") in page, "run tools/retrieval_table.py"


@pytest.mark.parametrize("trace", _list_traces())
def test_it_normalizes_and_leaves_everything_as_it_was(trace: Path, tmp_path: Path) -> None:
    task = normalize_trace(trace, tmp_path)
    assert task.problem is None
    assert task.target is not None
    assert check_document(Path(task.target)).problems == ()
    (copied,) = (tmp_path / "run" / "real" / "job" / "t__1" / "agent").iterdir()
    assert hashlib.sha256(copied.read_bytes()).digest() == hashlib.sha256(trace.read_bytes()).digest()
    document = json.loads(Path(task.target).read_bytes())
    steps = [event["step_index"] for event in document["events"]]
    assert steps == sorted(steps)
    assert len(set(steps)) == task.calls_tracked <= task.calls_seen
    assert sum(task.calls_by_tool.values()) == task.calls_seen - task.calls_tracked
    for event in document["events"]:
        assert all(file == file.strip().lower() and file for file in event["target_files"])
