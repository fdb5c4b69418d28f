"""Merged changes whose tests are run: packages come from an example's lock, without asking an index."""

from __future__ import annotations

from pathlib import Path

from repotrial.authoring import ProofSettings, UvLocker
from repotrial.environment import InstallationSettings
from support.caches import find_shared_cache

__all__ = ["LOCK", "build_proving", "write_fake_uv"]

LOCK = Path(__file__).parents[2] / "examples" / "contracts" / "textkit-wide-chars" / "requirements.lock"
"""Of an example: it brings pytest."""


def write_fake_uv(place: Path, *, answer: Path = LOCK, status: int = 0) -> dict[str, str]:
    """A program `uv` that keeps its question in `asked` and prints a lock; the variables that find it."""
    folder = place / "fake-uv"
    folder.mkdir()
    asked = f'cat requirements.in >> {folder}/asked; echo "$@" >> {folder}/options'
    (folder / "uv").write_text(f"#!/bin/sh\n{asked}\ncat {answer}\nexit {status}\n", encoding="utf-8")
    (folder / "uv").chmod(0o755)
    return {"PATH": str(folder)}


def build_proving(place: Path, *, repeats: int = 2) -> ProofSettings:
    """Two runs of each tree are enough to see what differs."""
    installation = InstallationSettings(cache=find_shared_cache(), home=place, variables={})
    locker = UvLocker(write_fake_uv(place), home=place)
    return ProofSettings(installation=installation, locker=locker, repeats=repeats)
