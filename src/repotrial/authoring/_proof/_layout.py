"""Where a Python project keeps its code, what it generates when it is built, and how its tests are called."""

from __future__ import annotations

import configparser
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from repotrial.authoring._base import CommitTree
from repotrial.authoring._proof._requirements import normalize_name
from repotrial.authoring._template import Guess

_WORKSPACE: Final = "/workspace"
_METADATA: Final = "/opt/repotrial/metadata"
_FALLBACK_VERSION: Final = "0.0.0"
_MARKERS: Final = ("pyproject.toml", "setup.cfg", "setup.py")
_ASKS_METADATA: Final = re.compile(r"\b(?:importlib[._]metadata|pkg_resources)\b")
_VERSION: Final = re.compile(r"^__version__\s*(?::[^=]+)?=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
_SAFE_OPTION: Final = re.compile(
    r"--(?:import-mode|doctest-(?:modules|glob|continue-on-failure)|strict(?:-markers|-config)?|tb|durations"
    r"|showlocals|color|verbose|quiet|maxfail|pyargs|capture|disable-warnings|rootdir|confcutdir|ignore\w*)\b"
    r"|-[rvqlsWmkp]"
)
"""Options of pytest itself; those of plugins fail where the plugin is not loaded."""
_PLUGINS: Final = {
    "pytest-asyncio": "pytest_asyncio.plugin",
    "pytest-mock": "pytest_mock",
    "pytest-subtests": "subtests",
    "pytest-timeout": "pytest_timeout",
    "pytest-httpserver": "pytest_httpserver.pytest_plugin",
    "pytest-datadir": "pytest_datadir.plugin",
    "pytest-freezer": "pytest_freezer",
    "pytest-regressions": "pytest_regressions.plugin",
    "pytest-benchmark": "pytest_benchmark.plugin",
    "pytest-httpx": "pytest_httpx",
    "pytest-trio": "pytest_trio.plugin",
    "pytest-socket": "pytest_socket",
    "anyio": "anyio.pytest_plugin",
    "hypothesis": "_hypothesis_pytestplugin",
    "requests-mock": "requests_mock.contrib._pytest_plugin",
    "time-machine": "time_machine",
    "syrupy": "syrupy",
}
"""By distribution: the module that is its plugin. Judges load no plugin that is not named."""


class PythonLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What a draft must say so that the project's tests find the project."""

    root: str
    """The package's directory in a monorepo; empty for the top."""
    name: str
    """The distribution's name; empty if no file says it."""
    version: str
    variables: Mapping[str, str]
    files: Mapping[str, str]
    """By absolute path inside the sandbox: files that building the project would make."""
    options: tuple[str, ...]
    """For pytest, on the command line."""
    guesses: tuple[Guess, ...]


def find_package_root(tree: CommitTree, test_files: Sequence[str]) -> str:
    """The directory that holds a project's manifest and all of these tests; the deepest one there is."""
    folders = [posixpath.dirname(path) for path in test_files]
    common = posixpath.commonpath(folders) if folders and all(folders) else ""
    while common:
        if any(tree.read_text(f"{common}/{marker}") is not None for marker in _MARKERS):
            return common
        common = posixpath.dirname(common)
    return ""


def survey_layout(tree: CommitTree, root: str, *, head: CommitTree) -> PythonLayout:
    """Read a package of a tree; nothing of it is executed.

    Args:
        tree: On which the agent starts.
        root: The package's directory; empty for the top.
        head: With the change: what it begins to ask for must be there.
    """
    at = f"{root}/" if root else ""
    pyproject = _load_toml(tree.read_text(f"{at}pyproject.toml"))
    setup = _load_ini(tree.read_text(f"{at}setup.cfg"))
    files = [path.removeprefix(at) for path in tree.list_files() if path.startswith(at)]
    sources = _find_sources(files)
    name = _find_name(pyproject, setup, tree.read_text(f"{at}setup.py") or "")
    version = _find_version(tree, at, pyproject, setup, files)
    made = {
        f"{_WORKSPACE}/{at}{path}": text for path, text in _iter_generated(pyproject, version, files).items()
    }
    guesses = [
        Guess(
            field="environment.files",
            value=path,
            reason="building the project makes it; its version control does not have it",
        )
        for path in made
    ]
    places = [posixpath.join(_WORKSPACE, root, folder).rstrip("/") for folder in sources]
    if name and (_asks_metadata(tree, at) or _asks_metadata(head, at)):
        folder = f"{_METADATA}/{re.sub(r'[-_.]+', '_', name)}-{version}.dist-info"
        made[f"{folder}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        places.append(_METADATA)
        guesses.append(
            Guess(
                field="environment.files",
                value=f"{folder}/METADATA",
                reason="the project asks for its own installed version",
            )
        )
    reason = "the code lies in src/" if sources == ["src"] else "tests that start python find the code, too"
    variables = {"PYTHONPATH": ":".join(places)}
    guesses.append(Guess(field="environment.variables", value=f"PYTHONPATH={places[0]}", reason=reason))
    options, about = _choose_options(_find_addopts(tree, at, pyproject, setup))
    guesses += about
    return PythonLayout(
        root=root,
        name=name,
        version=version,
        variables=variables,
        files=made,
        options=options,
        guesses=tuple(guesses),
    )


def list_plugin_options(locked: Iterable[str]) -> tuple[str, ...]:
    """Options that load the plugins among the locked distributions."""
    names = {normalize_name(name) for name in locked}
    return tuple(f"-p {module}" for name, module in _PLUGINS.items() if name in names)


def _find_sources(files: Sequence[str]) -> list[str]:
    is_below_src = any(
        re.fullmatch(r"src/(?:[^/]+/__init__\.py|[^/]+\.py|[^/]+/[^/]+\.py)", path) for path in files
    )
    return ["src"] if is_below_src else [""]


def _find_name(pyproject: Mapping[str, Any], setup: configparser.RawConfigParser, script: str) -> str:
    stated = _dig(pyproject, "project", "name") or _dig(pyproject, "tool", "poetry", "name")
    if isinstance(stated, str):
        return stated
    if setup.has_option("metadata", "name"):
        return setup.get("metadata", "name").strip()
    found = re.search(r"\bname\s*=\s*['\"]([A-Za-z0-9._-]+)['\"]", script)
    return found[1] if found else ""


def _find_version(
    tree: CommitTree,
    at: str,
    pyproject: Mapping[str, Any],
    setup: configparser.RawConfigParser,
    files: Sequence[str],
) -> str:
    stated = _dig(pyproject, "project", "version") or _dig(pyproject, "tool", "poetry", "version")
    if isinstance(stated, str):
        return stated
    if setup.has_option("metadata", "version") and ":" not in setup.get("metadata", "version"):
        return setup.get("metadata", "version").strip()
    for path in files:
        if re.fullmatch(r"(?:src/)?[^/]+/(?:__init__|_?version|__version__|__about__)\.py", path):
            found = _VERSION.search(tree.read_text(at + path) or "")
            if found is not None:
                return found[1]
    return _FALLBACK_VERSION


def _iter_generated(pyproject: Mapping[str, Any], version: str, files: Sequence[str]) -> dict[str, str]:
    """Version files that setuptools-scm and hatch-vcs write when a project is built."""
    tables = (
        _dig(pyproject, "tool", "setuptools_scm"),
        _dig(pyproject, "tool", "setuptools-scm"),
        _dig(pyproject, "tool", "hatch", "build", "hooks", "vcs"),
        _dig(pyproject, "tool", "pdm", "version"),
    )
    names = [
        table.get(key)
        for table in tables
        if isinstance(table, dict)
        for key in ("write_to", "version_file", "version-file", "write-to")
    ]
    parts = re.findall(r"\d+", version)[:3]
    text = f'__version__ = version = "{version}"\n__version_tuple__ = version_tuple = ({", ".join(parts)},)\n'
    return {
        name: text
        for name in names
        if isinstance(name, str) and re.fullmatch(r"[\w./-]+\.py", name) and name not in files
        if not name.startswith("/") and ".." not in name
    }


def _asks_metadata(tree: CommitTree, at: str) -> bool:
    files = [path for path in tree.list_files() if path.startswith(at) and path.endswith(".py")]
    code = [path for path in files if not re.match(r"(?:docs?|setup\.py)\b", path.removeprefix(at))]
    return any(_ASKS_METADATA.search(tree.read_text(path) or "") for path in code)


def _find_addopts(
    tree: CommitTree, at: str, pyproject: Mapping[str, Any], setup: configparser.RawConfigParser
) -> str:
    """What the file that pytest itself would take says; the first that is there wins, as with pytest."""
    for name in ("pytest.ini", ".pytest.ini"):
        text = tree.read_text(at + name)
        if text is not None:
            return _load_ini(text).get("pytest", "addopts", fallback="")
    stated = _dig(pyproject, "tool", "pytest", "ini_options")
    if isinstance(stated, dict):
        options = stated.get("addopts", "")
        return " ".join(map(shlex.quote, map(str, options))) if isinstance(options, list) else str(options)
    tox = _load_ini(tree.read_text(f"{at}tox.ini"))
    if tox.has_section("pytest"):
        return tox.get("pytest", "addopts", fallback="")
    return setup.get("tool:pytest", "addopts", fallback="")


def _choose_options(addopts: str) -> tuple[tuple[str, ...], list[Guess]]:
    """Without the options of plugins, which judges do not load."""
    try:
        words = shlex.split(addopts)
    except ValueError:
        words = addopts.split()
    kept: list[str] = []
    dropped: list[str] = []
    side = kept
    for word in words:
        if word.startswith("-"):
            side = kept if _SAFE_OPTION.match(word) else dropped
        side.append(word)
    if not dropped:
        return (), []
    option = f"-o {shlex.quote('addopts=' + ' '.join(map(shlex.quote, kept)))}"
    reason = f"the project's own options need plugins that judges do not load: {' '.join(dropped)}"
    return (option,), [Guess(field="checks[0].run", value=option, reason=reason)]


def _load_toml(text: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {}


def _load_ini(text: str | None) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text or "")
    except configparser.Error:
        return configparser.RawConfigParser()
    return parser


def _dig(table: Mapping[str, Any], *keys: str) -> object:
    found: object = table
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found
