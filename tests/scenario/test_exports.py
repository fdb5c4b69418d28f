"""Logs for Inspect, read by Inspect's own reader in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from repotrial.interop import build_exports
from repotrial.score import judge_run
from support.run_directories import build_sealed_run
from support.score_runs import FAILED, write_run

_READ = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
log = read_eval_log(sys.argv[1])
print(json.dumps({
    "version": log.version, "status": log.status, "metadata": log.eval.metadata,
    "accuracy": log.results.scores[0].metrics["accuracy"].value,
    "samples": [
        {"id": s.id, "epoch": s.epoch, "value": s.scores["repotrial"].value,
         "checks": s.scores["repotrial"].metadata["checks"],
         "messages": [[m.role, m.text] for m in s.messages]}
        for s in log.samples
    ],
    "summaries": len(read_eval_log_sample_summaries(sys.argv[1])),
}))
"""


@pytest.fixture(scope="module")
def reader() -> str:
    """A Python that has `inspect_ai`; it brings dozens of packages, so it is none of ours."""
    found = os.environ.get("REPOTRIAL_INSPECT_PYTHON")
    if found is None:
        pytest.skip("REPOTRIAL_INSPECT_PYTHON names no Python with inspect_ai installed")
    return found


def test_the_reader_of_the_format_finds_what_was_exported(tmp_path: Path, reader: str) -> None:
    talkative, _ = build_sealed_run(tmp_path / "talk")
    runs = [
        judge_run(write_run(tmp_path / "good")),
        judge_run(write_run(tmp_path / "bad", {"unit": FAILED})),
        judge_run(talkative.root),
    ]
    files = {exported.name: exported for exported in build_exports("inspect", runs, None)}
    read = {}
    for name, exported in files.items():
        path = tmp_path / name
        path.write_bytes(exported.data)
        told = subprocess.run([reader, "-c", _READ, path], check=True, capture_output=True)
        read[name] = json.loads(told.stdout)
        assert (read[name]["version"], read[name]["status"]) == (2, "success")
        assert read[name]["metadata"]["lost"] == [loss.words for loss in exported.losses]
        assert read[name]["summaries"] == exported.runs
    samples = [sample for log in read.values() for sample in log["samples"]]
    assert sorted(sample["value"] for sample in samples) == ["C", "I", "N"]
    checks = {check.check: check.verdict for check in runs[0].card.checks}
    assert checks in [sample["checks"] for sample in samples]
    (spoken,) = (sample["messages"] for sample in samples if sample["value"] == "N")
    assert spoken[:2] == [["user", "hello"], ["assistant", "I run ls"]]
    assert [role for role, _ in spoken[2:]] == ["assistant", "tool"]
