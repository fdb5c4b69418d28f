"""Requirements that a change brings into manifests.

A new manifest is read whole. Of a changed one, only the lines are known, not the table that they stand in: a
line counts where it can hardly mean anything else.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Literal, TypeAlias

from repotrial._core.words import LOCKFILES
from repotrial.change import ChangedFile

PackageEcosystem: TypeAlias = Literal["python", "npm", "cargo", "go"]

_LINE_CHARACTERS = 2000
_REQUIREMENT = re.compile(
    r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[\w\s,.-]*\])?\s*(?=(===?|[~!]=|[<>]=?|@|\(|;)|\\?$|#)"
)
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'")
_DIRECT = re.compile(r"\s*(?:-e\s+|--editable[ =])?((?:git|hg|svn|bzr)\+\S+|https?://\S+|file:\S+)")
_LISTS = re.compile(
    r"\s*(?:dependencies|requires|install_requires|tests_require|dev|test|extras_require)\s*="
)
_ENTRY = re.compile(r"\s*(?:\"([^\"]+)\"|([A-Za-z0-9_.-]+))\s*[:=]\s*(.+?),?\s*$")
_TABLE = re.compile(r"\{.*\b(?:version|git|path|url|workspace|registry|file)\b")
_SPEC = re.compile(
    r"[\"'](?:[\^~<>=*]|\d+(?:\.|\"|'|$)|latest|next|(?:npm|workspace|file|link|git|https?|github)[:+])"
)
_MARKED_SPEC = re.compile(r"[\"'][\^~<>=*]")
_GO = re.compile(r"\s*(?:require\s+)?([a-z0-9.-]+\.[a-z]+(?:/[^\s]+)*)\s+v\d")
_NO_PYTHON = frozenset({"python", "requires-python", "version", "target-version", "python_version"})
_NO_CARGO = frozenset({"edition", "resolver", "rust-version", "version", "opt-level", "lto"})
_NO_NPM = frozenset({"node", "npm", "packageManager", "pnpm", "version", "vscode", "yarn"})
_LOCKS = frozenset(name.lower() for name in LOCKFILES)
_NPM_TABLES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")


def normalize_name(name: str, ecosystem: PackageEcosystem) -> str:
    """Equal for spellings that the ecosystem takes for the same."""
    if ecosystem in {"python", "cargo"}:
        return re.sub(r"[-_.]+", "-", name).lower()
    return name


def find_requirements(file: ChangedFile, *, is_manifest: bool) -> Iterator[tuple[str, PackageEcosystem, int]]:
    """Names that the file requires now and did not before, with the ecosystem and the line.

    Args:
        file: Any file of the change.
        is_manifest: Whether the contract calls it one; else its name decides.
    """
    form = _find_form(file.path, is_manifest=is_manifest)
    if form is None:
        return
    ecosystem = _ECOSYSTEMS[form]
    seen = {normalize_name(name, ecosystem) for text in file.removed_lines for name in _read_line(text, form)}
    for name, line in _iter_names(file, form):
        key = normalize_name(name, ecosystem)
        if key not in seen:
            seen.add(key)
            yield name, ecosystem, line


_Form: TypeAlias = Literal["requirements", "pyproject", "setup", "npm", "cargo", "go"]
_ECOSYSTEMS: dict[_Form, PackageEcosystem] = {
    "requirements": "python",
    "pyproject": "python",
    "setup": "python",
    "npm": "npm",
    "cargo": "cargo",
    "go": "go",
}


_FORMS: dict[str, _Form] = {
    "pyproject.toml": "pyproject",
    "pipfile": "pyproject",
    "setup.cfg": "setup",
    "setup.py": "setup",
    "package.json": "npm",
    "cargo.toml": "cargo",
    "go.mod": "go",
}


def _find_form(path: str, *, is_manifest: bool) -> _Form | None:
    name = path.rpartition("/")[2].lower()
    if name in _FORMS:
        return _FORMS[name]
    if re.fullmatch(r"(?:.*[-_.])?(?:requirements|constraints)\b.*\.(?:txt|in)", name):
        return "requirements"
    if "/requirements/" in f"/{path.lower()}" and name.endswith((".txt", ".in")):
        return "requirements"
    if is_manifest:
        suffix = name.rpartition(".")[2]
        forms: dict[str, _Form] = {"toml": "pyproject", "json": "npm", "cfg": "setup", "py": "setup"}
        return forms.get(suffix, "requirements")
    return None


def is_dependency_file(path: str, *, is_manifest: bool) -> bool:
    """Whether a file says what the project depends on: a manifest, or a package manager's lock."""
    name = path.rpartition("/")[2].lower()
    return name in _LOCKS or _find_form(path, is_manifest=is_manifest) is not None


def _iter_names(file: ChangedFile, form: _Form) -> Iterator[tuple[str, int]]:
    names = _read_whole(file, form) if file.kind == "added" else None
    if names is None:
        for line in file.added_lines:
            yield from ((name, line.number) for name in _read_line(line.text, form))
        return
    for name in names:
        lines = (line.number for line in file.added_lines if name in line.text)
        yield name, next(lines, 1)


def _read_line(text: str, form: _Form) -> list[str]:
    text = text[:_LINE_CHARACTERS].rstrip("\r")
    match form:
        case "requirements":
            found = _DIRECT.match(text) or _REQUIREMENT.match(text)
            return [found[1]] if found is not None and not text.lstrip().startswith("#") else []
        case "setup":
            parts = [first or second for first, second in _QUOTED.findall(text)] or [text]
            return [found[1] for part in parts if (found := _REQUIREMENT.match(part)) and found[2]]
        case "pyproject":
            return _read_pyproject_line(text)
        case "npm":
            return _read_entry(text, _SPEC, _NO_NPM)
        case "cargo":
            return _read_entry(text, _SPEC, _NO_CARGO)
        case "go":
            found = _GO.match(text)
            return [found[1]] if found is not None else []


def _read_pyproject_line(text: str) -> list[str]:
    is_list = _LISTS.match(text) is not None
    if not is_list and re.match(r"\s*[\"']", text) is None:
        return _read_entry(text, _MARKED_SPEC, _NO_PYTHON)
    found = (_REQUIREMENT.match(first or second) for first, second in _QUOTED.findall(text))
    return [each[1] for each in found if each is not None and (each[2] or is_list)]


def _read_entry(text: str, spec: re.Pattern[str], excluded: frozenset[str]) -> list[str]:
    found = _ENTRY.match(text)
    if found is None:
        return []
    key = found[1] or found[2]
    name = key.removesuffix(".workspace").removesuffix(".version")
    is_dotted = found[1] is None and name != key  # `serde.workspace = true`
    is_entry = is_dotted or spec.match(found[3]) is not None or _TABLE.match(found[3]) is not None
    return [name] if is_entry and name not in excluded else []


def _read_whole(file: ChangedFile, form: _Form) -> list[str] | None:
    """All names of a new manifest; None where it cannot be read as a whole."""
    text = "\n".join(line.text for line in file.added_lines)
    try:
        match form:
            case "npm":
                return _list_tables(json.loads(text), _NPM_TABLES)
            case "pyproject":
                return _list_pyproject(tomllib.loads(text))
            case "cargo":
                return _list_tables(
                    tomllib.loads(text), ("dependencies", "dev-dependencies", "build-dependencies")
                )
            case "requirements" | "setup" | "go":
                return None
    except (ValueError, RecursionError):
        return None


def _list_tables(document: object, keys: tuple[str, ...]) -> list[str]:
    if not isinstance(document, dict):
        return []
    return [str(name) for key in keys if isinstance(document.get(key), dict) for name in document[key]]


def _list_pyproject(document: dict[str, object]) -> list[str]:
    project, groups = (_get(document, name) for name in ("project", "dependency-groups"))
    poetry = _get(_get(document, "tool"), "poetry")
    lists: list[object] = [
        project.get("dependencies"),
        *_get(project, "optional-dependencies").values(),
        *groups.values(),
        _get(document, "build-system").get("requires"),
    ]
    texts = [each for items in lists if isinstance(items, list) for each in items if isinstance(each, str)]
    found = [match[1] for text in texts if (match := _REQUIREMENT.match(text))]
    tables = [poetry, *(group for group in _get(poetry, "group").values() if isinstance(group, dict))]
    names = [name for table in tables for name in _list_tables(table, ("dependencies", "dev-dependencies"))]
    return [*found, *(name for name in names if name not in _NO_PYTHON)]


def _get(table: dict[str, object], key: str) -> dict[str, object]:
    found = table.get(key)
    return found if isinstance(found, dict) else {}
