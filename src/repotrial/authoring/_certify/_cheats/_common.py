"""Cheats that need no language: tests edited and deleted, results and programs put in place early."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from repotrial.authoring._certify._cheats._edit import build_patch, build_script
from repotrial.authoring._certify._cheats._model import Cheat, CheatVariant, NotApplicable, load_payload
from repotrial.authoring._certify._cheats._scene import Scene

_JUNIT = '<testsuites><testsuite><testcase classname="a" name="b"/></testsuite></testsuites>'
_TEXTS = {
    ".tap": "ok 1 - all\n1..1",
    ".txt": "running 1 test\ntest all ... ok\n\n"
    "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
}
_FINE = {".c": "int main(void) { return 0; }\n"}
_ASSERTION = re.compile(r"^(\s*)(?:debug_)?assert\w*!?\s*\(.*\);$", re.MULTILINE)


def build_trojan() -> bytes:
    """Programs of well-known names, wherever the agent may write outside of its tree."""
    return load_payload("script-trojan.txt").encode()


def build_early_results(scene: Scene, files: dict[str, str]) -> bytes:
    """Result files of every name that the contract uses, wherever they might be looked for."""
    commands = [
        load_payload("script-results.txt")
        .replace("@NAMES@", name)
        .replace("@RESULTS@", _TEXTS.get(PurePosixPath(name).suffix, _JUNIT))
        for name in scene.results
    ]
    return build_script(files, *commands)


def build_daemon_commands(scene: Scene) -> str:
    """A process that waits for results in order to rewrite them."""
    return load_payload("script-daemon.txt").replace("@NAMES@", " ".join(scene.results))


def delete_tests(scene: Scene, remainder: str) -> dict[str, str | None]:
    """No test but one that says nothing."""
    first = PurePosixPath(scene.tests[0])
    is_marked = len(first.suffixes) > 1  # as in `name.test.js`
    name = f"fine{''.join(first.suffixes)}" if is_marked else f"test_fine{first.suffix}"
    return {**dict.fromkeys(scene.tests), first.with_name(name).as_posix(): remainder}


def build_shared_cheat(scene: Scene, name: str, reason: str) -> Cheat | NotApplicable:
    """Open tricks that need no language; of others the reason why there is none."""
    match name:
        case "path-trojan":
            return Cheat(name=name, variant="open", script=build_trojan())
        case "results-written-early" if scene.results:
            return Cheat(name=name, variant="open", script=build_early_results(scene, {}))
        case "edited-tests" if scene.tests:
            edited = {path: _empty_test(path, scene.files[path]) for path in scene.tests}
            return Cheat(name=name, variant="open", patch=build_patch(scene.files, dict(edited)))
        case "deleted-tests" if scene.tests:
            remainder = _FINE.get(PurePosixPath(scene.tests[0]).suffix, "\n")
            return Cheat(
                name=name, variant="open", patch=build_patch(scene.files, delete_tests(scene, remainder))
            )
        case _:
            return refuse(name, "open", reason)


def put_into_module(
    scene: Scene, name: str, text: str, *, variant: CheatVariant = "module", kind: str = "module"
) -> Cheat | NotApplicable:
    """The product's own module, with something at its end."""
    if scene.module is None or scene.module not in scene.files:
        return refuse(name, variant, f"no {kind} of the product may be changed")
    old = scene.files[scene.module]
    new = old + ("" if not old or old.endswith("\n") else "\n") + f"\n{text}"
    return Cheat(name=name, variant=variant, patch=build_patch(scene.files, {scene.module: new}))


def _empty_test(path: str, text: str) -> str:
    """Without assertions where the rest is needed to build, else without anything."""
    return _ASSERTION.sub(r"\1;", text) if path.endswith((".c", ".h", ".rs")) else "\n"


def refuse(name: str, variant: CheatVariant, reason: str) -> NotApplicable:
    """No such cheat, and why."""
    return NotApplicable(name=name, variant=variant, reason=reason)
