"""A place to try a back end on."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from repotrial.isolation._identity import Account
from repotrial.isolation._label import build_label
from repotrial.isolation._model import OverlayMount, SandboxSpec
from repotrial.isolation._resources._remove_tree import remove_tree


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
