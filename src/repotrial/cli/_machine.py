"""What the command line reads from its own surroundings, once, for the verbs that need it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from repotrial.api import MachineSettings

__all__ = ["CacheOption", "build_settings", "default_cache"]

CacheOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        readable=False,
        help="Where prepared trees and environments are kept (for root /var/cache/repotrial, "
        "else $XDG_CACHE_HOME/repotrial).",
    ),
]


def default_cache() -> Path:
    """A place that the sandbox's user can reach: root's own home is closed to it."""
    if os.geteuid() == 0:
        return Path("/var/cache/repotrial")
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else _home() / ".cache") / "repotrial"


def build_settings(cache: Path | None) -> MachineSettings:
    from repotrial.api import MachineSettings

    return MachineSettings(cache=cache or default_cache(), home=_home(), variables=dict(os.environ))


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry in the user database
        return Path("/nonexistent")
