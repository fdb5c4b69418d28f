"""Every Python that the project claims to support, where this machine has it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from repotrial.contract import Environment
from repotrial.environment import HostTool, observe_host

ROOT = Path(__file__).resolve().parents[2]
CLAIMED = tuple(
    re.findall(r"Programming Language :: Python :: (\d+\.\d+)", (ROOT / "pyproject.toml").read_text())
)


@cache
def _find(release: str) -> HostTool | str:
    major, minor = map(int, release.split("."))
    wanted = f">={release},<{major}.{minor + 1}"
    host = observe_host(Environment(image="host", tools={"python": wanted}))
    return host.problems[0].found if host.problems else host.tools["python"]


def require_interpreter(release: str) -> HostTool:
    """The machine's Python of a release such as `3.12`; skips where there is none."""
    found = _find(release)
    if isinstance(found, str):
        pytest.skip(f"no Python {release} on this machine: {found}")
    return found
