"""Cheat agents: data and generators. Each is made from what an agent can see, and must fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from repotrial.authoring._certify._cheats import _c, _javascript, _python, _rust
from repotrial.authoring._certify._cheats._common import (
    TRICKS,
    Cheat,
    NotApplicable,
    build_shared_cheat,
    refuse,
)
from repotrial.authoring._certify._cheats._scene import CheatScene

_LANGUAGES: Final = {
    "python": _python,
    "javascript": _javascript,
    "typescript": _javascript,
    "c": _c,
    "rust": _rust,
}


def build_cheats(scene: CheatScene) -> tuple[Cheat | NotApplicable, ...]:
    """Every trick in both variants for this contract; where one makes no sense, the reason."""
    return tuple(cheat for name in TRICKS for cheat in _iter_variants(scene, name))


def _iter_variants(scene: CheatScene, name: str) -> Iterator[Cheat | NotApplicable]:
    language = _LANGUAGES.get(scene.ecosystem)
    if language is not None:
        yield language.build_open_cheat(scene, name)
        yield language.build_module_cheat(scene, name)
        return
    reason = f"not known for {scene.ecosystem or 'an unnamed ecosystem'}"
    yield build_shared_cheat(scene, name, reason)
    yield refuse(name, "module", reason)
