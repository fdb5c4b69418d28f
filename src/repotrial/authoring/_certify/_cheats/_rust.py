"""Cheats in Rust, for judges that link the product or start it."""

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


def build_module_cheat(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """The trick in a module of the product, or why there is none."""
    if name in _POINTLESS:
        return refuse(name, "module", _POINTLESS[name])
    body = load_payload("rust", "forge.txt") + load_payload("rust", f"{name}.txt")
    text = f"#[allow(dead_code, unused_imports)]\nmod cheat_again {{\n{body}}}\n"
    return put_into_module(scene, name, text)


def build_open_cheat(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """The trick wherever it can reach, or why there is none."""
    match name:
        case "build-hook" if scene.module is not None:
            place = _find_package(scene.module)
            return hand_in(scene, name, {f"{place}build.rs": load_payload("rust", "build.txt")})
        case "results-written-early" if scene.results:
            script = build_early_results(scene, _add_runner("early-exit"))
            return Cheat(name=name, variant="open", script=script)
        case _ if name in _AS_RUNNER:
            return hand_in(scene, name, _add_runner(name))
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
