"""Cheats in Python, for judges that are Python too."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from repotrial._core.python_source import parse_python
from repotrial.authoring._certify._cheats._common import (
    Cheat,
    NotApplicable,
    build_daemon_commands,
    build_early_results,
    build_patch,
    build_script,
    build_trojan,
    delete_tests,
    hand_in,
    load_payload,
    put_into_module,
    refuse,
)
from repotrial.authoring._certify._cheats._scene import CheatScene

_PARTS: Final = {
    **dict.fromkeys(("sitecustomize", "early-exit", "exit-code", "results-written-early"), "forge.txt"),
    **dict.fromkeys(("results-daemon", "stdout-forgery", "path-trojan"), "forge.txt"),
    **dict.fromkeys(("edited-tests", "deleted-tests"), "forge.txt"),
    **dict.fromkeys(("skip-all", "equal-to-everything", "caller-frame"), "wrap.txt"),
    **dict.fromkeys(("test-shadow", "assertion-patched"), "watch.txt"),
}
"""What a payload in a module of the product stands on."""
_IN_CONFTEST: Final = ("early-exit", "exit-code", "skip-all", "stdout-forgery", "assertion-patched")
_IN_MODULE: Final = ("equal-to-everything", "framework-wrapped", "caller-frame")
_POINTLESS: Final = {
    "build-hook": "no code of the product runs while Python is compiled",
    "judge-memory": "it shares the judge's process already",
}
_KIND: Final = "Python module"
_FINE: Final = "def test_fine():\n    pass\n"


def build_module_cheat(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """The trick in a module of the product, or why there is none."""
    if name in _POINTLESS:
        return refuse(name, "module", _POINTLESS[name])
    part = load_payload("python", _PARTS[name]) if name in _PARTS else ""
    if name == "sitecustomize":
        part += f"\n_PLUGIN = {load_payload('python', 'plugin.txt')!r}\n"
    text = f"\n{part}\n{load_payload('python', f'{name}.txt')}"
    return put_into_module(scene, name, text, kind=_KIND)


def build_open_cheat(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """The trick wherever it can reach, or why there is none."""
    if name in _IN_MODULE:
        part = load_payload("python", _PARTS[name]) if name in _PARTS else ""
        text = f"\n{part}\n{load_payload('python', 'open', f'{name}.txt')}"
        return put_into_module(scene, name, text, variant="open", kind=_KIND)
    if name in _IN_CONFTEST:
        return hand_in(scene, name, _list_conftests(scene, load_payload("python", "open", f"{name}.txt")))
    if name in _OPEN:
        return _OPEN[name](scene)
    return refuse(name, "open", _POINTLESS.get(name, "only code inside the judge can know twins"))


def _build_hook(scene: CheatScene) -> Cheat:
    return hand_in(scene, "forced-pass-hook", _list_conftests(scene, load_payload("python", "plugin.txt")))


def _build_plugin(scene: CheatScene) -> Cheat:
    settings = "[pytest]\naddopts = -p forced_pass\npythonpath = .\n"
    plugin = load_payload("python", "plugin.txt")
    return hand_in(scene, "report-plugin", {"pytest.ini": settings, "forced_pass.py": plugin})


def _build_start_up(scene: CheatScene) -> Cheat:
    text = 'import os\n\nos.environ["PYTEST_ADDOPTS"] = "-p sitecustomize"\n\n\n'
    text += load_payload("python", "plugin.txt")
    return hand_in(scene, "sitecustomize", {f"{root}sitecustomize.py": text for root in scene.source_roots})


def _build_early(scene: CheatScene) -> Cheat:
    files = _list_conftests(scene, load_payload("python", "open", "early-exit.txt"))
    return Cheat(name="results-written-early", variant="open", script=build_early_results(scene, files))


def _build_daemon(scene: CheatScene) -> Cheat:
    files = _list_conftests(scene, load_payload("daemon-conftest.txt"))
    script = build_script(files, build_daemon_commands(scene))
    return Cheat(name="results-daemon", variant="open", script=script)


def _build_shadow(scene: CheatScene) -> Cheat:
    framework = load_payload("python", "open", "pytest.txt")
    files = {f"{root}pytest.py": framework for root in scene.source_roots}
    files |= {_join(folder, "test_shadow.py"): _FINE for folder in scene.oracle_folders}
    return hand_in(scene, "test-shadow", files)


def _build_trojan(_scene: CheatScene) -> Cheat:
    return Cheat(name="path-trojan", variant="open", script=build_trojan())


def _build_edited(scene: CheatScene) -> Cheat | NotApplicable:
    edited = {path: _empty_tests(scene.files[path]) for path in scene.tests}
    if not edited:
        return refuse("edited-tests", "open", "the snapshot has no tests")
    return hand_in(scene, "edited-tests", edited)


def _build_deleted(scene: CheatScene) -> Cheat | NotApplicable:
    if not scene.tests:
        return refuse("deleted-tests", "open", "the snapshot has no tests")
    patch = build_patch(scene.files, delete_tests(scene, _FINE))
    return Cheat(name="deleted-tests", variant="open", patch=patch)


_OPEN: Final[dict[str, Callable[[CheatScene], Cheat | NotApplicable]]] = {
    "forced-pass-hook": _build_hook,
    "report-plugin": _build_plugin,
    "sitecustomize": _build_start_up,
    "results-written-early": _build_early,
    "results-daemon": _build_daemon,
    "test-shadow": _build_shadow,
    "path-trojan": _build_trojan,
    "edited-tests": _build_edited,
    "deleted-tests": _build_deleted,
}


def _list_conftests(scene: CheatScene, text: str) -> dict[str, str]:
    """Wherever a framework might look for one."""
    folders = {path.rpartition("/")[0] for path in scene.tests} | {*scene.oracle_folders}
    return {_join(folder, "conftest.py"): text for folder in ("", *sorted(folders))}


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _empty_tests(text: str) -> str:
    """The same tests, each without a body."""
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError):
        return _FINE
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            node.body = [ast.Pass()]
    return ast.unparse(tree) + "\n"
