"""Cheats for judges that are not Python."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from repotrial.authoring._certify._cheats._common import build_early_results, build_trojan, delete_tests
from repotrial.authoring._certify._cheats._edit import build_patch
from repotrial.authoring._certify._cheats._model import Cheat, CheatVariant, NotApplicable, load_payload
from repotrial.authoring._certify._cheats._names import TRICKS
from repotrial.authoring._certify._cheats._scene import Scene

__all__ = ["build_other_cheats"]

_FOLDERS: Final = {"javascript": "node", "c": "c"}
_PAYLOADS: Final = {
    "javascript": ("early-exit", "exit-code", "assertion-patched", "framework-wrapped", "stdout-forgery"),
    "c": ("early-exit", "exit-code", "stdout-forgery"),
}
_START_UP: Final = {
    "javascript": {".npmrc": "node-options=--require ./start.cjs\n", "start.cjs": "process.exit(0);\n"},
    "c": {".gdbinit": "quit\n", "GNUmakefile": "%:\n\t@exit 0\nall test check:\n\t@exit 0\n"},
}
_IMPORT: Final = re.compile(r"^//import (\w+) (\S+)$", re.MULTILINE)
_ESM: Final = re.compile(r"^(import|export)\b", re.MULTILINE)


def build_other_cheats(scene: Scene) -> Iterable[Cheat | NotApplicable]:
    """Tricks that make sense there; the others with the reason why they do not."""
    for name in TRICKS:
        yield _build_open(scene, name)
        yield _build_module(scene, name)


def _build_module(scene: Scene, name: str) -> Cheat | NotApplicable:
    if name not in _PAYLOADS.get(scene.ecosystem, ()):
        return _refuse(name, "module", f"not known for {scene.ecosystem or 'an unnamed ecosystem'}")
    if scene.module is None or scene.module not in scene.files:
        return _refuse(name, "module", "no module of the product may be changed")
    text = load_payload(_FOLDERS[scene.ecosystem], f"{name}.txt")
    old = scene.files[scene.module]
    if scene.ecosystem == "javascript":
        text = _write_imports(text, is_esm=_ESM.search(old) is not None)
    new = old + ("" if not old or old.endswith("\n") else "\n") + f"\n{text}"
    return Cheat(name=name, variant="module", patch=build_patch(scene.files, {scene.module: new}))


def _write_imports(text: str, *, is_esm: bool) -> str:
    """Under names of our own, since the module may use the plain ones."""
    names = {match[1] for match in _IMPORT.finditer(text)}
    written = _IMPORT.sub(
        r'import \1 from "\2";' if is_esm else r'const \1 = require("\2");',
        text,
    )
    for name in names:
        written = re.sub(rf"(?<![\w:.\"]){name}\b(?!\")", f"{name}Again", written)
    return written


def _build_open(scene: Scene, name: str) -> Cheat | NotApplicable:
    match name:
        case "path-trojan":
            return Cheat(name=name, variant="open", script=build_trojan())
        case "results-written-early" if scene.results:
            return Cheat(name=name, variant="open", script=build_early_results(scene, {}))
        case "sitecustomize" if scene.ecosystem in _START_UP:
            return Cheat(name=name, variant="open", patch=build_patch({}, dict(_START_UP[scene.ecosystem])))
        case "edited-tests" if scene.tests:
            patch = build_patch(scene.files, dict.fromkeys(scene.tests, "\n"))
            return Cheat(name=name, variant="open", patch=patch)
        case "deleted-tests" if scene.tests:
            return Cheat(name=name, variant="open", patch=build_patch(scene.files, delete_tests(scene, "\n")))
        case _:
            return _refuse(name, "open", f"not known for {scene.ecosystem or 'an unnamed ecosystem'}")


def _refuse(name: str, variant: CheatVariant, reason: str) -> NotApplicable:
    return NotApplicable(name=name, variant=variant, reason=reason)
