"""Cheat agents: data and generators. Each is made from what an agent can see, and must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from repotrial.authoring._certify._cheats._c import build_c_cheats
from repotrial.authoring._certify._cheats._common import Cheat, NotApplicable, build_other_cheats
from repotrial.authoring._certify._cheats._javascript import build_javascript_cheats
from repotrial.authoring._certify._cheats._python import build_python_cheats
from repotrial.authoring._certify._cheats._rust import build_rust_cheats
from repotrial.authoring._certify._cheats._scene import Scene

_BUILDERS: Final[dict[str, Callable[[Scene], Iterable[Cheat | NotApplicable]]]] = {
    "python": build_python_cheats,
    "javascript": build_javascript_cheats,
    "c": build_c_cheats,
    "rust": build_rust_cheats,
}


def build_cheats(scene: Scene) -> tuple[Cheat | NotApplicable, ...]:
    """Every trick in both variants for this contract; where one makes no sense, the reason."""
    return tuple(_BUILDERS.get(scene.ecosystem, build_other_cheats)(scene))
