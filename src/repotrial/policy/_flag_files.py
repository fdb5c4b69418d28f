"""Files that ask for a look by what they are, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repotrial._core.escaping import unescape_text
from repotrial._core.paths import is_escaping_link
from repotrial.change import GITLINK, ChangedFile, fold

_HOOKS = frozenset(
    {
        ".bash_profile",
        ".bashrc",
        ".coveragerc",
        ".envrc",
        ".gitattributes",
        ".mocharc.cjs",
        ".mocharc.js",
        ".mocharc.json",
        ".mocharc.yml",
        ".npmrc",
        ".pnp.cjs",
        ".pnp.loader.mjs",
        ".profile",
        ".pytest.ini",
        ".pytest.toml",
        ".yarnrc",
        ".yarnrc.yml",
        "conftest.py",
        "pytest.ini",
        "pytest.toml",
        "sitecustomize.py",
        "tox.ini",
        "usercustomize.py",
    }
)
_HOOK_PATTERN = re.compile(
    r".*\.pth|.*\.egg-link|(?:jest|vitest|vite|babel|ava)\.config\.\w+|jest\.setup\.\w+"
)
_BUILD = frozenset(["build.rs", "setup.py", "binding.gyp", ".cargo/config", ".cargo/config.toml"])
_BUILD_DIRECTORIES = frozenset({".husky", ".githooks", ".mvn", ".cargo"})
_OPAQUE = frozenset(
    {"a", "class", "dll", "dylib", "egg", "exe", "jar", "node", "o", "pyc", "pyd", "pyo", "so", "wasm", "whl"}
)
# Standard modules that a file of the same name would shadow for every program started beside it.
_SHADOWED = frozenset(["pytest.py", "unittest.py", "_pytest", "pluggy.py", "assert.js"])


def find_file_codes(file: ChangedFile) -> Iterator[str]:
    """The codes that a file asks for by its name, kind and mode."""
    path = fold(file.path)
    *directories, name = path.split("/")
    if name in _HOOKS or _HOOK_PATTERN.fullmatch(name):
        yield "hook-file"
    if name in _SHADOWED or not _SHADOWED.isdisjoint(directories):
        yield "import-system"
    if name in _BUILD or not _BUILD_DIRECTORIES.isdisjoint(directories):
        yield "build-hook"
    if "." in name and name.rpartition(".")[2] in _OPAQUE:
        yield "binary-code"
    if file.mode == GITLINK:
        yield "submodule"
    if file.link_target is not None and is_escaping_link(unescape_text(file.path), file.link_target.encode()):
        yield "link-outside"
