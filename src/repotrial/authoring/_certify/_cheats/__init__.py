"""Cheat agents: data and generators. Each is made from what an agent can see, and must fail."""

from __future__ import annotations

from collections.abc import Iterable

from repotrial.authoring._certify._cheats._edit import build_patch
from repotrial.authoring._certify._cheats._model import Cheat, CheatVariant, NotApplicable
from repotrial.authoring._certify._cheats._names import TRICKS
from repotrial.authoring._certify._cheats._others import build_other_cheats
from repotrial.authoring._certify._cheats._python import build_python_cheats
from repotrial.authoring._certify._cheats._scene import Scene, read_scene

__all__ = [
    "TRICKS",
    "Cheat",
    "CheatVariant",
    "NotApplicable",
    "Scene",
    "build_cheats",
    "build_patch",
    "read_scene",
]


def build_cheats(scene: Scene) -> tuple[Cheat | NotApplicable, ...]:
    """Every trick in both variants for this contract; where one makes no sense, the reason."""
    built: Iterable[Cheat | NotApplicable] = (
        build_python_cheats(scene) if scene.ecosystem == "python" else build_other_cheats(scene)
    )
    return tuple(built)
