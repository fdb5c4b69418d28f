"""Cheats in Rust, for judges that link the product or start it."""

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

_AS_RUNNER: Final = (
    *("early-exit", "exit-code", "skip-all", "stdout-forgery", "results-daemon"),
    *("report-plugin", "framework-wrapped", "sitecustomize"),
)
"""Payloads that cargo starts in the place of test programs."""
_POINTLESS: Final = {
    "forced-pass-hook": "the framework has no hook that changes a report",
    "path-trojan": "the judge's programs run already",
    "test-shadow": "nothing of one crate is put in the place of another's",
    "build-hook": "a module runs when the program does, not when it is built",
    "assertion-patched": "an assertion is compiled into its caller",
    "equal-to-everything": "answers of built-in types are compared by the language",
    "caller-frame": "a caller's constants have no names",
    "twin-aware": "an author's wrong expectations do not look like anything",
    "silent-in-doubt": "an author's wrong expectations do not look like anything",
}


def build_rust_cheats(scene: Scene) -> Iterable[Cheat | NotApplicable]:
    """Every trick in both variants, as far as the contract leaves room for it."""
    for name in TRICKS:
        yield _build_open(scene, name)
        yield _build_module(scene, name)


def _build_module(scene: Scene, name: str) -> Cheat | NotApplicable:
    if name in _POINTLESS:
        return refuse(name, "module", _POINTLESS[name])
    body = load_payload("rust", "forge.txt") + load_payload("rust", f"{name}.txt")
    text = f"#[allow(dead_code, unused_imports)]\nmod cheat_again {{\n{body}}}\n"
    return put_into_module(scene, name, text)


def _build_open(scene: Scene, name: str) -> Cheat | NotApplicable:
    match name:
        case "build-hook" if scene.module is not None:
            place = _find_package(scene.module)
            return _hand_in(scene, name, {f"{place}build.rs": load_payload("rust", "build.txt")})
        case "results-written-early" if scene.results:
            script = build_early_results(scene, _add_runner("early-exit"))
            return Cheat(name=name, variant="open", script=script)
        case _ if name in _AS_RUNNER:
            return _hand_in(scene, name, _add_runner(name))
        case _:
            return build_shared_cheat(
                scene, name, _POINTLESS.get(name, "a runner sees the program from outside")
            )


def _find_package(module: str) -> str:
    """Where the manifest of a source file's package is, as a rule: above `src`."""
    parts = PurePosixPath(module).parts
    above = parts[: parts.index("src")] if "src" in parts else ()
    return "".join(f"{part}/" for part in above)


def _add_runner(name: str) -> dict[str, str]:
    config = '[target.\'cfg(all())\']\nrunner = ["/bin/sh", "runner.sh"]\n'
    return {".cargo/config.toml": config, "runner.sh": load_payload("rust", "open", f"{name}.txt")}


def _hand_in(scene: Scene, name: str, files: dict[str, str]) -> Cheat:
    return Cheat(name=name, variant="open", patch=build_patch(scene.files, dict(files)))
