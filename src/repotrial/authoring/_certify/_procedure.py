"""What certification does, as a digest: a certificate of another procedure says nothing about this one."""

from __future__ import annotations

from typing import Final

from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial.authoring._certify._cheats import build_cheats
from repotrial.authoring._certify._cheats._model import Cheat
from repotrial.authoring._certify._cheats._scene import SUFFIXES, Scene

PROCEDURE: Final = 3
"""Raised by whoever changes what is tried or how it is judged, but for cheats: these count by themselves."""

_MODULES: Final = {"javascript": "export function answer() {}\n"}
"""Where a trick needs something to take hold of."""


def build_procedure_digest(ecosystem: str | None) -> Digest:
    """The procedure for contracts of an ecosystem: its number, and every cheat as made for one known scene.

    Cheats are made from a contract and its snapshot, which have digests of their own; here only what makes
    them may differ.
    """
    cheats: dict[str, JsonValue] = {
        f"{cheat.name} ({cheat.variant})": (
            digest_bytes(cheat.patch + (cheat.script or b"")) if isinstance(cheat, Cheat) else cheat.reason
        )
        for cheat in build_cheats(_build_scene(ecosystem or ""))
    }
    return canonical_digest({"procedure": PROCEDURE, "cheats": cheats})


def _build_scene(ecosystem: str) -> Scene:
    suffix = SUFFIXES.get(ecosystem, ("",))[0]
    module, test = f"product/module{suffix}", f"tests/test_product{suffix}"
    texts = {module: _MODULES.get(ecosystem, "text\n"), test: "test\n", "package.json": "{}\n"}
    return Scene(
        ecosystem=ecosystem,
        module=module,
        files=texts,
        tests=(test,),
        oracle_folders=("acceptance",),
        results=("junit.xml", "all.tap"),
    )
