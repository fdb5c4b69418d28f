"""Cheats in JavaScript, for judges that are node's own test runner."""

from __future__ import annotations

import json
import re
from typing import Final

from repotrial.authoring._certify._cheats._common import (
    Cheat,
    NotApplicable,
    build_daemon_commands,
    build_early_results,
    build_script,
    build_shared_cheat,
    hand_in,
    load_payload,
    put_into_module,
    refuse,
)
from repotrial.authoring._certify._cheats._scene import CheatScene

_PARTS: Final = {
    **dict.fromkeys(("early-exit", "stdout-forgery", "assertion-patched"), ()),
    **dict.fromkeys(("results-written-early", "results-daemon", "sitecustomize"), ("forge.txt",)),
    **dict.fromkeys(("edited-tests", "deleted-tests"), ("forge.txt",)),
    **dict.fromkeys(("exit-code", "report-plugin"), ("stream.txt",)),
    **dict.fromkeys(("framework-wrapped", "test-shadow", "skip-all"), ("runner.txt",)),
}
"""Payloads, and what each of them stands on."""
_AT_START: Final = frozenset(_PARTS) - {"sitecustomize", "edited-tests", "deleted-tests"}
"""Payloads that also work from a file that node loads before the judge."""
_POINTLESS: Final = {
    "forced-pass-hook": "the framework has no hook that changes a report",
    "path-trojan": "the judge's programs run already",
    "equal-to-everything": "a value has no say in how it is compared",
    "build-hook": "nothing is built",
    "judge-memory": "it shares the judge's process already",
    "twin-aware": "an author's wrong expectations do not look like anything",
    "silent-in-doubt": "an author's wrong expectations do not look like anything",
}
_START: Final = {".npmrc": "node-options=--require ./start.cjs\n"}
_ESM: Final = re.compile(r"^(import|export)\b", re.MULTILINE)
_FUNCTION: Final = re.compile(r"^export (?:async )?function (\w+)", re.MULTILINE)


def build_module_cheat(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """The trick in a module of the product, or why there is none."""
    if name in _POINTLESS:
        return refuse(name, "module", _POINTLESS[name])
    if scene.module is None or scene.module not in scene.files:
        return refuse(name, "module", "no module of the product may be changed")
    old = scene.files[scene.module]
    is_esm = _ESM.search(old) is not None
    text = _ask_callers(old, is_esm=is_esm) if name == "caller-frame" else _build_payload(name)
    if not text:
        return refuse(name, "module", "the module exports no function")
    head = (
        'import { createRequire as createRequireAgain } from "node:module";\n'
        "const loadAgain = createRequireAgain(import.meta.url);\n"
        if is_esm
        else "const loadAgain = require;\n"
    )
    return put_into_module(scene, name, f"{head}{text}")


def _build_payload(name: str) -> str:
    parts = [load_payload("node", part) for part in _PARTS[name]]
    if name == "sitecustomize":
        start = load_payload("node", "stream.txt") + load_payload("node", "report-plugin.txt")
        parts.append(f"const START = {json.dumps(start)};\n")
    return f"((load) => {{\n{''.join(parts)}{load_payload('node', f'{name}.txt')}}})(loadAgain);\n"


def _ask_callers(old: str, *, is_esm: bool) -> str:
    """Functions of the module, each replaced by one that looks at who calls it."""
    names = _FUNCTION.findall(old)
    if is_esm and not names:
        return ""
    text = load_payload("node", "caller-frame.txt")
    wrap = f"const askAgain = ((load) => {{\n{text}return askCaller;\n}})(loadAgain);\n"
    if is_esm:
        return wrap + "".join(f"{name} = askAgain({name});\n" for name in names)
    return (
        f"{wrap}for (const [name, value] of Object.entries(module.exports)) {{\n"
        '  if (typeof value === "function") module.exports[name] = askAgain(value);\n}\n'
    )


def build_open_cheat(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """The trick wherever it can reach, or why there is none."""
    match name:
        case "results-written-early" if scene.results:
            start = {**_START, "start.cjs": _write_start("early-exit")}
            return Cheat(name=name, variant="open", script=build_early_results(scene, start))
        case "results-daemon" if scene.results:
            start = {**_START, "start.cjs": load_payload("node", "leave.txt")}
            script = build_script(start, build_daemon_commands(scene))
            return Cheat(name=name, variant="open", script=script)
        case "sitecustomize":
            files = {**_START, "start.cjs": "process.exit(0);\n"}
            return hand_in(scene, name, files)
        case "build-hook" if "package.json" in scene.files:
            return _replace_scripts(scene, name)
        case _ if name in _AT_START:
            files = {**_START, "start.cjs": _write_start(name)}
            return hand_in(scene, name, files)
        case _:
            return build_shared_cheat(scene, name, _POINTLESS.get(name, "only code in the product is asked"))


def _write_start(name: str) -> str:
    return f"const loadAgain = require;\n{_build_payload(name)}"


def _replace_scripts(scene: CheatScene, name: str) -> Cheat | NotApplicable:
    """What the package manager runs for tests does nothing."""
    try:
        package = json.loads(scene.files["package.json"])
    except ValueError:
        return refuse(name, "open", "the package cannot be read")
    package["scripts"] = {"pretest": "exit 0", "test": "exit 0"}
    new = {"package.json": json.dumps(package, indent=2) + "\n"}
    return hand_in(scene, name, new)
