"""Every file name of a run directory, in one place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.errors import UsageError
from repotrial.trace import RunPaths
from support.errors import raises_code


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


def test_a_check_has_its_own_folder(tmp_path: Path) -> None:
    assert RunPaths(tmp_path).acceptance_of("unit.py-3").relative_to(tmp_path) == Path("acceptance/unit.py-3")


@pytest.mark.parametrize(
    "check_id", ["", ".", "..", "../seal.json", "a/b", "/etc", "-x", "a\0b", "a\n", "x" * 101]
)
def test_a_check_id_cannot_leave_the_directory(tmp_path: Path, check_id: str) -> None:
    with raises_code("unsafe-check-id"):
        RunPaths(tmp_path).acceptance_of(check_id)


@given(st.text(max_size=30))
def test_any_accepted_check_id_names_a_direct_child(check_id: str) -> None:
    paths = RunPaths(Path("/run"))
    try:
        folder = paths.acceptance_of(check_id)
    except UsageError as error:
        if error.code != "unsafe-check-id":
            raise
        return
    assert folder.resolve().parent == paths.acceptance.resolve()
