"""Modules that added lines import."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from repotrial._core.python_source import parse_module
from repotrial.change import ChangedFile
from repotrial.policy._flag_lines import find_language

_LINE_CHARACTERS = 2000
_IMPORT = re.compile(r"\s*import\s+([\w.]+(?:\s+as\s+\w+)?(?:\s*,\s*[\w.]+(?:\s+as\s+\w+)?)*)\s*(?:[#;].*)?$")
_FROM = re.compile(r"\s*from\s+([\w][\w.]*)\s+import\b")
_SCRIPT = re.compile(r"(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*['\"]([^'\"]{1,200})['\"]")
_INSIDE = (".", "/", "#", "@/", "~", "node:", "bun:", "deno:")
_NODE = frozenset(
    {
        "assert",
        "async_hooks",
        "buffer",
        "child_process",
        "cluster",
        "console",
        "constants",
        "crypto",
        "dgram",
        "diagnostics_channel",
        "dns",
        "domain",
        "events",
        "fs",
        "http",
        "http2",
        "https",
        "inspector",
        "module",
        "net",
        "os",
        "path",
        "perf_hooks",
        "process",
        "punycode",
        "querystring",
        "readline",
        "repl",
        "stream",
        "string_decoder",
        "sys",
        "timers",
        "tls",
        "trace_events",
        "tty",
        "url",
        "util",
        "v8",
        "vm",
        "wasi",
        "worker_threads",
        "zlib",
    }
)


def find_imports(file: ChangedFile) -> Iterator[tuple[str, int]]:
    """Top-level packages that the added lines name, with the line; relative imports are not among them."""
    match find_language(file.path):
        case "python":
            yield from _find_in_python(file)
        case "javascript":
            yield from _find_in_javascript(file)
        case _:
            return


def is_standard(name: str, *, is_python: bool) -> bool:
    """Whether the language itself brings it."""
    return name in (sys.stdlib_module_names if is_python else _NODE)


def _find_in_python(file: ChangedFile) -> Iterator[tuple[str, int]]:
    tree = None
    if file.kind == "added":
        tree = parse_module("\n".join(line.text for line in file.added_lines) + "\n")
    found = _iter_lines(file) if tree is None else _iter_nodes(tree)
    return ((name.partition(".")[0], line) for name, line in found)


def _iter_nodes(tree: ast.Module) -> list[tuple[str, int]]:
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [(each.name, node.lineno) for each in names]
            case ast.ImportFrom(module=str(module), level=0):
                found.append((module, node.lineno))
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(module))]
            ):
                if name in {"__import__", "import_module"} and not module.startswith("."):
                    found.append((module, node.lineno))
            case _:
                pass
    return sorted(found, key=lambda each: each[1])


def _iter_lines(file: ChangedFile) -> Iterator[tuple[str, int]]:
    for line in file.added_lines:
        text = line.text[:_LINE_CHARACTERS].rstrip("\r")
        if (found := _IMPORT.match(text)) is not None:
            yield from ((part.split()[0], line.number) for part in found[1].split(","))
        elif (found := _FROM.match(text)) is not None:
            yield found[1], line.number


def _find_in_javascript(file: ChangedFile) -> Iterator[tuple[str, int]]:
    for line in file.added_lines:
        text = line.text[:_LINE_CHARACTERS]
        if text.lstrip().startswith(("//", "*", "/*")):
            continue
        for found in _SCRIPT.finditer(text):
            module = found[1]
            if not module.startswith(_INSIDE):
                parts = module.split("/")
                yield "/".join(parts[:2]) if module.startswith("@") else parts[0], line.number
