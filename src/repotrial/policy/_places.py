"""Places beyond the agent's own that a contract gives the work to write in (Q3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import normpath
from typing import Final

from repotrial.contract import Contract
from repotrial.policy._text_model import iter_written
from repotrial.shell import ShellCommand

OWN_PLACES: Final = re.compile(
    r"(?:/workspace|/tmp|/var/tmp|/dev/shm|/home/agent|/opt/repotrial/results)(?:/.*)?", re.DOTALL
)
"""Where an agent and the tests of a product may do as they like; checks are told to write their results."""
_HOMES: Final = frozenset({"HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"})
"""Variables that say where programs may leave files."""


def list_declared_places(contract: Contract) -> tuple[str, ...]:
    """Directories and files that a contract declares and that may be written, absolute.

    What Setup makes, scratch space and caches, the state of services, and where variables send home and
    scratch files. What is mounted read-only from the host is not to be written.
    """
    environment = contract.environment
    found = [output for step in contract.setup for output in step.outputs]
    found += [mount.target for mount in environment.mounts if mount.kind != "host-read-only"]
    found += [service.data for service in environment.services if service.data is not None]
    found += [value for name, value in environment.variables.items() if name in _HOMES]
    cleaned = (normpath(place) for place in found if place.startswith("/"))
    return tuple(dict.fromkeys(place for place in cleaned if place.strip("/")))


def is_declared(path: str, places: Sequence[str]) -> bool:
    """Whether a path is one of the places, or lies below one."""
    plain = normpath(path)
    return any(plain == place or plain.startswith(f"{place}/") for place in places)


def writes_declared(command: ShellCommand, places: Sequence[str]) -> bool:
    """Whether all that a command writes lies in places of the contract or of the agent."""
    found = list(iter_written(command)) if places else []
    return bool(found) and all(
        is_declared(path, places) or OWN_PLACES.fullmatch(normpath(path)) is not None for path in found
    )
