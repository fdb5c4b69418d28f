"""Real agents from real indexes: installed once, into a cache that all tests share and that outlives them.

`REPOTRIAL_AGENT_CACHE` names another cache than `.agent-cache` of the tree; `REPOTRIAL_AGENTS` names other
agents than these five, or `none`.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Final

import pytest

from repotrial._core.errors import RepoTrialError
from repotrial.agents import InstalledAgent, find_adapter, install_agent
from repotrial.environment import InstallationSettings
from support.harness import require_sandboxes

__all__ = ["CACHE", "SETTINGS", "WANTED", "require_agent"]

_FIVE: Final = "pi goose codex claude-code mini-swe-agent"
WANTED: Final = [name for name in os.environ.get("REPOTRIAL_AGENTS", _FIVE).split() if name != "none"]
CACHE: Final = Path(
    os.environ.get("REPOTRIAL_AGENT_CACHE") or Path(__file__).parents[2] / ".agent-cache"
).resolve()
SETTINGS: Final = InstallationSettings(cache=CACHE, home=Path.home(), variables=dict(os.environ))

_INDEX: Final = ("package-index-unreachable", "package-version-missing")
_MACHINE: Final = ("host-tools-unmet", "package-builder-missing")


def require_agent(name: str) -> InstalledAgent:
    """An agent that is in the cache, waited for where somebody else is installing it.

    Skips where there is no index. A machine without Node.js or Python that fits is a reason as well, but not
    for continuous integration, which has to have them.
    """
    require_sandboxes()
    if name not in WANTED:
        pytest.skip(f"REPOTRIAL_AGENTS leaves {name} out")
    found = _install(name)
    if isinstance(found, InstalledAgent):
        return found
    is_excused = found.code in _INDEX or not os.environ.get("CI")
    if not is_excused:
        raise found
    pytest.skip(f"{name} cannot be installed on this machine: {found.message[:300]}")


@functools.cache
def _install(name: str) -> InstalledAgent | RepoTrialError:
    """Asking an index that does not answer takes long: once is enough."""
    try:
        return install_agent(find_adapter(name), SETTINGS)
    except RepoTrialError as error:
        if error.code not in {*_INDEX, *_MACHINE}:
            raise
        return error
