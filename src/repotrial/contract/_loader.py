"""A contract directory, read once: all problems together, each with its place; nothing is executed.

A document says which schema it was written for. Another major is refused. A newer minor is read, but a key
that this version does not know stays an error there too: a key that is ignored is a promise that is not kept,
and it would be missing from the version id.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract._check_document import check_major, find_major, newer_minor
from repotrial.contract._contract import (
    CONTRACT_FILE,
    CONTRACT_SCHEMA,
    LOCK_FILE,
    OLDER_CONTRACT_SCHEMAS,
    STATEMENT_FILE,
    Contract,
    ContractLock,
    LoadedContract,
)
from repotrial.contract._convert import Conversion, convert_collecting
from repotrial.contract._demands import iter_build_gate, iter_unenforced
from repotrial.contract._draft import SoundParts, build_sound_parts
from repotrial.contract._files import MAX_CONTRACT_BYTES, ContractFiles, FileRefusal, normalize
from repotrial.contract._inputs import Inputs, load_inputs
from repotrial.contract._lockfile import read_lock
from repotrial.contract._problems import DocumentFinding, Problem, render_problems, take_findings
from repotrial.contract._rules import iter_contradictions
from repotrial.contract._rules_files import iter_collisions, iter_shown_files
from repotrial.contract._spellings import expand_spellings
from repotrial.contract._text import LineIndex, decode_text, parse_toml

MAX_LOCK_BYTES = 16 * MAX_CONTRACT_BYTES
"""Largest `contract.lock.json`: it has a line for each of the oracle's files."""

_DEMANDING_MAJOR = 2
_STATEMENT_KEY = re.compile(r"""^[ \t]*(?:statement|"statement"|'statement')[ \t]*=""", re.MULTILINE)


CONTRACT_INVALID = ErrorCode(
    "contract-invalid",
    ContractError,
    "The contract directory has problems that make it unusable. All of them are listed.",
    hint="`repotrial contract check` lists every problem with its file and line",
)


def build_invalid_error(problems: Iterable[Problem], *, where: Path | None = None) -> ContractError:
    """The error that lists what makes a contract directory unusable; `details` has every problem."""
    listed = tuple(problems)
    message = render_problems("contract", [problem for problem in listed if problem.severity == "error"])
    if where is None:
        return CONTRACT_INVALID.error(message, details=listed)
    # One command may be given several contracts, whose files have the same names.
    hint = CONTRACT_INVALID.hint.replace("check", f"check {shlex.quote(str(where))}")
    return CONTRACT_INVALID.error(f"{where}: {message}", hint=hint, details=listed)


def load_contract(directory: Path, *, lock_ignored: bool = False) -> LoadedContract:
    """Read a contract directory.

    Args:
        directory: Where `contract.toml` is.
        lock_ignored: Read it as if there were no lock, which is about to be written anew.

    Raises:
        CONTRACT_INVALID: something in it is wrong; the error carries every problem.
    """
    loaded, problems = check_directory(directory, lock_ignored=lock_ignored)
    if loaded is None:
        raise build_invalid_error(problems, where=directory)
    return loaded


def check_directory(
    directory: Path, *, lock_ignored: bool = False
) -> tuple[LoadedContract | None, list[Problem]]:
    """Read a contract directory and list everything that is wrong with it; bad content never raises.

    Returns:
        The contract, where no problem is an error; and all problems, by file and line.
    """
    files = ContractFiles(directory)
    refusal = files.check_directory()
    if refusal is not None:
        return None, [_file_problem(refusal)]
    lock = None if lock_ignored else _load_lock(files)
    loading = _Loading(files)
    loaded = loading.load(lock if isinstance(lock, ContractLock) else None)
    problems = loading.problems + (lock if isinstance(lock, list) else [])
    problems.sort(key=_place)
    has_errors = any(problem.severity == "error" for problem in problems)
    return None if has_errors else loaded, problems


def _place(problem: Problem) -> tuple[bool, str, bool, int]:
    """By file and line; the word that there are more stands last."""
    is_other, is_rest = problem.file != CONTRACT_FILE, problem.code == "more-problems"
    return is_other, problem.file, is_rest, problem.line or 0


class _Loading:
    """One pass over one directory."""

    def __init__(self, files: ContractFiles) -> None:
        self._files = files
        self._index = LineIndex(b"")
        self.problems: list[Problem] = []

    def load(self, lock: ContractLock | None) -> LoadedContract | None:
        value = self._read_document()
        if value is None:
            return None
        refusal = check_major(value, known=CONTRACT_SCHEMA, older=OLDER_CONTRACT_SCHEMAS)
        if refusal is not None:
            self._add([refusal])
            return None
        value = expand_spellings(value)
        conversion = convert_collecting(value, Contract)
        self._add(_explain_minor(conversion.findings, newer_minor(value)))
        draft = build_sound_parts(value, conversion.findings)
        inputs = load_inputs(self._files, conversion.paths, draft.environment)
        self.problems.extend(inputs.problems)
        self._add(inputs.findings)
        self._add(_check_rules(draft, conversion, inputs))
        self._add(_iter_demands(draft, find_major(value)))
        if conversion.document is None or self.problems:
            return None
        return self._build(conversion.document, inputs, lock)

    def _read_document(self) -> dict[str, Any] | None:
        data = self._files.read(CONTRACT_FILE, max_bytes=MAX_CONTRACT_BYTES)
        if isinstance(data, FileRefusal):
            self.problems.append(_file_problem(data))
            return None
        text = decode_text(data, file=CONTRACT_FILE)
        if isinstance(text, Problem):
            self.problems.append(text)
            return None
        self._index = LineIndex(data)
        value = parse_toml(text, file=CONTRACT_FILE)
        if isinstance(value, Problem):
            self.problems.append(value)
            self._check_default_statement(text)
            return None
        return value

    def _check_default_statement(self, text: str) -> None:
        """The one file that can be missed without understanding the document."""
        if _STATEMENT_KEY.search(text) is None:
            refusal = self._files.check_entry(STATEMENT_FILE, "file")
            if refusal is not None:
                self.problems.append(_file_problem(refusal))

    def _add(self, findings: Iterable[DocumentFinding]) -> None:
        self.problems += [
            finding.to_problem(CONTRACT_FILE, locate=self._index.locate) for finding in findings
        ]

    def _build(self, contract: Contract, inputs: Inputs, lock: ContractLock | None) -> LoadedContract:
        return LoadedContract(
            directory=self._files.directory,
            contract=contract,
            statement=inputs.statement,
            reference=inputs.reference,
            inventories={
                check.id: inputs.inventories[normalize(check.inventory)]
                for check in contract.checks
                if check.inventory is not None
            },
            files=inputs.pins,
            lock=lock,
            locate=self._index.locate,
        )


def _check_rules(
    draft: SoundParts, conversion: Conversion[Contract], inputs: Inputs
) -> list[DocumentFinding]:
    shown = {
        str(use.place[0]): use.path
        for use in conversion.paths
        if use.place in {("statement",), ("reference",)}
    }
    found = chain(
        iter_contradictions(draft),
        iter_collisions(draft.checks, inputs.pins),
        iter_shown_files(draft, shown),
    )
    return take_findings(found)


def _iter_demands(draft: SoundParts, major: int | None) -> Iterator[DocumentFinding]:
    """What a document of version 2 must not leave open; in one of version 1 a lint says so."""
    if major is None or major < _DEMANDING_MAJOR:
        return
    is_whole = len(draft.checks) == len(draft.check_ids)  # an unsound check may be the one of the build gate
    if draft.scoring is not None and draft.checks and is_whole:
        yield from iter_build_gate(draft.checks.values(), draft.scoring)
    if draft.environment is not None and draft.policy is not None:
        yield from iter_unenforced(draft.environment, draft.policy)


def _explain_minor(findings: Iterable[DocumentFinding], schema: str | None) -> Iterable[DocumentFinding]:
    """In a document of a newer minor, an unknown key may be right, and this version too old."""
    if schema is None:
        return findings
    hint = f"the document is written for {schema}; a newer RepoTrial may know this key"
    return [
        dataclasses.replace(finding, hint=f"{finding.hint}; {hint}")
        if finding.code == "key-unknown"
        else finding
        for finding in findings
    ]


def _load_lock(files: ContractFiles) -> ContractLock | list[Problem] | None:
    data = files.read(LOCK_FILE, max_bytes=MAX_LOCK_BYTES)
    if isinstance(data, FileRefusal):
        return None if data.code == "file-missing" else [_file_problem(data)]
    return read_lock(data)


def _file_problem(refusal: FileRefusal) -> Problem:
    return Problem(
        code=refusal.code,
        severity="error",
        file=refusal.path,
        message=refusal.message,
        hint=refusal.hint,
    )
