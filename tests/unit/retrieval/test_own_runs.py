"""Runs of this harness: the gateway's calls, a contract's ground truth, and a seal that stays intact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial._core.absence import Unknown
from repotrial.retrieval import (
    NormalizationOptions,
    NormalizedTask,
    build_task_index,
    explain_truth,
    load_retrieval_tools,
    normalize_run,
)
from repotrial.trace import Command, Exited, ExitUnknown, Response, ResponseUsage, ToolInvocation, check_run
from support.run_directories import RunBuilder, build_example_manifest, build_sealed_run
from support.traces import build_start

CONTRACT = 'schema = "repotrial/contract@1"\nid = "{id}"\nreference = "reference.patch"\n'
PATCH = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n"
STATED = """\
schema = "repotrial/retrieval@1"
files = ["src/a.py", "docs/b.md"]
[[symbols]]
file = "src/a.py"
symbol = "f"
[[chunks]]
file = "src/a.py"
line_start = 3
line_end = 4
"""


class _Run(RunBuilder):
    def call(self, tool: str, arguments: Any, result: str = "", **fields: Any) -> None:
        chosen: dict[str, Any] = {"source": "gateway", "exit": ExitUnknown(reason="on the wire"), **fields}
        self.writer.append(
            ToolInvocation(
                tool=tool,
                arguments=self.writer.body(json.dumps(arguments).encode()),
                started_at_us=1_700_000_000_000_000,
                wall_us=1,
                result=self.writer.body(json.dumps(result).encode()),
                **chosen,
            ),
            actor="agent",
        )

    def respond(self, given: int, made: int, *, conversation: str = "main", body: bytes = b"{}") -> None:
        self.writer.append(
            Response(
                prompt=None,
                model="m",
                role="assistant",
                conversation=conversation,
                index=0,
                body=self.writer.body(body),
                usage=ResponseUsage(request_input_tokens=given, output_tokens=made),
            ),
            actor="agent",
        )


def _make_run(root: Path) -> Path:
    run = _Run(root)
    run.enter("act")
    run.respond(100, 5)
    run.call("Read", {"file_path": "/workspace/src/a.py", "offset": 3, "limit": 2}, call_id="c1")
    run.respond(50, 5, conversation="side-1", body=b'{"id": "c2"}')
    run.call("Grep", {"pattern": "x"}, "docs/b.md\n", call_id="c2")
    run.call("Bash", {"command": "cat README.md"}, "x", call_id="c3")
    run.call("execve", {}, source="sandbox", command=Command(argv=("cat", "y.py"), cwd="."))
    failed = ExitUnknown(reason="the agent marked the call as failed")
    run.call("Read", {"file_path": "/workspace/none.py"}, "no such file", exit=failed)
    run.writer.close()
    return root


def _make_contract(root: Path, *, stated: str | None = None) -> Path:
    directory = root / "contracts" / "any-name"
    directory.mkdir(parents=True)
    (directory / "contract.toml").write_text(CONTRACT.format(id=_find_id()))
    (directory / "reference.patch").write_text(PATCH)
    if stated is not None:
        (directory / "retrieval.toml").write_text(stated)
    return root / "contracts"


def _find_id() -> str:
    return build_example_manifest().contract.id


def _normalize(run: Path, tasks: Path | None) -> tuple[NormalizedTask, Any]:
    options = NormalizationOptions(
        tools=load_retrieval_tools(), tasks=build_task_index(tasks), generated_at="now"
    )
    (task,) = normalize_run(run, None, options)
    assert task.target is not None, task.problem
    return task, json.loads(Path(task.target).read_text())


def test_what_the_gateway_saw_becomes_events(tmp_path: Path) -> None:
    run = _make_run(tmp_path / "run")
    task, document = _normalize(run, _make_contract(tmp_path))
    assert (task.calls_seen, task.calls_mined) == (4, 1)
    rows = [
        (event["tool_name"], event["tool_category"], event["target_files"], event["is_subagent"])
        for event in document["events"]
    ]
    assert rows == [
        ("Read", "file_read", ["src/a.py"], False),
        ("Grep", "code_search", ["docs/b.md"], True),
        ("Bash", "file_read", ["readme.md"], False),
        ("Read", "file_read", [], False),
    ]
    assert [event["cumulative_tokens"] for event in document["events"]] == [105, 160, 160, 160]
    assert document["coverage"]["trace_source"] == "trajectory"
    assert document["provenance"]["task_name"] == _find_id()


@pytest.mark.parametrize("place", [".", "any-name"])
def test_a_contracts_patch_says_what_matters(place: str, tmp_path: Path) -> None:
    _, document = _normalize(_make_run(tmp_path / "run"), _make_contract(tmp_path) / place)
    assert document["ground_truth"] == {
        "files": ["src/a.py"],
        "expected_edit_files": ["src/a.py"],
        "expected_edit_files_source": "patch",
        "expected_edit_files_confidence": "high",
    }
    assert document["summary"]["first_ground_truth_hit_step"] == 0


def test_what_the_author_states_comes_first(tmp_path: Path) -> None:
    contracts = _make_contract(tmp_path, stated=STATED)
    _, document = _normalize(_make_run(tmp_path / "run"), contracts)
    truth = document["ground_truth"]
    assert truth["files"] == ["src/a.py", "docs/b.md"]
    assert truth["expected_edit_files"] == ["src/a.py"]
    assert truth["symbols"] == [{"file": "src/a.py", "symbol": "f"}]
    assert document["coverage"]["ground_truth_source"] == "retrieval_toml"
    assert document["coverage"]["has_chunk_ground_truth"] is True
    assert document["events"][0]["line_ranges"] == [{"file": "src/a.py", "line_start": 3, "line_end": 4}]


@pytest.mark.parametrize("stated", ["not toml [", 'schema = "repotrial/retrieval@2"', 'files = ["a"]'])
def test_a_statement_that_cannot_be_read_is_passed_over_and_said(stated: str, tmp_path: Path) -> None:
    contracts = _make_contract(tmp_path, stated=stated)
    _, truth = explain_truth(build_task_index(contracts), "any-name")
    assert [attempt.outcome for attempt in truth.attempts] == ["unreadable", "taken"]


def test_without_a_contract_there_is_no_ground_truth(tmp_path: Path) -> None:
    task, _ = _normalize(_make_run(tmp_path / "run"), None)
    assert task.coverage is not None
    assert not task.coverage.has_ground_truth


def test_programs_count_where_no_gateway_saw_calls(tmp_path: Path) -> None:
    run = _Run(tmp_path / "run")
    run.enter("act")
    run.call(
        "execve",
        {},
        source="sandbox",
        exit=Exited(code=0),
        command=Command(argv=("cat", "src/a.py"), cwd="."),
    )
    run.writer.close()
    _, document = _normalize(tmp_path / "run", None)
    assert [event["target_files"] for event in document["events"]] == [["src/a.py"]]


def test_programs_that_the_witness_saw_count_where_no_gateway_saw_calls(tmp_path: Path) -> None:
    run = _Run(tmp_path / "run")
    run.enter("act")
    run.writer.append(build_start("cat", "src/a.py"), actor="agent")
    run.writer.append(build_start("cat", "src/b.py", phase="accept"), actor="harness")
    run.writer.close()
    _, document = _normalize(tmp_path / "run", None)
    assert [event["target_files"] for event in document["events"]] == [["src/a.py"]]


def test_a_sealed_run_stays_valid_beside_its_events(tmp_path: Path) -> None:
    paths, key = build_sealed_run(tmp_path / "run")
    assert check_run(paths, trusted_keys=[key.public_key]).seal_report.is_intact
    _normalize(paths.root, None)
    assert (paths.root / "retrieval_events").is_dir()
    assert check_run(paths, trusted_keys=[key.public_key]).seal_report.is_intact


def test_a_damaged_trace_gives_what_stands_before_the_damage(tmp_path: Path) -> None:
    run = _make_run(tmp_path / "run")
    lines = (run / "trace.jsonl").read_bytes().splitlines(keepends=True)
    (run / "trace.jsonl").write_bytes(b"".join([*lines[:5], b"{broken\n", *lines[5:]]))
    task, _ = _normalize(run, None)
    assert task.coverage is not None
    assert task.coverage.skipped_entries is not msgspec.UNSET
    assert task.coverage.skipped_entries["unreadable-trace"] == 1
    assert task.calls_seen >= 1


def _name_run(root: Path, **agent: Any) -> str:
    manifest = build_example_manifest()
    changed = msgspec.structs.replace(manifest, agent=msgspec.structs.replace(manifest.agent, **agent))
    run = _Run(root, manifest=changed)
    run.enter("act")
    run.call("Read", {"file_path": "/workspace/src/a.py"})
    run.writer.close()
    return _normalize(root, None)[0].config_name


def test_agent_version_model_and_tools_make_a_configuration(tmp_path: Path) -> None:
    """R2: two models of one agent are never pooled, and neither are two versions or two sets of tools."""
    base: dict[str, Any] = {"name": "pi", "version": "1", "model": "large", "tools": ("Read", "Bash")}
    changes: list[dict[str, Any]] = [{}, {"version": "2"}, {"model": "small"}, {"tools": ("Read",)}]
    names = [_name_run(tmp_path / str(n), **{**base, **change}) for n, change in enumerate(changes)]
    assert len(set(names)) == len(names)
    assert names[0].startswith("pi@1+large+tools-")
    assert _name_run(tmp_path / "order", **{**base, "tools": ("Bash", "Read")}) == names[0]


def test_a_script_for_each_task_is_one_configuration(tmp_path: Path) -> None:
    script = {"name": "honest", "model": Unknown("asks no model"), "tools": ()}
    names = {_name_run(tmp_path / version, **script, version=version) for version in ("a1", "b2")}
    assert names == {"honest"}


def test_a_damaged_trace_says_that_its_events_are_incomplete(tmp_path: Path) -> None:
    run = _make_run(tmp_path / "run")
    trace = run / "trace.jsonl"
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(b"".join([*lines[:4], b"{damaged}\n", *lines[4:]]))
    document = _normalize(run, None)[1]
    assert document["events"]
    assert "incomplete" in document["coverage"]["degraded_reason"]
    assert _normalize(_make_run(tmp_path / "whole"), None)[1]["coverage"]["degraded_reason"] is None
