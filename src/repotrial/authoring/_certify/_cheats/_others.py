"""Cheats for judges of which nothing is known."""

from __future__ import annotations

from collections.abc import Iterable

from repotrial.authoring._certify._cheats._common import build_shared_cheat, refuse
from repotrial.authoring._certify._cheats._model import Cheat, NotApplicable
from repotrial.authoring._certify._cheats._names import TRICKS
from repotrial.authoring._certify._cheats._scene import Scene


def build_other_cheats(scene: Scene) -> Iterable[Cheat | NotApplicable]:
    """Tricks that need no language; the others with the reason why they are left out."""
    reason = f"not known for {scene.ecosystem or 'an unnamed ecosystem'}"
    for name in TRICKS:
        yield build_shared_cheat(scene, name, reason)
        yield refuse(name, "module", reason)
