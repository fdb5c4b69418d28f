"""Every file name of a run directory, in one place."""

from __future__ import annotations

from pathlib import Path

from repotrial.trace import RunPaths


def test_every_path_lies_in_the_run_directory(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    names = {
        path.relative_to(tmp_path).as_posix()
        for path in (
            paths.manifest,
            paths.trace,
            paths.trace_lock,
            paths.blobs,
            paths.seal,
            paths.change,
            paths.acceptance,
            paths.report,
            paths.score,
        )
    }
    assert names == {
        "manifest.json",
        "trace.jsonl",
        "trace.lock",
        "blobs",
        "seal.json",
        "change.patch",
        "acceptance",
        "report.json",
        "score.json",
    }
