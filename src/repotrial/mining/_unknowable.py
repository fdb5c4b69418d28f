"""Demands that no reader of the statement could know: names and messages of the reference alone (C9, C13)."""

from __future__ import annotations

import ast
import contextlib
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from repotrial._core.display import list_some
from repotrial._core.errors import AgentError, RepoTrialError
from repotrial._core.python_source import parse_python
from repotrial.change import PatchedFile, scan_patch
from repotrial.contract import (
    CONTRACT_FILE,
    Contract,
    GitRepository,
    LoadedContract,
    Problem,
)
from repotrial.source import materialize_snapshot

_CODE: Final = re.compile(
    r"\.(?:py|pyi|pyx|js|jsx|mjs|cjs|ts|tsx|mts|cts|rs|go|c|h|cc|cpp|hpp|java|kt|rb|php|cs)$"
)
_DEFINITION: Final = re.compile(
    r"\b(?:def|class|function|fn|func|struct|enum|trait|interface|const|let|var|type)\s+(?:mut\s+)?"
    r"(?:\([^()\n]{0,80}\)\s*)?(\w{3,})"
)
_CONSTANT: Final = re.compile(
    r"^([A-Z][A-Z0-9_]{2,})\s*(?::[^=]+)?=(?!=)|^([a-z_]\w{2,})\s*(?::[^=]+)?=(?!=)"
)
_ATTRIBUTE: Final = re.compile(r"\bself\.([a-z]\w{2,})\s*(?::[^=]+)?=(?!=)")
_PARAMETER: Final = re.compile(r"^\s*(?:def\s+\w+\s*\(.*)?\b(\w{3,})\s*(?::\s*[^=,()]+)?=(?!=)[^=]*[,)]")
_KEYWORD_USE: Final = re.compile(r"[(,]\s*(\w{3,})\s*=(?!=)|^\s+(\w{3,})\s*=\s*[^=].*,\s*$")
_WORD: Final = re.compile(r"\w+")
_STRING: Final = re.compile(r"[rbuf]{0,2}(?:\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)')", re.IGNORECASE)
_HOLE: Final = re.compile(r"\{[^{}]*\}|%[-#0-9.]*[a-zA-Z]|\$\{[^{}]*\}|\\n")
_REGEX_MARKS: Final = re.compile(r"\\(.)|\.\*\??|\.\+\??|\\[dwsb][+*]?|\([^)]*\)|\[[^\]]*\][+*]?|[\^$]")
_COMMENT: Final = re.compile(r"(?:^|\s)(?:#|//).*$")
_MIN_TEXT: Final = 10
_MIN_LETTERS: Final = 8
_MOST_NAMED: Final = 4
_MOST_BYTES: Final = 1 << 20


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Something that hidden tests ask for by its spelling."""

    kind: Literal["name", "message"]
    text: str


def find_unknowable(
    told: str, reference: bytes, tests: Mapping[str, str], snapshot: Iterable[str] = ()
) -> tuple[Demand, ...]:
    """Names and messages that tests use, the reference introduces, and nothing that an agent reads has.

    Args:
        told: Everything that the agent is told.
        reference: The reference change.
        tests: Hidden test files by path.
        snapshot: Texts of the snapshot's files; asked only for what is left after all else.
    """
    try:
        files = [file for file in scan_patch(reference) if _is_product(file)]
    except AgentError:  # `patch-unreadable`
        return ()
    old = "\n".join(line for file in files for line in file.old_lines)
    added = [line for file in files for line in file.added]
    used = _Uses(tests)
    known_words = {*_WORD.findall(told), *_WORD.findall(old)}
    names = {name for name in _find_defined(added) if name in used.names and name not in known_words}
    names = {name for name in names if _squeeze(name) not in _squeeze(told)}
    messages = {
        text for text in _find_messages(added, used.texts) if _squeeze(text) not in _squeeze(told + old)
    }
    if names or messages:
        for text in snapshot:
            names -= {*_WORD.findall(text)} & names
            squeezed = _squeeze(text)
            messages = {each for each in messages if _squeeze(each) not in squeezed}
    return (
        *(Demand(kind="name", text=name) for name in sorted(names)),
        *(Demand(kind="message", text=text) for text in sorted(messages)),
    )


def check_unknowable(loaded: LoadedContract) -> list[Problem]:
    """The demands of a contract's hidden tests that its author should tell the agent."""
    if loaded.reference is None:
        return []
    found = find_unknowable(_list_told(loaded), loaded.reference, _load_tests(loaded), _iter_snapshot(loaded))
    if not found:
        return []
    shown = list_some([repr(each.text) for each in found], most=_MOST_NAMED)
    return [
        Problem(
            code="unknowable-demand",
            severity="warning",
            file=CONTRACT_FILE,
            field="clarify",
            line=loaded.locate("clarify"),
            message="expected hidden tests to ask for what the statement or the snapshot says, "
            f"found demands that only the reference knows: {shown}",
            hint="name them in the statement, in `clarify.entry_points` (names) or `clarify.behavior` "
            "(messages), or take the tests out that ask for them",
        )
    ]


def _list_told(loaded: LoadedContract) -> str:
    contract: Contract = loaded.contract
    clarify = msgspec.to_builtins(contract.clarify)
    parts = [value if isinstance(value, list) else [value] for value in clarify.values()]
    return "\n".join([contract.title, loaded.statement, *(str(item) for part in parts for item in part)])


def _load_tests(loaded: LoadedContract) -> dict[str, str]:
    """Texts of the oracle files of checks that must turn."""
    sources = [
        overlay.source.rstrip("/")
        for check in loaded.contract.checks
        if check.baseline == "fail"
        for overlay in check.files
    ]
    found = {}
    for pin in loaded.files:
        if any(pin.path == source or pin.path.startswith(f"{source}/") for source in sources):
            path = loaded.directory / pin.path
            with contextlib.suppress(OSError, UnicodeDecodeError):
                found[pin.path] = path.read_text(encoding="utf-8")
    return found


def _iter_snapshot(loaded: LoadedContract) -> Iterator[str]:
    """The snapshot's own texts, where they are on this machine: a check fetches nothing."""
    repository = loaded.contract.repository
    if isinstance(repository, GitRepository) and not repository.source.startswith("file://"):
        return
    with tempfile.TemporaryDirectory(prefix="repotrial-snapshot-") as place:
        tree = Path(place) / "tree"
        try:
            materialize_snapshot(repository, base=loaded.directory, into=tree)
        except RepoTrialError:
            return  # locking it says so
        yield from iter_texts(tree)


def iter_texts(tree: Path) -> Iterator[str]:
    """Texts below a directory, and the names of its files."""
    for path in sorted(tree.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            continue
        yield path.relative_to(tree).as_posix()
        with contextlib.suppress(UnicodeDecodeError):
            yield path.read_text(encoding="utf-8")


def _is_product(file: PatchedFile) -> bool:
    return any(_CODE.search(path) for path in file.paths)


def _squeeze(text: str) -> str:
    """Letters and digits alone: `clear_cache`, `clear-cache` and "clear cache" are one word to a reader."""
    return re.sub(r"[\W_]+", "", text).lower()


def _find_defined(lines: Iterable[str]) -> set[str]:
    """Names that lines of code define: functions, types, constants, attributes, parameters with defaults."""
    found: set[str] = set()
    for line in lines:
        code = _COMMENT.sub("", line)
        for pattern in (_DEFINITION, _CONSTANT, _ATTRIBUTE, _PARAMETER):
            for match in pattern.finditer(code):
                found |= {group for group in match.groups() if group}
    return {name for name in found if not (name.startswith("__") and name.endswith("__"))}


class _Uses:
    """What test files use: names that they do not define themselves, and texts that they expect."""

    def __init__(self, tests: Mapping[str, str]) -> None:
        self.names: set[str] = set()
        self.texts: set[str] = set()
        for path, text in tests.items():
            module = _parse(text) if path.endswith(".py") else None
            if module is None:
                self._read_lines(text)
            else:
                self._read_module(module)

    def _read_module(self, module: ast.Module) -> None:
        used: set[str] = set()
        own: set[str] = set()
        for node in ast.walk(module):
            match node:
                case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                    used.add(name)
                case ast.ImportFrom(names=names, module=module_name):
                    used |= {alias.name for alias in names}
                    used |= {*(module_name or "").split(".")}
                case ast.Import(names=names):
                    used |= {part for alias in names for part in alias.name.split(".")}
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                    own.add(name)
                case _:
                    continue
        self.names |= used - own
        self.texts |= set(_iter_expected(module))

    def _read_lines(self, text: str) -> None:
        code = "\n".join(_COMMENT.sub("", line) for line in text.splitlines())
        bare = _STRING.sub('""', code)
        own = {match[1] for match in _DEFINITION.finditer(bare)}
        self.names |= {*_WORD.findall(bare)} - own
        self.texts |= {found[0] or found[1] for found in _STRING.findall(code)}


def _parse(text: str) -> ast.Module | None:
    try:
        return parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _iter_expected(module: ast.Module) -> Iterator[str]:
    """Strings that a test compares something with, or matches an error against."""
    for node in ast.walk(module):
        match node:
            case ast.Compare() | ast.Assert():
                yield from _iter_strings(node)
            case ast.Call(func=func, args=args, keywords=keywords):
                name = (
                    func.attr
                    if isinstance(func, ast.Attribute)
                    else func.id
                    if isinstance(func, ast.Name)
                    else ""
                )
                if re.match(r"assert|raises|warns|deprecated_call|match|fail", name):
                    for part in (*args, *(keyword.value for keyword in keywords)):
                        yield from _iter_strings(part)
            case _:
                continue


def _iter_strings(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def _find_messages(lines: Iterable[str], expected: Collection[str]) -> set[str]:
    """Texts that tests expect and added lines of the product hold, whole or as the part between holes."""
    joined = " ".join(_COMMENT.sub("", line) for line in lines)
    literals = " ".join(_HOLE.sub("\n", found[0] or found[1]) for found in _STRING.findall(joined))
    pieces = [piece for piece in literals.split("\n") if _is_telling(piece)]
    found = set()
    for text in expected:
        plain = _REGEX_MARKS.sub(lambda match: match[1] or "\n", text)
        for part in plain.split("\n"):
            squeezed = _squeeze(part)
            if _is_telling(part) and any(
                squeezed in _squeeze(piece) or _squeeze(piece) in squeezed for piece in pieces
            ):
                found.add(part.strip())
    return found


def _is_telling(text: str) -> bool:
    """Whether a text is a sentence and no value: several words, and mostly letters."""
    stripped = text.strip()
    letters = sum(character.isalpha() for character in stripped)
    is_wordy = len(re.findall(r"[A-Za-z]{2,}", stripped)) > 2  # noqa: PLR2004 - two words are a value as often
    return len(stripped) >= _MIN_TEXT and letters >= _MIN_LETTERS and is_wordy
