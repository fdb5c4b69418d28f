"""Where a drafted statement gives the solution away: one warning for each line and reason."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence

import msgspec

from repotrial.contract import CONTRACT_FILE, LoadedContract, Problem

_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_DEFINITION = re.compile(
    r"\b(?:def|class|fn|func|function|struct|enum|union|trait|interface|type|const|let|var|val|static|module|define)"
    r"[ \t]+(?:\([^()\n]{0,80}\)[ \t]*)?([A-Za-z_$][A-Za-z0-9_$]*)"
)
_CALL_OR_QUOTED = re.compile(r"`([^`\n]{1,200})`|([A-Za-z_$][A-Za-z0-9_$]*)\(")
_BUILT_IN = frozenset(dir(builtins)) | {
    *("undefined", "TypeError", "RangeError", "ReferenceError", "SyntaxError", "Promise", "Object", "Array"),
    *("String", "Number", "Boolean", "Symbol", "BigInt", "Date", "RegExp", "Error", "Result", "Option"),
    *("None", "Some", "Vec", "Box", "HashMap", "usize", "size_t", "nullptr", "NULL"),
}
"""Names of Python, JavaScript, Rust and C that no change introduces."""
_MIN_NAME = 3
_MIN_PLAIN_NAME = 4
_MIN_CODE_LINE = 12
_SHOWN_CHARACTERS = 80

_MENDS = (
    r"(?:fix|fixe[sd]|solve[sd]?|resolve[sd]?|correct(?:s|ed)?|repair(?:s|ed)?|address(?:es|ed)?"
    r"|avoid(?:s|ed)?|prevent(?:s|ed)?)"
)
_DOES = r"(?:is|was|adds?|uses?|makes?|changes?|replaces?|moves?|removes?|introduces?)"
_DOING = r"(?:add|us|replac|remov|chang|switch|call|check|mov|pass|return|sett|wrapp|count)"
# Each gap is bounded: without it, a long hostile line would cost time that grows with its square.
_OF_A_CHANGE = (
    rf"\b{_MENDS}\b[^.]{{0,120}}?\bby\s+\w{{2,40}}ing\b",
    rf"^\W*by\s+{_DOING}\w{{0,10}}ing\b",
    rf"\b(?:the|this)\s+(?:fix|solution|patch|change|commit)\s+{_DOES}\b",
    r"\bthis\s+reverts\s+commit\b",
)
"""Words that speak of a change that was made."""
_OF_MESSAGES = (
    r"\breplac(?:e[sd]?|ing)\b[^.]{1,120}?\b(?:with|by)\b",
    r"\bchang(?:e[sd]?|ing)\b[^.]{1,120}?\bto\s+(?:use|call|return|be)\b",
    r"\b(?:use[sd]?|using|call(?:s|ed)?|return(?:s|ed)?)\b[^.]{1,120}?\binstead(?:\s+of)?\b",
)
"""In a commit message they tell what was done; an author says with them what is observed, too."""
_ORDERS = (
    r"^\W*Replace\b.{1,120}?\b(?:with|by)\b",
    r"^\W*Change\b.{1,120}?\bto\s+(?:use|call|return|be)\b",
    r"^\W*(?:Use|Call)\b.{1,120}?\binstead\b",
)
"""What to do, as the subject of a commit says it; in a text, only where a sentence begins."""


def _compile(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


_DRAFT_PHRASES = _compile(*_OF_A_CHANGE, *_OF_MESSAGES)
_STATEMENT_PHRASES = (*_compile(*_OF_A_CHANGE), *map(re.compile, _ORDERS))
_TITLE_PHRASES = _compile(*_OF_A_CHANGE, *_ORDERS, r"^\W*return\b.{1,120}?\binstead\b")
_HINT = "tell what is wrong and what must hold; leave the way there to the agent"


class TextChange(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the reference change, as text; both sides are empty for binary files."""

    path: str
    old: str | None
    """None if the change adds the file."""
    new: str | None
    """None if it removes the file."""


def check_leaks(
    statement: str,
    changes: Sequence[TextChange],
    *,
    hidden_paths: Sequence[str] = (),
    file: str = "statement.md",
) -> list[Problem]:
    """Lines that name what only the reference change or the hidden checks know.

    Args:
        statement: The draft.
        changes: The reference change.
        hidden_paths: Files of the hidden checks.
        file: The statement's name, for the problems.
    """
    lines = statement.splitlines()
    new_paths = [change.path for change in changes if change.old is None]
    findings = [
        *_iter_paths(lines, new_paths, "draft-names-new-file", "a file that the reference change adds"),
        *_iter_paths(lines, hidden_paths, "draft-names-check-file", "a file of the hidden checks"),
        *_iter_code(lines, changes),
        *_iter_names(lines, changes),
        *_iter_phrases(lines, _DRAFT_PHRASES),
    ]
    findings.sort(key=lambda finding: (finding[0], finding[1]))
    return [
        Problem(
            code=code,
            severity="warning",
            file=file,
            line=number,
            message=message,
            hint=_HINT,
        )
        for number, code, message in findings
    ]


def check_told_solution(loaded: LoadedContract) -> list[Problem]:
    """Where title and statement of a contract with a reference still tell what was done, as a draft may.

    Names and code of the reference are lint's to find.
    """
    if loaded.reference is None:
        return []
    title = next(_iter_phrases([loaded.contract.title], _TITLE_PHRASES), None)
    places = [] if title is None else [(CONTRACT_FILE, "title", loaded.locate("title"), *title[1:])]
    places += [
        (loaded.contract.statement, "", number, code, message)
        for number, code, message in _iter_phrases(loaded.statement.splitlines(), _STATEMENT_PHRASES)
    ]
    return [
        Problem(code=code, severity="warning", file=file, field=field, line=line, message=message, hint=_HINT)
        for file, field, line, code, message in places
    ]


def _iter_paths(
    lines: Sequence[str], paths: Sequence[str], code: str, what: str
) -> Iterator[tuple[int, str, str]]:
    names = {
        name for path in paths for name in (path, path.rpartition("/")[2]) if len(name) >= _MIN_PLAIN_NAME
    }
    for number, line in enumerate(lines, start=1):
        found = max((name for name in names if _holds(line, name)), key=len, default=None)
        if found is not None:
            yield number, code, f"expected no solution in the statement, found {_show(found)}, {what}"


def _holds(line: str, name: str) -> bool:
    at = line.find(name)
    if at < 0:
        return False
    before, after = line[at - 1 : at] if at else "", line[at + len(name) : at + len(name) + 1]
    return not (before.isalnum() or before == "_" or after.isalnum() or after == "_")


def _iter_code(lines: Sequence[str], changes: Sequence[TextChange]) -> Iterator[tuple[int, str, str]]:
    squeezed = [" ".join(line.split()) for line in lines]
    whole = "\n".join(squeezed)
    hits = {code for code in _iter_added_code(changes) if code in whole}
    for number, line in enumerate(squeezed, start=1):
        found = max((code for code in hits if code in line), key=len, default=None)
        if found is not None:
            yield (
                number,
                "draft-quotes-code",
                f"expected no solution in the statement, found the code {_show(found)}",
            )


def _iter_added_code(changes: Sequence[TextChange]) -> Iterator[str]:
    for change in changes:
        known = {" ".join(line.split()) for line in (change.old or "").splitlines()}
        for line in (change.new or "").splitlines():
            code = " ".join(line.split())
            # Words alone are prose (a comment, a changelog), and prose repeats itself.
            if len(code) >= _MIN_CODE_LINE and code not in known and re.search(r"[=(){}\[\];<>+*/]", code):
                yield code


def _iter_names(lines: Sequence[str], changes: Sequence[TextChange]) -> Iterator[tuple[int, str, str]]:
    known = {word for change in changes for word in _WORD.findall(change.old or "")}
    words = {word for change in changes for word in _WORD.findall(change.new or "")} - known
    defined = {name for change in changes for name in _DEFINITION.findall(change.new or "")} & words
    for number, line in enumerate(lines, start=1):
        marked = {
            word for pair in _CALL_OR_QUOTED.findall(line) for part in pair for word in _WORD.findall(part)
        }
        found = [
            word
            for word in dict.fromkeys(_WORD.findall(line))
            if word in words and _is_name(word, defined) and (word in marked or _is_telling(word, defined))
        ]
        if found:
            names = ", ".join(_show(word) for word in found[:3])
            yield (
                number,
                "draft-names-identifier",
                f"expected no solution in the statement, found {names}, which the change introduces",
            )


def _is_name(word: str, defined: set[str]) -> bool:
    """Whether a word can give something away: what comes with the language is everybody's."""
    return len(word) >= _MIN_NAME and (word in defined or word not in _BUILT_IN)


def _is_telling(word: str, defined: set[str]) -> bool:
    """Whether a bare word is code: by its shape, or because the change defines it."""
    has_code_shape = (
        "_" in word.strip("_")
        or any(character.isdigit() for character in word)
        or (any(character.isupper() for character in word[1:]) and not word.isupper())
    )
    return has_code_shape or (word in defined and len(word) >= _MIN_PLAIN_NAME)


def _iter_phrases(lines: Sequence[str], phrases: Sequence[re.Pattern[str]]) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(lines, start=1):
        found = next((match for pattern in phrases if (match := pattern.search(line))), None)
        if found is not None:
            yield (
                number,
                "draft-tells-solution",
                f"expected what is wrong, found what was done about it: {_show(found[0])}",
            )


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")
