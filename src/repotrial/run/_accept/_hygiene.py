"""Files that steer a judge rather than the product: a candidate's own are taken away, and the fact is kept.

Whoever can make an interpreter, a test framework or a build tool run code before the suite does, or choose
which tests count, decides the verdict. A contract allows such a file by naming it in `policy.writable`
without a wildcard, or by touching it in its reference change.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Final

from repotrial.contract import Policy

_NAMES: Final = frozenset(
    {
        # Python: run at start, or by the framework before any test.
        *("sitecustomize.py", "usercustomize.py", "conftest.py"),
        *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", ".coveragerc"),
        # Node.js: what runs before a script, and which one.
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".noderc", ".node-options", ".mocharc.js"),
        *(".mocharc.cjs", ".mocharc.json", ".mocharc.yml", ".mocharc.yaml", ".babelrc"),
        # Build tools and shells: wrappers, runners and start-up files.
        *(".bashrc", ".profile", ".envrc", ".gdbinit", "gdb.ini", ".lldbinit", "rust-toolchain"),
        *("rust-toolchain.toml", "mvnw", "gradlew", ".mvn", "jvm.config"),
    }
)
_PATTERNS: Final = re.compile(
    r"(^|/)(\.cargo/config(\.toml)?|node_modules/|\.git/|__pycache__/)"
    r"|\.pth$|\.pyc$|\.egg-link$|-info/entry_points\.txt$"
)
_FRAMEWORKS: Final = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "py", "exceptiongroup", "tomli", "pygments"}
)
# Names of the standard library that projects use for folders of their own.
_HARMLESS: Final = frozenset({"test", "tests", "site", "this", "code", "types", "platform", "resource"})
_SHADOWED: Final = (sys.stdlib_module_names | _FRAMEWORKS) - _HARMLESS


def find_allowed_paths(policy: Policy, reference_paths: Iterable[str]) -> frozenset[str]:
    """Steering files that the contract itself expects a change to touch."""
    literal = {pattern for pattern in policy.writable if not set(pattern) & set("*?[!")}
    return frozenset({*literal, *reference_paths})


def find_steering_paths(
    changed: Iterable[str], *, allowed: Collection[str], base_names: Collection[str]
) -> tuple[str, ...]:
    """Of the changed paths those that would steer the judge.

    Args:
        changed: Paths of Δ.
        allowed: Never taken away.
        base_names: Names at the top of the untouched snapshot: what the project has is not a shadow.
    """
    return tuple(sorted(path for path in changed if path not in allowed and _is_steering(path, base_names)))


def _is_steering(path: str, base_names: Collection[str]) -> bool:
    parts = PurePosixPath(path).parts
    if parts[-1].lower() in _NAMES or _PATTERNS.search(path):
        return True
    return parts[0] not in base_names and _find_module(parts) in _SHADOWED


def _find_module(parts: tuple[str, ...]) -> str:
    """The name under which Python would import what lies at the top of the tree."""
    name = parts[0]
    if len(parts) == 1:
        return name.partition(".")[0] if name.endswith((".py", ".so", ".pyd")) else ""
    return name
