from __future__ import annotations

import pytest

from repotrial._core.words import OFFERED_LEVELS, Level
from repotrial.isolation import Capabilities, Missing, probe_machine
from repotrial.isolation._levels._back_ends.bubblewrap import _find_obstacle, find_engine
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
    assert [finding.level for finding in findings] == [*OFFERED_LEVELS]
    for finding in findings:
        assert isinstance(finding, Capabilities) or (finding.reason and finding.remedy)


def test_an_engine_belongs_to_its_level() -> None:
    require_sandboxes()
    engine = find_engine(Level.L3)
    assert not isinstance(engine, Missing)
    assert engine.capabilities.level is Level.L3


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
