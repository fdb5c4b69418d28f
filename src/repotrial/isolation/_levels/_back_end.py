"""What an isolation back end offers: one description for each level, and a place to try it on."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.remove_tree import remove_tree
from repotrial._core.words import Level
from repotrial.isolation._identity import Account
from repotrial.isolation._label import build_label
from repotrial.isolation._model import Capabilities, OverlayMount, Sandbox, SandboxSpec
from repotrial.syscalls import RecordSink

Layer: TypeAlias = Literal[
    "mounts", "processes", "network", "privileges", "descriptors", "workspace", "system-calls"
]
"""What has to stop an attempt to get out of a sandbox."""
EVERY_LAYER: Final[frozenset[Layer]] = frozenset(get_args(Layer))


ISOLATION_LEVEL = ErrorCode(
    "isolation-level",
    MachineError,
    "This machine does not reach the isolation level that was asked for, or not with what is wanted.",
    hint="`repotrial doctor` shows which levels this machine reaches, and how to get the others.",
)


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A level that this machine does not reach."""

    level: Level
    reason: str
    """What was tried and what came of it."""
    remedy: str
    """The exact way to get it."""


LevelFinding: TypeAlias = Capabilities | Missing


class BackEnd(NamedTuple):
    """One isolation level."""

    level: Level
    probe: Callable[[], LevelFinding]
    """Find out by doing what it offers on this machine; cached, since it takes a moment."""
    open: Callable[[SandboxSpec, RecordSink | None], Sandbox]
    """Open a sandbox, after `probe` has found it to work."""
    promises: frozenset[Layer]
    """The layers that hold."""
    caution: str = ""
    """What it does not promise although it works."""


@contextlib.contextmanager
def open_trial_place(owner: Account, *, has_overlay: bool = False) -> Iterator[SandboxSpec]:
    """A workspace to try things on, made the way that the level allows."""
    # Labelled, so that the next start can remove it if this one is killed.
    place = Path(tempfile.gettempdir(), build_label()).resolve()
    place.mkdir(0o755)
    try:
        lower = place / "lower"
        for name in ("lower", "upper", "work", "merged"):
            (place / name).mkdir()
        (lower / "base").touch()
        if not os.geteuid():
            for path in (*place.iterdir(), lower / "base"):
                os.chown(path, owner.uid, owner.gid)
        overlay = OverlayMount(
            lower=lower, upper=place / "upper", work=place / "work", target=place / "merged"
        )
        yield SandboxSpec(workspace=lower, overlay=overlay if has_overlay else None)
    finally:
        remove_tree(place)
