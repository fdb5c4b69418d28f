"""`suite.toml` and its lock: contracts that count together, with versions and certificates (C11, C13)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import msgspec
import orjson

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract._check_document import check_document
from repotrial.contract._contract import CONTRACT_FILE
from repotrial.contract._problems import Problem, build_document_error
from repotrial.contract._types import Identifier, StrictDocument

SUITE_SCHEMA: Final = "repotrial/suite@1"
_MOST_BYTES: Final = 16 * 2**20

_Pattern = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(?!/)[^\\\x00-\x1f]+$(?!\n)",
        max_length=1000,
        extra={"expected": "a path or a glob of contract directories, relative to the suite's file"},
    ),
]

SUITE_INVALID = ErrorCode(
    "suite-invalid",
    ContractError,
    "A suite has problems that make it unusable. All of them are listed.",
    hint="mend what is listed, then run `repotrial suite lock`",
)


class Suite(StrictDocument, frozen=True, kw_only=True):
    """All of `suite.toml`."""

    schema: Annotated[str, msgspec.Meta(pattern=r"^repotrial/suite@1(\.[0-9]+)?$(?!\n)")]
    """Which version of this format."""
    id: Identifier
    """How reports call it."""
    title: str = ""
    """In a line."""
    contracts: Annotated[tuple[_Pattern, ...], msgspec.Meta(min_length=1)]
    """Contract directories: paths or globs that do not overlap, relative to this file."""


class SuiteEntry(StrictDocument, frozen=True, kw_only=True):
    """One contract of a suite, as it was when the suite was locked."""

    id: Identifier
    """The contract's id."""
    path: str
    """Its directory, relative to the suite's file."""
    version_id: Digest
    """Its version (C11)."""
    checks: Digest
    """The part of the version that its checks make up, so that a new suite can say what changed."""
    statement_digest: Digest
    """What agents are told."""
    scoring_digest: Digest
    """The parameters of the score."""
    certificate_digest: Digest
    """Its full certificate."""
    certificate_key: str
    """Who signed the certificate."""
    complexity_digest: Digest | None = None
    """Its `complexity.json`; null if it was not measured (C14)."""


class SuiteRevision(StrictDocument, frozen=True, kw_only=True):
    """An earlier suite, and why there is a new one."""

    suite_id: Digest
    """The earlier one."""
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    """In the words of the person who changed it."""
    changes: tuple[str, ...]
    """What is different, found by comparing."""


class SuiteLock(StrictDocument, frozen=True, kw_only=True):
    """All of `suite.lock.json`."""

    FILE: ClassVar = "suite.lock.json"

    schema: Literal["repotrial/suite-lock@1"] = "repotrial/suite-lock@1"
    """Which version of this format."""
    id: Identifier
    """The suite's id in words."""
    suite_id: Digest
    """Digest over everything here: contracts, checks, certificates, and the suites before this one."""
    contracts: tuple[SuiteEntry, ...]
    """Sorted by id."""
    lineage: tuple[SuiteRevision, ...] = ()
    """Earlier suites, the first one first."""

    @classmethod
    def build(
        cls,
        name: str,
        contracts: Iterable[SuiteEntry],
        lineage: tuple[SuiteRevision, ...],
    ) -> SuiteLock:
        """A lock with its id."""
        ordered = tuple(sorted(contracts, key=lambda entry: entry.id))
        return cls(id=name, suite_id=_compute_id(name, ordered, lineage), contracts=ordered, lineage=lineage)

    @staticmethod
    def build_error(problems: Iterable[Problem], *, where: Path) -> ContractError:
        """The error that lists everything that is wrong with a suite, each with its fix."""
        return build_document_error(SUITE_INVALID, "suite", problems, where=where)

    def to_bytes(self) -> bytes:
        """The lock as a file: indented, sorted, a newline at the end."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(msgspec.to_builtins(self), option=options)

    @classmethod
    def load(cls, path: Path) -> SuiteLock | None:
        """The lock beside a suite's file; None if there is none.

        Raises:
            SUITE_INVALID: it is not one, or was edited: its id is not that of its content.
        """
        file = path.parent / cls.FILE
        try:
            lock = msgspec.json.decode(file.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SUITE_INVALID.error(f"{file}: expected the lock of a suite, found: {error}") from error
        if lock.suite_id != _compute_id(lock.id, lock.contracts, lock.lineage):
            raise SUITE_INVALID.error(
                f"{file}: suite_id: expected the id of this content, found another: the file was edited",
                hint="take the file from version control, or remove it and run `repotrial suite lock`",
            )
        return lock

    def revise(self, name: str, newer: Sequence[SuiteEntry], reason: str) -> SuiteLock:
        """The suite that comes after this one; this one itself if nothing is different."""
        changes = self.list_changes(newer)
        if not changes and name == self.id:
            return self
        revision = SuiteRevision(suite_id=self.suite_id, reason=reason, changes=changes)
        return SuiteLock.build(name, newer, (*self.lineage, revision))

    def list_changes(self, newer: Sequence[SuiteEntry]) -> tuple[str, ...]:
        """What is different in a newer list of contracts, in sentences."""
        before = {entry.id: entry for entry in self.contracts}
        after = {entry.id: entry for entry in newer}
        removed = [f"{name}: removed" for name in sorted(before.keys() - after.keys())]
        added = [f"{name}: added" for name in sorted(after.keys() - before.keys())]
        both = sorted(before.keys() & after.keys())
        changed = [change for name in both for change in _iter_changes(before[name], after[name])]
        return (*removed, *added, *changed)


def _iter_changes(before: SuiteEntry, after: SuiteEntry) -> Iterable[str]:
    words = {
        "version_id": "another version",
        "checks": "other checks",
        "statement_digest": "another statement",
        "scoring_digest": "another scoring",
        "certificate_digest": "another certificate",
        "complexity_digest": "another measurement of complexity",
        "path": "another directory",
    }
    for field, word in words.items():
        if getattr(before, field) != getattr(after, field):
            yield f"{after.id}: {word}"


def _compute_id(name: str, entries: Sequence[SuiteEntry], lineage: Sequence[SuiteRevision]) -> Digest:
    return canonical_digest(
        [
            "repotrial/suite-id@1",
            name,
            [msgspec.to_builtins(entry) for entry in entries],
            [msgspec.to_builtins(revision) for revision in lineage],
        ]
    )


def check_suite(path: Path) -> tuple[Suite | None, list[Path], list[Problem]]:
    """Read a suite: the document, its contract directories, and everything that is wrong with either."""
    suite, problems = _read_suite(path)
    if suite is None:
        return None, [], problems
    directories, found = _find_contracts(suite, path)
    return suite, directories, [*problems, *found]


def _read_suite(path: Path) -> tuple[Suite | None, list[Problem]]:
    """Read `suite.toml`, with everything that is wrong in it."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES)
    except (OSError, ValueError) as error:
        return None, [
            Problem(
                code="file-missing",
                severity="error",
                file=path.name,
                message=f"expected a suite, found: {getattr(error, 'strerror', None) or error}",
                hint=f'write one: schema = "{SUITE_SCHEMA}", id = …, contracts = ["contracts/*"]',
            )
        ]
    return check_document(data, file=path.name, model=Suite, schema=SUITE_SCHEMA)


def _find_contracts(suite: Suite, path: Path) -> tuple[list[Path], list[Problem]]:
    """The contract directories of a suite, sorted; and patterns that match nothing or overlap."""
    base = path.parent
    found: dict[str, str] = {}
    problems = []
    for place, pattern in enumerate(suite.contracts):
        matched = [each for each in _expand(base, pattern) if (each / CONTRACT_FILE).is_file()]
        field = f"contracts[{place}]"
        if not matched:
            problems.append(
                _problem(
                    path, field, f"expected contract directories, found none at {pattern!r}", "mend the path"
                )
            )
        for each in matched:
            name = os.path.normpath(each)
            if name in found:
                shown = os.path.relpath(name, base)
                message = f"expected each contract once, found {shown} in {found[name]!r} and in {pattern!r}"
                problems.append(_problem(path, field, message, "let the patterns not overlap"))
            found.setdefault(name, pattern)
    return [Path(name) for name in sorted(found)], problems


def _expand(base: Path, pattern: str) -> list[Path]:
    if not any(character in pattern for character in "*?["):
        return [base / pattern]
    try:
        return sorted(each for each in base.glob(pattern) if each.is_dir())
    except (ValueError, NotImplementedError, OSError):
        return []


def _problem(path: Path, field: str, message: str, hint: str) -> Problem:
    return Problem(
        code="suite-contracts", severity="error", file=path.name, field=field, message=message, hint=hint
    )
