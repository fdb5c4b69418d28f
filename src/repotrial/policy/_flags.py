"""Places in a change that ask for human review. They never gate anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from repotrial._core.escaping import unescape_text
from repotrial._core.paths import is_escaping_link
from repotrial._core.python_source import parse_module
from repotrial.change import GITLINK, AddedLine, ChangedFile, ChangeView, fold
from repotrial.policy._flag_lines import (
    REASONS,
    ReviewFlag,
    Sighting,
    find_in_lines,
    find_language,
    find_test_reading,
)
from repotrial.policy._flag_python import find_in_module

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
_SHADOWED = frozenset(["pytest.py", "unittest.py", "_pytest", "pytest", "pluggy.py", "assert.js"])


def find_file_codes(file: ChangedFile) -> Iterator[str]:
    """The codes that a file asks for by its name, kind and mode."""
    *directories, name = fold(file.path).split("/")
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


_TEST_PATH = re.compile(r"(?:^|/)(?:tests?|testing|conftest\.py$|test_[^/]*$|[^/]*_test\.py$)")
_SEGMENT_CHARACTERS = 200
_LINE_CHARACTERS = 10_000
_MOST = 20
"""Flags of one code and file; more would say nothing new."""

_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_ENCODINGS = frozenset(
    {"ascii", "iso-8859-1", "latin-1", "latin1", "us-ascii", "utf-8", "utf8", "utf_8"}
)
_COOKIE_LINES = 2


def find_review_flags(view: ChangeView) -> tuple[ReviewFlag, ...]:
    """Everything in the change that touches test frameworks, frames, hooks and the like, in its order.

    At most twenty flags of one code and file; the last one says that there are more.
    """
    return tuple(flag for file in view.iter_present() for flag in _find_in_file(file))


def _find_in_file(file: ChangedFile) -> Iterator[ReviewFlag]:
    for code in dict.fromkeys(find_file_codes(file)):
        yield ReviewFlag(
            code=code, path=file.path, line=None, segment="", why=REASONS[code], confidence="code"
        )
    if file.is_symlink or not file.added_lines:
        return
    texts = {line.number: line.text for line in file.added_lines}
    counts: Counter[str] = Counter()
    for sighting in _select(_find_sightings(file)):
        counts[sighting.code] += 1
        if counts[sighting.code] > _MOST:
            continue
        yield ReviewFlag(
            code=sighting.code,
            path=file.path,
            line=sighting.line,
            segment=_cut(texts.get(sighting.line, ""), sighting.column),
            why=REASONS[sighting.code]
            + ("; there is more like it" if counts[sighting.code] == _MOST else ""),
            confidence=sighting.confidence,
        )


def _find_sightings(file: ChangedFile) -> Iterator[Sighting]:
    language = find_language(file.path)
    lines = [AddedLine(line.number, line.text[:_LINE_CHARACTERS]) for line in file.added_lines]
    if language != "other":
        for line in file.added_lines:
            if len(line.text) > _LINE_CHARACTERS:
                yield Sighting(code="opaque-line", line=line.number, column=_LINE_CHARACTERS)
    if language != "python":
        yield from find_in_lines(lines, language)
        return
    if not _TEST_PATH.search(file.path):
        yield from find_test_reading(lines)
    yield from _find_cookie(lines)
    if file.kind != "added":
        yield from find_in_lines(lines, language)
        return
    # A lone carriage return ends a line for the interpreter, but not for git.
    numbers = [line.number for line in lines for _ in line.text.removesuffix("\r").split("\r")]
    source = "\n".join(part for line in file.added_lines for part in line.text.removesuffix("\r").split("\r"))
    tree = parse_module(source + "\n")
    if tree is None:
        yield from find_in_lines(lines, language)
        return
    for sighting in find_in_module(source + "\n", tree):
        yield Sighting(
            code=sighting.code,
            line=numbers[min(sighting.line, len(numbers)) - 1],
            column=sighting.column,
            confidence=sighting.confidence,
        )


def _find_cookie(lines: Sequence[AddedLine]) -> Iterator[Sighting]:
    for line in lines:
        if line.number > _COOKIE_LINES:
            return
        found = _COOKIE.match(line.text)
        if found is not None and found[1].lower() not in _PLAIN_ENCODINGS:
            yield Sighting(code="source-encoding", line=line.number)


def _select(sightings: Iterable[Sighting]) -> list[Sighting]:
    """One for each line and code, the weightier one, in the order of the file."""
    chosen: dict[tuple[int, str], Sighting] = {}
    for each in sightings:
        known = chosen.get((each.line, each.code))
        if known is None or (each.confidence, each.column) < (known.confidence, known.column):
            chosen[each.line, each.code] = each
    return [chosen[key] for key in sorted(chosen)]


def _cut(text: str, column: int) -> str:
    """The line, or the part of a long one that begins shortly before the place."""
    if len(text) <= _SEGMENT_CHARACTERS:
        return text
    start = max(0, min(column - _SEGMENT_CHARACTERS // 4, len(text) - _SEGMENT_CHARACTERS))
    return text[start : start + _SEGMENT_CHARACTERS]
