"""Cheats that need no language: tests edited and deleted, results and programs put in place early."""

from __future__ import annotations

from pathlib import PurePosixPath

from repotrial.authoring._certify._cheats._edit import build_script
from repotrial.authoring._certify._cheats._model import load_payload
from repotrial.authoring._certify._cheats._scene import Scene

__all__ = [
    "build_daemon_commands",
    "build_early_results",
    "build_trojan",
    "delete_tests",
]

_JUNIT = '<testsuites><testsuite><testcase classname="a" name="b"/></testsuite></testsuites>'
_TAP = "ok 1 - all\n1..1"


def build_trojan() -> bytes:
    """Programs of well-known names, wherever the agent may write outside of its tree."""
    return load_payload("script-trojan.txt").encode()


def build_early_results(scene: Scene, files: dict[str, str]) -> bytes:
    """Result files of every name that the contract uses, wherever they might be looked for."""
    commands = [
        load_payload("script-results.txt")
        .replace("@NAMES@", name)
        .replace("@RESULTS@", _TAP if name.endswith(".tap") else _JUNIT)
        for name in scene.results
    ]
    return build_script(files, *commands)


def build_daemon_commands(scene: Scene) -> str:
    """A process that waits for results in order to rewrite them."""
    return load_payload("script-daemon.txt").replace("@NAMES@", " ".join(scene.results))


def delete_tests(scene: Scene, remainder: str) -> dict[str, str | None]:
    """No test but one that says nothing."""
    first = PurePosixPath(scene.tests[0])
    kept = first.with_name(f"test_fine{first.suffix}").as_posix()
    return {**dict.fromkeys(scene.tests), kept: remainder}
