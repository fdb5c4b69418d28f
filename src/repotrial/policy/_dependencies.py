"""What a change newly depends on, and whether it says so: candidates for dependency hallucination (S9)."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from repotrial._core.python_source import parse_module
from repotrial.change import ChangedFile, ChangeView, PathRules
from repotrial.contract import DependencyPolicy, Policy
from repotrial.policy._flag_lines import find_language
from repotrial.policy._manifests import (
    PackageEcosystem,
    find_requirements,
    is_dependency_file,
    normalize_name,
)
from repotrial.policy._rules import PolicyViolation

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


class KnownNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names that are no news."""

    project: frozenset[str] = frozenset()
    """Top-level packages and modules of the project itself."""
    installed: frozenset[str] = frozenset()
    """What the environment can import, by the name in an import."""
    declared: frozenset[str] = frozenset()
    """What the project's manifests required before the change."""


class NewDependency(msgspec.Struct, frozen=True, kw_only=True):
    """A name that the change newly depends on."""

    name: str
    """As it is written there."""
    ecosystem: PackageEcosystem
    """Whose registry would have it."""
    path: str
    """The file, as the trace writes names."""
    line: int
    """From 1, after the change."""
    declared: bool
    """Whether a manifest requires it, before or by the change."""
    source: Literal["manifest", "import"]
    """Where it was found."""


def find_new_dependencies(
    view: ChangeView, policy: DependencyPolicy, known: KnownNames
) -> tuple[NewDependency, ...]:
    """New requirements, and imports that nothing known provides; in the order of the patch.

    Raises:
        POLICY_GLOB: a glob of the policy means nothing.
    """
    required = tuple(_iter_required(view, policy, known))
    declared = {(each.ecosystem, normalize_name(each.name, each.ecosystem)) for each in required}
    return (*required, *_iter_imported(view, known, declared))


def find_dependency_files(view: ChangeView, policy: DependencyPolicy) -> tuple[str, ...]:
    """Manifests and locks that the change touches: additions, other versions and removals alike (B6).

    A line is not read: what a reader of lines does not know would pass without review.

    Raises:
        POLICY_GLOB: a glob of the policy means nothing.
    """
    manifests = PathRules(policy.manifests)
    paths = {path for file in view.files for path in file.touched_paths}
    return tuple(
        sorted(path for path in paths if is_dependency_file(path, is_manifest=manifests.covers(path)))
    )


def check_dependencies(found: Sequence[NewDependency], policy: Policy) -> tuple[PolicyViolation, ...]:
    """The dependencies that the policy's rule does not allow."""
    rule = policy.dependencies.rule
    return tuple(
        PolicyViolation(
            rule="dependencies",
            severity=policy.violations.dependencies,
            path=each.path,
            message=f"expected the rule '{rule}' to hold, found {each.name!r} in line {each.line}",
        )
        for each in found
        if rule == "unchanged" or (rule == "declared-only" and not each.declared)
    )


def _iter_required(view: ChangeView, policy: DependencyPolicy, known: KnownNames) -> Iterator[NewDependency]:
    manifests = PathRules(policy.manifests)
    for file in view.iter_present():
        for name, ecosystem, line in find_requirements(file, is_manifest=manifests.covers(file.path)):
            if not _has(known.declared, name, ecosystem):
                yield NewDependency(
                    name=name,
                    ecosystem=ecosystem,
                    path=file.path,
                    line=line,
                    declared=True,
                    source="manifest",
                )


def _iter_imported(
    view: ChangeView, known: KnownNames, declared: set[tuple[PackageEcosystem, str]]
) -> Iterator[NewDependency]:
    brought = {
        part.rpartition(".")[0] or part for file in view.iter_present() for part in file.path.split("/")
    }
    seen: set[tuple[str, str]] = set()
    for file in view.iter_present():
        ecosystem: PackageEcosystem = "python" if find_language(file.path) == "python" else "npm"
        for name, line in find_imports(file):
            is_own = name in known.project or (ecosystem == "python" and name in brought)
            if is_own or name in known.installed or is_standard(name, is_python=ecosystem == "python"):
                continue
            if (file.path, name) in seen:
                continue
            seen.add((file.path, name))
            is_declared = (ecosystem, normalize_name(name, ecosystem)) in declared
            yield NewDependency(
                name=name,
                ecosystem=ecosystem,
                path=file.path,
                line=line,
                declared=is_declared or _has(known.declared, name, ecosystem),
                source="import",
            )


def _has(names: frozenset[str], name: str, ecosystem: PackageEcosystem) -> bool:
    key = normalize_name(name, ecosystem)
    return name in names or any(normalize_name(each, ecosystem) == key for each in names)
