"""Attempts at planned runs: which counts, which is repeated, and when a planned run is indeterminate (P5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from repotrial.analysis import PlannedRow
from repotrial.conduct._intake import Intake
from repotrial.conduct._journal import Journal
from repotrial.cost import load_price_book
from repotrial.signing import SigningKey
from support.score_runs import ScoreRun, write_run

ROW = PlannedRow(order=0, stage=1, block=0, task="t", stratum="s", arm="a", replicate=0, run_id="t-a-r0")


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.load(tmp_path / "key.pem")


@pytest.fixture
def journal(tmp_path: Path, key: SigningKey) -> Iterator[Journal]:
    with closing(Journal(tmp_path, registration=1, key=key)) as opened:
        yield opened


def _build(journal: Journal) -> Intake:
    return Intake(journal, load_price_book(None), since=1)


def _fail(directory: Path, code: str, key: SigningKey) -> Path:
    """An attempt that the harness ended before it was judged."""
    run = ScoreRun(directory)
    run.end_acting(category="harness-fault", code=code)
    return run.finish(key=key)


def test_an_excused_attempt_is_repeated_twice_and_then_the_run_is_indeterminate(
    journal: Journal, key: SigningKey, tmp_path: Path
) -> None:
    for number in range(3):
        _build(journal).take(ROW, _fail(tmp_path / f"t-a-r0-a{number}", "launcher-lost", key))
    assert [entry.kind for entry in journal.entries] == ["broken", "broken", "conducted"]
    assert journal.entries[-1].data["indeterminate"] == "harness"
    # Dropping an attempt that was set aside is found like dropping any other.
    assert all(entry.is_sealed for entry in journal.entries)


def test_an_attempt_after_an_excused_one_counts(journal: Journal, key: SigningKey, tmp_path: Path) -> None:
    _build(journal).take(ROW, _fail(tmp_path / "t-a-r0-a0", "launcher-lost", key))
    _build(journal).take(ROW, write_run(tmp_path / "t-a-r0-a1", key=key))
    assert [entry.kind for entry in journal.entries] == ["broken", "conducted"]
    assert "indeterminate" not in journal.entries[-1].data


def test_a_fault_that_a_candidate_can_bring_about_is_never_repeated(
    journal: Journal, key: SigningKey, tmp_path: Path
) -> None:
    _build(journal).take(ROW, _fail(tmp_path / "t-a-r0-a0", "workspace-unreadable", key))
    assert [entry.kind for entry in journal.entries] == ["conducted"]
    assert "indeterminate" not in journal.entries[0].data


def test_what_is_older_than_the_start_on_record_is_not_adopted(
    journal: Journal, key: SigningKey, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    journal.append("started", run_id=ROW.run_id)
    write_run(runs / "t-a-r0-a1", key=key)  # its manifest says 2023
    _build(journal).adopt([ROW], runs)
    assert [entry.kind for entry in journal.entries] == ["started"]
