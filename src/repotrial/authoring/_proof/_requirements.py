"""What a Python project says it needs for its tests, read from its files: nothing is imported or run."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from repotrial._core.python_source import parse_literal, parse_python
from repotrial.authoring._base import CommitTree

_TEST_GROUPS: Final = frozenset({"test", "tests", "testing", "dev", "develop", "development", "unittest"})
_FILES: Final = re.compile(
    r"(?:requirements/)?(?:requirements[-_.]?)?(?:tests?|testing|dev)(?:[-_.]?requirements)?\.(?:txt|in)"
    r"|requirements\.txt|requirements/base\.(?:txt|in)"
)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_LINE: Final = re.compile(
    rf"(?P<name>{_NAME.pattern})\s*(?P<extras>\[[\w., -]*\])?\s*"
    r"(?P<versions>\(?(?:[<>=!~]=?=?\s*[\w.*+!-]+\s*,?\s*)*\)?)\s*(?:;(?P<marker>[^#]*))?"
)
_TOOLS: Final = frozenset(
    # What looks at a project, formats, builds or publishes it; tests do not import it.
    {
        *("tox", "nox", "pre-commit", "mypy", "pyright", "flake8", "black", "isort", "ruff", "pylint"),
        *("build", "twine", "wheel", "setuptools", "setuptools-scm", "pip", "coverage", "pytest-cov"),
        *("codecov", "coveralls", "sphinx", "furo", "mkdocs", "cogapp", "bumpversion", "bump2version"),
        *("pytest-xdist", "pytest-randomly", "pytest-sugar", "pytest-black", "pytest-flake8", "pytest-mypy"),
        *(
            "pytest-codspeed",
            "pytest-enabler",
            "pytest-checkdocs",
            "pytest-ruff",
            "pytest-pretty",
            "towncrier",
        ),
        *(
            "uv",
            "tox-uv",
            "hatch",
            "flit",
            "flit-core",
            "poetry",
            "poetry-core",
            "check-manifest",
            "zest-releaser",
        ),
        *("simplejson-stubs", "pip-tools", "pipenv", "ipython", "jupyter", "watchdog", "invoke", "gh"),
    }
)
_KNOWN_IMPORTS: Final = {
    "hypothesis": "hypothesis",
    "freezegun": "freezegun",
    "time_machine": "time-machine",
    "pytest_mock": "pytest-mock",
    "numpy": "numpy",
    "yaml": "PyYAML",
    "dateutil": "python-dateutil",
    "pytz": "pytz",
    "attr": "attrs",
    "simplejson": "simplejson",
    "mock": "mock",
    "six": "six",
    "packaging": "packaging",
    "typing_extensions": "typing-extensions",
    "parameterized": "parameterized",
    "pretend": "pretend",
    "responses": "responses",
}
"""Modules that tests import, and the distributions that everybody means by them. Others are not guessed: a
name on the index that nothing of the project mentions may be anything."""


class DeclaredRequirements(msgspec.Struct, frozen=True, kw_only=True):
    """Requirement lines, by what they are for."""

    runtime: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """The files that they are from."""


def normalize_name(name: str) -> str:
    """A distribution's name in the one spelling that indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_requirement_name(line: str) -> str:
    """The distribution that a requirement line names; empty if it names none."""
    match = _NAME.match(line.strip())
    return "" if match is None else normalize_name(match[0])


def drop_versions(lines: Iterable[str]) -> tuple[str, ...]:
    """The same packages in any version: for pins that nothing of this interpreter's time satisfies."""
    return tuple(dict.fromkeys(find_requirement_name(line) for line in lines))


def read_requirements(tree: CommitTree, root: str, *, own_names: Iterable[str]) -> DeclaredRequirements:
    """What the files of a package of the tree declare.

    Args:
        tree: Of the change: what it begins to need must be there.
        root: The package's directory; empty for the top.
        own_names: Distributions that the tree itself is.
    """
    at = f"{root}/" if root else ""
    runtime: list[str] = []
    tests: list[str] = []
    sources: list[str] = []

    def take(name: str, found: tuple[list[str], list[str]]) -> None:
        runtime.extend(found[0])
        tests.extend(found[1])
        if found[0] or found[1]:
            sources.append(name)

    take("pyproject.toml", _read_pyproject(_load_toml(tree.read_text(f"{at}pyproject.toml"))))
    take("setup.cfg", _read_setup_cfg(tree.read_text(f"{at}setup.cfg")))
    take("setup.py", _read_setup_py(tree.read_text(f"{at}setup.py")))
    take("tox.ini", ([], _read_tox(tree.read_text(f"{at}tox.ini"))))
    for path in tree.list_files():
        if path.startswith(at) and _FILES.fullmatch(path.removeprefix(at)):
            lines = (tree.read_text(path) or "").splitlines()
            take(path, ([], [line for line in lines if not line.strip().startswith(("-", "#"))]))
    dropped = {normalize_name(name) for name in own_names} | _TOOLS
    return DeclaredRequirements(
        runtime=_clean(runtime, dropped), tests=_clean(tests, dropped), sources=tuple(dict.fromkeys(sources))
    )


def list_known_imports(texts: Iterable[str]) -> tuple[str, ...]:
    """Distributions that test files import by a name that leaves no doubt."""
    found = set()
    for text in texts:
        try:
            module = parse_python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(module):
            match node:
                case ast.Import(names=names):
                    found |= {alias.name.partition(".")[0] for alias in names}
                case ast.ImportFrom(module=str(name), level=0):
                    found.add(name.partition(".")[0])
                case _:
                    continue
    return tuple(sorted(_KNOWN_IMPORTS[name] for name in found if name in _KNOWN_IMPORTS))


def _clean(lines: Iterable[str], dropped: Iterable[str]) -> tuple[str, ...]:
    left = frozenset(dropped)
    found = []
    for line in lines:
        bare = re.sub(r"\s+#.*$", "", line).strip()
        match = _LINE.fullmatch(bare)
        if match is None or normalize_name(match["name"]) in left:
            continue
        found.append(" ".join(bare.split()))
    return tuple(dict.fromkeys(found))


def _load_toml(text: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {}


def _read_pyproject(document: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    project = _table(document, "project")
    groups = _table(document, "dependency-groups")
    tests = [
        line
        for table in (_table(project, "optional-dependencies"), groups)
        for name, lines in table.items()
        if normalize_name(name) in _TEST_GROUPS
        for line in _flatten_group(lines, groups)
    ]
    poetry = _table(_table(document, "tool"), "poetry")
    runtime = [*_strings(project.get("dependencies")), *_iter_poetry(_table(poetry, "dependencies"))]
    tests += _iter_poetry(_table(poetry, "dev-dependencies"))
    for name, group in _table(poetry, "group").items():
        if normalize_name(name) in _TEST_GROUPS and isinstance(group, dict):
            tests += _iter_poetry(_table(group, "dependencies"))
    return runtime, tests


def _flatten_group(lines: object, groups: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, str):
            yield line
        elif isinstance(line, dict) and depth < len(groups):
            yield from _flatten_group(groups.get(str(line.get("include-group"))), groups, depth + 1)


def _iter_poetry(table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        version = value if isinstance(value, str) else _table({"it": value}, "it").get("version", "")
        if name == "python" or not isinstance(version, str):
            continue
        yield name + _translate_caret(version)


def _translate_caret(version: str) -> str:
    """Poetry's own operators as those of every index; what is neither is left open."""
    match = re.fullmatch(r"[\^~]\s*(\d+)((?:\.\d+)*)", version.strip())
    if match is not None:
        return f">={match[1]}{match[2]},<{int(match[1]) + 1}"
    return version if re.match(r"[<>=!~]", version) else ""


def _read_setup_cfg(text: str | None) -> tuple[list[str], list[str]]:
    parser = _parse_ini(text)
    runtime = parser.get("options", "install_requires", fallback="").splitlines()
    tests = parser.get("options", "tests_require", fallback="").splitlines()
    if parser.has_section("options.extras_require"):
        for name, value in parser.items("options.extras_require"):
            if normalize_name(name) in _TEST_GROUPS:
                tests += value.splitlines()
    return runtime, tests


def _read_tox(text: str | None) -> list[str]:
    lines = _parse_ini(text).get("testenv", "deps", fallback="").splitlines()
    # `py311: package` is for one factor, `-r file` is another file, `{…}` a substitution.
    return [line for line in lines if not re.search(r"^\s*-|^[^=<>]*:|\{", line)]


def _parse_ini(text: str | None) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text or "")
    except configparser.Error:
        return configparser.RawConfigParser()
    return parser


def _read_setup_py(text: str | None) -> tuple[list[str], list[str]]:
    runtime: list[str] = []
    tests: list[str] = []
    try:
        module = parse_python(text or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return runtime, tests
    names = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            value = names.get(keyword.value.id) if isinstance(keyword.value, ast.Name) else keyword.value
            literal = _evaluate(value)
            if keyword.arg == "install_requires":
                runtime += _strings(literal)
            elif keyword.arg == "tests_require":
                tests += _strings(literal)
            elif keyword.arg == "extras_require" and isinstance(literal, dict):
                groups = [value for name, value in literal.items() if str(name).lower() in _TEST_GROUPS]
                tests += [line for group in groups for line in _strings(group)]
    return runtime, tests


def _evaluate(node: ast.expr | None) -> object:
    try:
        return None if node is None else parse_literal(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _strings(value: object) -> list[str]:
    items = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return [item for item in items if isinstance(item, str)]


def _table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name)
    return found if isinstance(found, dict) else {}
