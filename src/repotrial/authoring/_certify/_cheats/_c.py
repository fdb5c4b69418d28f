"""Cheats in C, for judges that link the product or start it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from repotrial.authoring._certify._cheats._common import (
    TRICKS,
    Cheat,
    NotApplicable,
    build_early_results,
    build_patch,
    build_shared_cheat,
    load_payload,
    put_into_module,
    refuse,
)
from repotrial.authoring._certify._cheats._scene import Scene

_PARTS: Final = {
    **dict.fromkeys(("early-exit", "exit-code", "skip-all", "stdout-forgery"), ("forge.txt",)),
    **dict.fromkeys(("results-written-early", "results-daemon", "report-plugin"), ("forge.txt",)),
    **dict.fromkeys(("assertion-patched", "equal-to-everything", "framework-wrapped"), ("forge.txt",)),
    **dict.fromkeys(("sitecustomize", "judge-memory"), ("forge.txt",)),
    **dict.fromkeys(("edited-tests", "deleted-tests"), ("forge.txt", "ancestors.txt")),
}
"""Payloads, and what each of them stands on."""
_POINTLESS: Final = {
    "forced-pass-hook": "there is no framework with hooks",
    "path-trojan": "the judge's programs run already",
    "test-shadow": "a source file puts nothing in the place of another",
    "build-hook": "a compiler runs nothing of what it compiles",
    "caller-frame": "a caller's constants have no names",
    "twin-aware": "an author's wrong expectations do not look like anything",
    "silent-in-doubt": "an author's wrong expectations do not look like anything",
}


def build_c_cheats(scene: Scene) -> Iterable[Cheat | NotApplicable]:
    """Every trick in both variants, as far as the contract leaves room for it."""
    for name in TRICKS:
        yield _build_open(scene, name)
        yield _build_module(scene, name)


def _build_module(scene: Scene, name: str) -> Cheat | NotApplicable:
    if name in _POINTLESS:
        return refuse(name, "module", _POINTLESS[name])
    return put_into_module(scene, name, _build_payload(name))


def _build_payload(name: str) -> str:
    return "".join(load_payload("c", part) for part in (*_PARTS[name], f"{name}.txt"))


def _build_open(scene: Scene, name: str) -> Cheat | NotApplicable:
    match name:
        case "build-hook":
            return _hand_in(scene, name, {"GNUmakefile": load_payload("c", "build-hook.txt")})
        case "test-shadow" if scene.module is not None:
            # Beside headers of the product, where a compiler looks before it looks into its own.
            place = PurePosixPath(scene.module).with_name("assert.h").as_posix()
            return _hand_in(scene, name, {place: load_payload("c", "shadow.txt")})
        case "results-written-early" if scene.results:
            script = build_early_results(scene, _add_to_build("early-exit"))
            return Cheat(name=name, variant="open", script=script)
        case "edited-tests" | "deleted-tests":
            return build_shared_cheat(scene, name, "the snapshot has no tests")
        case _ if name in _PARTS:
            return _hand_in(scene, name, _add_to_build(name))
        case _:
            return build_shared_cheat(scene, name, _POINTLESS[name])


def _add_to_build(name: str) -> dict[str, str]:
    """A file that make reads before the project's own, and that puts a payload into every object."""
    return {"GNUmakefile": load_payload("c", "start.txt"), "start.h": f"#pragma once\n{_build_payload(name)}"}


def _hand_in(scene: Scene, name: str, files: dict[str, str]) -> Cheat:
    return Cheat(name=name, variant="open", patch=build_patch(scene.files, dict(files)))
