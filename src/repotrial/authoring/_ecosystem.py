"""Ecosystems: guessed from the files at the top of the tree, with the command that usually runs the tests.

Everything here is a guess that the author sees, with its reason, and can replace.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from repotrial.authoring._python_tests import is_test_module
from repotrial.contract import ResultFile

EcosystemName: TypeAlias = Literal["python", "javascript", "rust", "go", "c"]

_RESULTS = '"$REPOTRIAL_RESULTS/junit.xml"'
_MAX_COMMAND_CHARACTERS = 4000


class EcosystemProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What a language ecosystem is known by, and what its contracts usually need."""

    name: EcosystemName
    markers: tuple[str, ...]
    """Files at the top of the tree; any of them is a sign."""
    tools: Mapping[str, str]
    """Programs of the host, with version constraints."""
    variables: Mapping[str, str]
    """What makes runs alike on different machines."""
    generated: tuple[str, ...] = ()
    """What the tools leave behind."""
    manifests: tuple[str, ...] = ()
    """Files that declare dependencies."""


class _RunnerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command line that runs tests, what it leaves behind, and why it was chosen."""

    run: str
    results: tuple[ResultFile, ...]
    reason: str


_LOCALE = {"LANG": "C.UTF-8", "TZ": "UTC"}

ECOSYSTEMS: tuple[EcosystemProfile, ...] = (
    # In order of precedence: a Python project with a package.json for its linters is a Python project.
    EcosystemProfile(
        name="python",
        markers=("pyproject.toml", "setup.cfg", "setup.py"),
        tools={"python": ">=3.9", "git": ">=2.30"},
        variables={"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", **_LOCALE},
        generated=("**/__pycache__/**", "**/.pytest_cache/**", "**/*.egg-info/**"),
        manifests=("pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt"),
    ),
    EcosystemProfile(
        name="rust",
        markers=("Cargo.toml",),
        tools={"cargo": ">=1.70", "git": ">=2.30"},
        variables={"CARGO_NET_OFFLINE": "true", **_LOCALE},
        generated=("**/target/**",),
        manifests=("**/Cargo.toml", "Cargo.lock"),
    ),
    EcosystemProfile(
        name="go",
        markers=("go.mod",),
        tools={"go": ">=1.20", "git": ">=2.30"},
        variables={"GOPROXY": "off", **_LOCALE},
        manifests=("go.mod", "go.sum"),
    ),
    EcosystemProfile(
        name="javascript",
        markers=("package.json",),
        tools={"node": ">=20", "git": ">=2.30"},
        variables={"NODE_ENV": "test", **_LOCALE},
        generated=("**/node_modules/**", "coverage/**"),
        manifests=("**/package.json", "package-lock.json"),
    ),
    EcosystemProfile(
        name="c",
        markers=("configure.ac", "CMakeLists.txt", "Makefile", "configure", "Makefile.am"),
        tools={"cc": ">=9", "make": ">=4", "git": ">=2.30"},
        variables=_LOCALE,
        generated=("**/*.o", "**/*.a", "**/*.so", "build/**"),
    ),
)


def guess_ecosystem(top_level: Sequence[str]) -> tuple[EcosystemProfile, str] | None:
    """The ecosystem that the names at the top of the tree point to, and the file that gave it away."""
    names = frozenset(top_level)
    for ecosystem in ECOSYSTEMS:
        for marker in ecosystem.markers:
            if marker in names:
                return ecosystem, marker
    return None


def build_test_command(
    ecosystem: EcosystemProfile, texts: Mapping[str, str], *, test_files: Sequence[str] = ()
) -> _RunnerCommand:
    """How the tests of such a project are usually run.

    Args:
        ecosystem: What the project is taken for.
        texts: Contents of the ecosystem's marker files, where they could be read.
        test_files: Paths of the tests that matter; commands that can be narrowed to them are.
    """
    match ecosystem.name:
        case "python":
            return _build_pytest(test_files)
        case "rust":
            return _RunnerCommand(
                run="cargo test --offline --no-fail-fast",
                results=(ResultFile(format="libtest"),),
                reason="Cargo.toml: cargo's own test runner",
            )
        case "go":
            return _RunnerCommand(
                run="go test -json ./...",
                results=(ResultFile(format="go-test-json"),),
                reason="go.mod: go's own test runner",
            )
        case "javascript":
            return _build_javascript(texts.get("package.json", ""), test_files)
        case "c":
            return _build_c(texts)


def _build_pytest(test_files: Sequence[str]) -> _RunnerCommand:
    targets = _quote_all(path for path in test_files if is_test_module(path))
    return _RunnerCommand(
        run=f"python -m pytest -q --junitxml={_RESULTS}" + (f" {targets}" if targets else ""),
        results=(ResultFile(format="junit", path="junit.xml"),),
        reason="a Python project: pytest also runs unittest's test cases",
    )


def _build_javascript(package_json: str, test_files: Sequence[str]) -> _RunnerCommand:
    script = _read_test_script(package_json)
    if "vitest" in script:
        return _RunnerCommand(
            run=f"npx --no-install vitest run --reporter=junit --outputFile={_RESULTS}",
            results=(ResultFile(format="junit", path="junit.xml"),),
            reason="package.json: its test script calls vitest",
        )
    if "node --test" in script or not script:
        targets = _quote_all(path for path in test_files if path.endswith((".js", ".mjs", ".cjs")))
        return _RunnerCommand(
            run=f"node --test --test-reporter=junit --test-reporter-destination={_RESULTS}"
            + (f" {targets}" if targets else ""),
            results=(ResultFile(format="junit", path="junit.xml"),),
            reason="package.json: its test script calls node's own runner"
            if script
            else "package.json names no test script: node's own runner",
        )
    return _RunnerCommand(
        run="npm test",
        results=(),
        reason="package.json: its test script; the exit code alone speaks until it leaves results",
    )


def _read_test_script(package_json: str) -> str:
    try:
        manifest = msgspec.json.decode(package_json.encode(), type=_PackageJson)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ""
    return manifest.scripts.get("test", "")


class _PackageJson(msgspec.Struct, frozen=True, kw_only=True):
    scripts: Mapping[str, str] = {}


def _build_c(texts: Mapping[str, str]) -> _RunnerCommand:
    if "CMakeLists.txt" in texts and "configure.ac" not in texts:
        return _RunnerCommand(
            run="cmake -S . -B build && cmake --build build"
            f" && ctest --test-dir build --output-junit {_RESULTS}",
            results=(ResultFile(format="junit", path="junit.xml"),),
            reason="CMakeLists.txt: CTest",
        )
    if "configure" in texts:
        return _RunnerCommand(run="./configure && make check", results=(), reason="configure: autotools")
    if "configure.ac" in texts:
        return _RunnerCommand(
            run="autoreconf -i && ./configure && make check", results=(), reason="configure.ac: autotools"
        )
    target = "check" if re.search(r"^check\s*:", texts.get("Makefile", ""), re.MULTILINE) else "test"
    return _RunnerCommand(run=f"make {target}", results=(), reason=f"Makefile: its target {target!r}")


def _quote_all(paths: Iterable[str]) -> str:
    """Paths as words of a command line; none at all where they would make it unreadably long."""
    words = [shlex.quote(f"./{path}" if path.startswith("-") else path) for path in paths]
    line = " ".join(words)
    return line if len(line) <= _MAX_COMMAND_CHARACTERS else ""
