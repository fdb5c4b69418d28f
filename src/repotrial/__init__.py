"""RepoTrial: coding agents on trial, on real repositories, with executable contracts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repotrial.api import open_pilot, open_runs

__version__ = "0.1.0"

__all__ = ["__version__", "open_pilot", "open_runs"]


def __getattr__(name: str) -> object:
    """What programs start with, loaded on first use: the package itself stays light."""
    if name in {"open_pilot", "open_runs"}:
        from repotrial import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "open_pilot", "open_runs"]
