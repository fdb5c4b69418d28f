from __future__ import annotations

import pytest

from repotrial.sandbox._levels._landlock_sandbox import find_landlock_obstacle
from repotrial.sandbox._levels._session import Engine
from repotrial.sandbox._machine._probe import Missing, _find_obstacle, find_engine, probe_machine
from repotrial.sandbox._model import Capabilities, Level
from support.harness import HARNESSES, require_sandboxes, start_harness


@pytest.mark.parametrize("kind", HARNESSES)
def test_where_bubblewrap_works_so_does_level_3(kind: str) -> None:
    with start_harness(kind) as harness:
        strongest = harness.order("findings")[0]
    assert strongest["level"] == "L3"
    assert strongest["has_overlay"]
    assert strongest["has_stages"]
    assert strongest["syscall_audit"] == "notify"


def test_levels_come_strongest_first_and_each_says_what_it_is() -> None:
    findings = probe_machine()
    assert [finding.level for finding in findings] == [*Level]
    for finding in findings:
        assert isinstance(finding, Capabilities) or (finding.reason and finding.remedy)


def test_an_engine_belongs_to_its_level() -> None:
    require_sandboxes()
    engine = find_engine(Level.L3)
    assert isinstance(engine, Engine)
    assert engine.capabilities.level is Level.L3
    assert isinstance(find_engine(Level.L1), Missing)


@pytest.mark.parametrize(
    ("bubblewrap", "version", "reason"),
    [(None, (), "not installed"), ("/usr/bin/bwrap", (0, 6, 1), "too old: 0.6.1"), ("/x", (), "unknown")],
)
def test_what_is_in_the_way_has_a_remedy(
    bubblewrap: str | None, version: tuple[int, ...], reason: str
) -> None:
    problem = _find_obstacle(Level.L3, bubblewrap, version)
    assert problem is not None
    assert reason in problem.reason
    assert "install bubblewrap" in problem.remedy


@pytest.mark.parametrize(
    ("abi", "is_root", "reason"),
    [
        (0, True, "found no Landlock"),
        (5, False, "could signal the harness"),
        (2, True, "could be truncated"),
    ],
)
def test_a_landlock_that_leaves_too_much_open_is_not_taken(abi: int, *, is_root: bool, reason: str) -> None:
    assert reason in (find_landlock_obstacle(abi, is_root=is_root) or "")


def test_a_landlock_that_closes_enough_is_taken() -> None:
    assert find_landlock_obstacle(6, is_root=False) is None
    assert find_landlock_obstacle(3, is_root=True) is None
