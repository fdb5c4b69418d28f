"""Real agents from real indexes: installed with their locks, and started in a sandbox."""

from __future__ import annotations

import pytest

from repotrial.agents import check_agent, find_adapter
from support.real_agents import SETTINGS, WANTED, require_agent


@pytest.mark.parametrize("name", WANTED)
def test_a_real_agent_is_installed_with_its_lock_and_starts_in_a_sandbox(name: str) -> None:
    installed = require_agent(name)
    loaded = find_adapter(name)
    assert installed.tree is not None
    assert installed.version == loaded.version
    found = check_agent(loaded, SETTINGS)
    assert found.can_run, [need for need in found.needs if not need.is_met]
    assert found.needs[-1].need == "start"
