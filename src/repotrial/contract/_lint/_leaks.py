"""Rules about leaks: what the agent reads gives neither the solution nor the hidden checks away (P6, C13)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from repotrial.change import PatchedFile
from repotrial.contract._lint._statements import GRAM, TokenText, clean, code_tokens, fold, iter_folded_lines
from repotrial.contract._lint._subject import Example, Finding, ShownText, Subject, is_inside, rule

_STATEMENT = "statement.md"
_MAX_FINDINGS = 5
_MIN_LETTERS = 12
_MIN_STEM = 5
_WORDING = (".md", ".rst", ".txt", ".adoc", ".toml", ".json", ".yaml", ".yml", ".cfg", ".ini", ".lock", ".in")
_NOT_TELLING = re.compile(
    r"\s*(?:#|//|/\*|\*|--|<!--|\"\"\"|'''"
    r"|(?:import|from|use|using|include|require|package|raise|throw|assert|panic|bail|ensure)\b"
    r"|(?:return\s+)?(?:Err\(|errors\.New|fmt\.Errorf|Promise\.reject)"
    r"|[A-Z][^=;{}]*\.\s*$)"
)
# A value that is returned as it is: `return { ok: false, error: "expired" };`.
_OUTCOME = re.compile(r"\s*return\s(?!.*\b(?:if|else|for|and|or|not|in)\b)[^()+*/%<>=&|!?]*$")
_LOOKS_LIKE_CODE = re.compile(r"[=(\[{<>&|%@]|\w\.\w|->|::")
_DEFINITION = re.compile(
    r"\b(?:def|class|function|fn|func|struct|enum|trait|interface|const|let|var)\s+(?:mut\s+)?(\w{4,})"
    r"|#\s*define\s+(\w{4,})"
    r"|^\s*([A-Z][A-Z0-9_]{3,})\s*="
)
_TYPED_DEFINITION = re.compile(r"^(?!return\b|else\b|throw\b|new\b)(?:[A-Za-z_]\w*[\s*]+)+(\w{4,})\s*\(")
_TYPED_SUFFIXES = (".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".java")
_COMPOUND = re.compile(r"\w_+\w|[a-z][A-Z]|[A-Za-z]\d")
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r"`([^`]*)`")
_TEST_WORD = re.compile(r"test|spec", re.IGNORECASE)
_GENERIC_STEMS = frozenset(
    {"__init__", "__main__", "index", "main", "lib", "mod", "types", "utils", "setup", "readme", "makefile"}
)


@rule(
    "reference-in-statement",
    "error",
    example=Example(
        file=_STATEMENT,
        text="fill() must keep to the width.\n\nReplace the sum by "
        "`total = sum(cell_width(char) for char in word)`.\n",
    ),
)
def reference_in_statement(subject: Subject) -> Iterator[Finding]:
    """A line of code of the reference change stands in a text that the agent reads.

    Why: the run would measure copying. The statement, the title, `clarify.behavior` and `clarify.hints` are
    compared with the added lines whatever the spacing, line breaks, quotes, fences or escapes. Not counted:
    short lines, comments, imports, errors and fixed values that are raised or returned (they are an
    interface), lines that the snapshot holds already, and prose and configuration files, whose wording a
    statement may have to give.

    Fix: say what must be true afterwards, not how the code gets there.
    """
    leaks = list(_iter_leaked_lines(subject))
    for shown, index, line in leaks[:_MAX_FINDINGS]:
        yield Finding(
            file=shown.file,
            field=shown.field,
            line=shown.line_number(index),
            message=f"expected no code of the reference change, found {line.strip()!r}",
            hint="describe the behavior instead",
        )
    if len(leaks) > _MAX_FINDINGS:
        yield Finding(
            file=subject.contract.statement,
            message=f"expected no code of the reference change, "
            f"found {len(leaks) - _MAX_FINDINGS} further lines of it",
            hint="describe the behavior instead",
        )


def _iter_leaked_lines(subject: Subject) -> Iterator[tuple[ShownText, int, str]]:
    texts = [(shown, TokenText(shown.text)) for shown in subject.shown]
    known = {tuple(code_tokens(line)) for file in subject.changed_files for line in file.old_lines}
    for line in _iter_telling_lines(subject.changed_files):
        tokens = code_tokens(line)
        if len(tokens) < GRAM or sum(map(len, tokens)) < _MIN_LETTERS or tuple(tokens) in known:
            continue
        known.add(tuple(tokens))  # each line is reported once
        for shown, text in texts:
            index = text.find(tokens)
            if index is not None:
                yield shown, index, line
                break


def _iter_telling_lines(files: Iterable[PatchedFile]) -> Iterator[str]:
    for file in files:
        if file.paths[-1].lower().endswith(_WORDING):
            continue
        for line in file.added:
            is_told = _NOT_TELLING.match(line) or _OUTCOME.match(line)
            if _LOOKS_LIKE_CODE.search(line) and not is_told:
                yield line


@rule(
    "new-name-in-statement",
    "warning",
    example=Example(
        file=_STATEMENT, text="fill() must keep to the width, for instance with a helper cell_width.\n"
    ),
)
def new_name_in_statement(subject: Subject) -> Iterator[Finding]:
    """A name that only the reference change introduces stands in a text that the agent reads.

    Why: it tells how the solution is built. Heuristic: names of functions, classes, types and constants that
    the added lines define and that no other line of the patch has; plain words count only between backticks.

    Fix: leave the name out. If users are to call it, list it under `clarify.entry_points`.
    """
    public = {word for entry in subject.contract.clarify.entry_points for word in _WORD.findall(entry)}
    for name in sorted(_defined_names(subject.changed_files) - public):
        for shown in subject.shown:
            index = _find_name(shown.text, name)
            if index is not None:
                yield Finding(
                    file=shown.file,
                    field=shown.field,
                    line=shown.line_number(index),
                    message=f"expected no names that only the reference change introduces, found {name!r}",
                    hint="leave it out, or list it under clarify.entry_points if users call it",
                )
                break


def _defined_names(files: Sequence[PatchedFile]) -> set[str]:
    defined = {name for file in files for name in _iter_definitions(file)}
    seen = {word for file in files for line in file.old_lines for word in _WORD.findall(line)}
    return defined - seen


def _iter_definitions(file: PatchedFile) -> Iterator[str]:
    is_typed = file.paths[-1].lower().endswith(_TYPED_SUFFIXES)
    for line in file.added:
        for found in _DEFINITION.finditer(line):
            yield next(group for group in found.groups() if group)
        if is_typed and (typed := _TYPED_DEFINITION.match(line.strip())):
            yield typed[1]


def _find_name(text: str, name: str) -> int | None:
    if name not in clean(text).replace("\\", ""):
        return None
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    lines = (clean(line).replace("\\_", "_") for line in text.split("\n"))
    if not _COMPOUND.search(name):
        lines = (" ".join(_QUOTED.findall(line)) for line in lines)
    return next((index for index, line in enumerate(lines) if pattern.search(line)), None)


@rule(
    "reference-file-in-statement",
    "warning",
    example=Example(file=_STATEMENT, text="Please fix the loop in textkit/wrap.py, it must count cells.\n"),
)
def reference_file_in_statement(subject: Subject) -> Iterator[Finding]:
    """A file that the reference change touches is named in a text that the agent reads.

    Why: finding the place is part of the work, unless the contract gives it on purpose.

    Fix: leave the name out, or give the place openly under `clarify.modules`.
    """
    modules = subject.contract.clarify.modules
    names: dict[str, None] = {}
    for path in subject.changed_paths:
        if not any(is_inside(path, module) for module in modules):
            base = posixpath.basename(path)
            names |= dict.fromkeys([path, base] if _is_distinct(base) else [path])
    yield from _report_names(
        subject,
        list(names),
        expected="no files of the reference change",
        hint="leave it out, or list it under clarify.modules",
    )


@rule(
    "check-name-in-statement",
    "warning",
    example=Example(file=_STATEMENT, text="The text must fit, see tests/test_wrap.py::test_wide_text.\n"),
)
def check_name_in_statement(subject: Subject) -> Iterator[Finding]:
    """A hidden check file, or a test that decides, is named in a text that the agent reads.

    Why: a candidate that knows names can prepare for them. Looked for are the overlay files (by path, and by
    name where the name speaks of tests), inventories, and the ids under `fail_to_pass`.

    Fix: describe the behavior that the test looks at.
    """
    names: dict[str, None] = {}
    for file in subject.oracle_files:
        base = posixpath.basename(file.target)
        spoken = [base, posixpath.basename(file.source)] if _TEST_WORD.search(base) else []
        names |= dict.fromkeys([file.target, file.source, *spoken])
    for check in subject.contract.checks:
        if check.inventory is not None:
            names[check.inventory] = None
    # Checks may share one inventory, and it may be long.
    for ids in {id(listed): listed.fail_to_pass for listed in subject.loaded.inventories.values()}.values():
        names |= dict.fromkeys(_iter_test_names(ids))
    yield from _report_names(
        subject,
        [name for name in names if _is_distinct(name)],
        expected="no hidden checks",
        hint="describe the behavior instead",
    )


def _iter_test_names(ids: Iterable[str]) -> Iterator[str]:
    """The ids that can be told from prose, and the function at the end of each."""
    for test in ids:
        if re.search(r"::|/|\w\.\w", test) and not re.search(r"\s", test):
            yield test
        leaf = re.split(r"::|/|#|\.|\s>\s", test.partition("[")[0])[-1].strip()
        if _TEST_WORD.search(leaf) and re.fullmatch(r"\w+", leaf) and _COMPOUND.search(leaf):
            yield leaf


def _is_distinct(name: str) -> bool:
    """Whether a name says more than any project's file of that name would."""
    stem = posixpath.basename(name).partition(".")[0].lower()
    return "/" in name or "::" in name or (len(stem) >= _MIN_STEM and stem not in _GENERIC_STEMS)


def _report_names(subject: Subject, names: list[str], *, expected: str, hint: str) -> Iterator[Finding]:
    """One finding for each line of a shown text, with the longest name that stands there."""
    folded = [(name, fold(name)) for name in sorted(names, key=len, reverse=True)]
    for shown in subject.shown:
        lines = list(iter_folded_lines(shown.text))
        text = "\n".join(line for _, line in lines)
        present = [(name, word) for name, word in folded if word in text]  # a suite may have very many names
        for index, line in lines:
            found = next((name for name, word in present if word in line and _stands_alone(word, line)), None)
            if found is not None:
                yield Finding(
                    file=shown.file,
                    field=shown.field,
                    line=shown.line_number(index),
                    message=f"expected {expected} in what the agent reads, found {found!r}",
                    hint=hint,
                )


def _stands_alone(word: str, line: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w/-])", line) is not None


RULES = (
    reference_in_statement,
    new_name_in_statement,
    reference_file_in_statement,
    check_name_in_statement,
)
