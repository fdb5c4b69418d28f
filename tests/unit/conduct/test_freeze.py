"""Freezing: what is signed, what is refused, and how amendments count."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from repotrial import api
from repotrial._core.errors import ContractError
from repotrial.analysis import Registration
from support.pilots import build_machine, edit_pilot, write_pilot


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = write_pilot(tmp_path)
    api.plan_pilot(path, build_machine(tmp_path))
    return path


def _freeze(
    directory: Path, reason: str | None = None, removed: Mapping[str, str] | None = None
) -> Registration:
    place = directory.parents[1]
    return api.freeze_pilot(
        directory,
        build_machine(place),
        key_file=place / "key.pem",
        conducting=[],
        reason=reason,
        removed=removed or {},
    ).registration


def test_amendments_are_numbered_versions_with_reasons_that_start_the_count_anew(directory: Path) -> None:
    first = _freeze(directory)
    assert (first.version, first.previous, first.restarts) == (1, None, False)
    with pytest.raises(ContractError, match="nothing changed"):
        _freeze(directory, "again")
    edit_pilot(directory, level="0.04")
    api.plan_pilot(directory, build_machine(directory.parents[1]))
    with pytest.raises(ContractError, match=r"expected the reason of an amendment.*rules"):
        _freeze(directory)
    second = _freeze(directory, "stricter")
    assert (second.version, second.reason, second.restarts) == (2, "stricter", True)
    assert second.previous is not None
    assert "rules" in second.changed


def test_a_task_is_removed_for_a_reason_without_starting_anew(directory: Path) -> None:
    _freeze(directory)
    second = _freeze(directory, "upstream deleted the package", {"upper": "the archive is gone"})
    assert second.removed_tasks == {"upper": "the archive is gone"}
    assert not second.restarts


def test_a_plan_edited_by_hand_so_that_arms_are_not_equal_is_refused(directory: Path) -> None:
    rows = directory / "plan" / "randomization-plan.csv"
    lines = rows.read_text("utf-8").splitlines()
    rows.write_text("\n".join([*lines[:5], *lines[6:]]) + "\n", "utf-8")
    with pytest.raises(ContractError) as caught:
        _freeze(directory)
    assert "expected equal runs for all arms" in caught.value.message
    assert not (directory / "registrations").exists()


def test_a_pilot_that_was_changed_after_planning_is_planned_anew_first(directory: Path) -> None:
    edit_pilot(directory, level="0.04")
    with pytest.raises(ContractError, match="pilot_digest"):
        _freeze(directory)
