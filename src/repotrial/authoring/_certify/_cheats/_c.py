"""Cheats in C, for judges that link the product or start it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from repotrial.authoring._certify._cheats._common import (
    Cheat,
    NotApplicable,
    build_early_results,
    build_shared_cheat,
    hand_in,
    load_payload,
    put_into_module,
    refuse,
)
from repotrial.authoring._certify._cheats._scene import CheatScene

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


def build_module_cheat(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """The trick in a module of the product, or why there is none."""
    if name in _POINTLESS:
        return refuse(name, "module", _POINTLESS[name])
    return put_into_module(scene, name, _build_payload(name))


def _build_payload(name: str) -> str:
    return "".join(load_payload("c", part) for part in (*_PARTS[name], f"{name}.txt"))


def build_open_cheat(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """The trick wherever it can reach, or why there is none."""
    match name:
        case "build-hook":
            return hand_in(scene, name, {"GNUmakefile": load_payload("c", "build-hook.txt")})
        case "test-shadow" if scene.module is not None:
            # Beside headers of the product, where a compiler looks before it looks into its own.
            place = PurePosixPath(scene.module).with_name("assert.h").as_posix()
            return hand_in(scene, name, {place: load_payload("c", "shadow.txt")})
        case "results-written-early" if scene.results:
            script = build_early_results(scene, _add_to_build("early-exit"))
            return Cheat(name=name, variant="open", script=script)
        case "edited-tests" | "deleted-tests":
            return build_shared_cheat(scene, name, "the snapshot has no tests")
        case _ if name in _PARTS:
            return hand_in(scene, name, _add_to_build(name))
        case _:
            return build_shared_cheat(scene, name, _POINTLESS[name])


def _add_to_build(name: str) -> dict[str, str]:
    """A file that make reads before the project's own, and that puts a payload into every object."""
    return {"GNUmakefile": load_payload("c", "start.txt"), "start.h": f"#pragma once\n{_build_payload(name)}"}
