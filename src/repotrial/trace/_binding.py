"""Binding (C2, P2): what the contract declares against what the machine shows, before the first action.

A mismatch makes a run invalid, not failed: it says nothing about the agent.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import Digest
from repotrial.trace._manifest import (
    ArchiveIdentity,
    DirectoryIdentity,
    GitIdentity,
    HostEnvironment,
    ImageEnvironment,
    Lockfile,
    RepositoryIdentity,
    Submodule,
)


class DeclaredImage(msgspec.Struct, frozen=True, kw_only=True):
    """The contract names an image."""

    image_digest: Digest


class DeclaredHost(msgspec.Struct, frozen=True, kw_only=True):
    """The contract accepts any machine whose tools meet constraints such as `>=3.11,<4`."""

    tools: Mapping[str, str]


class ObservedHost(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as found."""

    environment: HostEnvironment
    tools: Mapping[str, str | Unknown]


class DeclaredIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What the locked contract promises."""

    version_id: Digest
    repository: RepositoryIdentity
    environment: DeclaredImage | DeclaredHost
    lockfiles: tuple[Lockfile, ...] = ()


class ObservedIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on this machine."""

    version_id: Digest | Unknown
    repository: RepositoryIdentity | Unknown
    environment: ImageEnvironment | ObservedHost | Unknown
    lockfiles: tuple[Lockfile, ...] | Unknown = ()


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One field in which the two do not agree, or which could not be observed."""

    field: str
    expected: str
    found: str


def check_binding(declared: DeclaredIdentity, observed: ObservedIdentity) -> list[Mismatch]:
    """Compare every declared field; an empty list binds the run."""
    return [
        *_compare("contract.version_id", declared.version_id, observed.version_id),
        *_iter_repository(declared.repository, observed.repository),
        *_iter_environment(declared.environment, observed.environment),
        *_iter_lockfiles(declared.lockfiles, observed.lockfiles),
    ]


def _compare(field: str, expected: str, found: str | Unknown) -> Iterator[Mismatch]:
    if found != expected:
        yield Mismatch(field=field, expected=expected, found=_shown(found))


def _shown(found: str | Unknown) -> str:
    return f"unknown: {found.reason}" if isinstance(found, Unknown) else found


def _iter_repository(
    declared: RepositoryIdentity, observed: RepositoryIdentity | Unknown
) -> Iterator[Mismatch]:
    match declared, observed:
        case _, Unknown():
            yield Mismatch(field="repository", expected=_kind(declared), found=_shown(observed))
        case GitIdentity(), GitIdentity():
            yield from _compare("repository.commit", declared.commit, observed.commit)
            yield from _compare("repository.tree_digest", declared.tree_digest, observed.tree_digest)
            yield from _iter_submodules(declared.submodules, observed.submodules)
        case ArchiveIdentity(), ArchiveIdentity():
            yield from _compare("repository.archive_digest", declared.archive_digest, observed.archive_digest)
            yield from _compare("repository.tree_digest", declared.tree_digest, observed.tree_digest)
        case DirectoryIdentity(), DirectoryIdentity():
            yield from _compare("repository.tree_digest", declared.tree_digest, observed.tree_digest)
        case _:
            yield Mismatch(field="repository.kind", expected=_kind(declared), found=_kind(observed))
            yield from _compare("repository.tree_digest", declared.tree_digest, observed.tree_digest)


def _kind(identity: RepositoryIdentity) -> str:
    match identity:
        case GitIdentity():
            return "git"
        case ArchiveIdentity():
            return "archive"
        case DirectoryIdentity():
            return "directory"


def _iter_submodules(declared: tuple[Submodule, ...], observed: tuple[Submodule, ...]) -> Iterator[Mismatch]:
    yield from _compare_named(
        "repository.submodules",
        {submodule.path: submodule.commit for submodule in declared},
        {submodule.path: submodule.commit for submodule in observed},
    )


def _iter_lockfiles(
    declared: tuple[Lockfile, ...], observed: tuple[Lockfile, ...] | Unknown
) -> Iterator[Mismatch]:
    if isinstance(observed, Unknown):
        if declared:
            yield Mismatch(field="lockfiles", expected=f"{len(declared)} lockfile(s)", found=_shown(observed))
        return
    yield from _compare_named(
        "lockfiles",
        {lockfile.path: lockfile.digest for lockfile in declared},
        {lockfile.path: lockfile.digest for lockfile in observed},
    )


def _compare_named(
    field: str, declared: Mapping[str, str], observed: Mapping[str, str]
) -> Iterator[Mismatch]:
    for name in sorted({*declared, *observed}):
        expected, found = declared.get(name, "none"), observed.get(name, "none")
        yield from _compare(f"{field}[{name}]", expected, found)


def _iter_environment(
    declared: DeclaredImage | DeclaredHost, observed: ImageEnvironment | ObservedHost | Unknown
) -> Iterator[Mismatch]:
    match declared:
        case DeclaredImage() if isinstance(observed, ImageEnvironment):
            yield from _compare("environment.image_digest", declared.image_digest, observed.image_digest)
        case DeclaredHost() if isinstance(observed, ObservedHost):
            yield from _iter_tools(declared.tools, observed.tools)
        case DeclaredImage():
            yield Mismatch(field="environment", expected=declared.image_digest, found=_environment(observed))
        case DeclaredHost():
            yield Mismatch(field="environment", expected=_HOST, found=_environment(observed))


_HOST = "the host itself"


def _environment(observed: ImageEnvironment | ObservedHost | Unknown) -> str:
    match observed:
        case ImageEnvironment():
            return observed.image_digest
        case ObservedHost():
            return _HOST
        case Unknown():
            return _shown(observed)


def _iter_tools(declared: Mapping[str, str], observed: Mapping[str, str | Unknown]) -> Iterator[Mismatch]:
    for name, constraint in sorted(declared.items()):
        found = observed.get(name, Unknown(reason="not looked for"))
        if isinstance(found, Unknown) or not _meets(found, constraint):
            yield Mismatch(field=f"environment.tools.{name}", expected=constraint, found=_shown(found))


_Numbers: TypeAlias = tuple[int, ...]


def _is_compatible(found: _Numbers, wanted: _Numbers) -> bool:
    """`~=3.11.2` accepts 3.11.2 and every later 3.11."""
    return found >= wanted and found[: len(wanted) - 1] == wanted[:-1]


_COMPARISONS: dict[str, Callable[[_Numbers, _Numbers], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|~=|>|<)\s*([0-9]+(?:\.[0-9]+)*)[0-9A-Za-z.+-]*\s*", re.ASCII)
_VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)", re.ASCII)


def _meets(version: str, constraint: str) -> bool:
    """Whether a version meets all clauses; what cannot be read is not met.

    Only the leading numbers count: tools name their builds in too many ways (`2.43.0.windows.1`).
    """
    found = _VERSION.match(version)
    if found is None:
        return False
    return all(_meets_clause(_numbers(found[1]), clause) for clause in constraint.split(","))


def _meets_clause(found: _Numbers, clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        return False
    wanted = _numbers(match[2])
    if match[1] == "~=":
        return _is_compatible(found, wanted)
    # `3.11` and `3.11.0` are the same version.
    length = max(len(found), len(wanted))
    return _COMPARISONS[match[1]](_padded(found, length), _padded(wanted, length))


def _numbers(version: str) -> _Numbers:
    # A number of a hundred digits is nobody's version, and Python refuses to read one of five thousand.
    return tuple(int(part[:100]) for part in version.split("."))


def _padded(numbers: _Numbers, length: int) -> _Numbers:
    return numbers + (0,) * (length - len(numbers))
