"""Which changes of a history are worth trying, and in which order. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial.authoring import KnownTestPaths, guess_kind
from repotrial.contract import TaskKind
from repotrial.source import CommitSummary, FileCount

LeftOutCause: TypeAlias = Literal["revert", "reverted", "near-duplicate", "too-large"]
SizeClass: TypeAlias = Literal["small", "medium", "large"]

_CODE: Final = re.compile(
    r"\.(?:py|pyx|pyi|js|jsx|mjs|cjs|ts|tsx|mts|cts|rs|go|c|h|cc|cpp|hpp|java|kt|rb|php|cs|swift|ex|exs|dart)$"
)
_BESIDE: Final = re.compile(
    r"(?:docs?|examples?|benchmarks?|bench|\.github|ci|scripts?|tools?)/|setup\.py$|noxfile"
)
_REVERT: Final = re.compile(r"^Revert\b", re.IGNORECASE)
_REVERTED: Final = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
_MOST_FILES: Final = 40
_MOST_LINES: Final = 1500
_SMALL: Final = 15
_MEDIUM: Final = 80
_ALIKE: Final = 0.8
"""Share of words that two subjects have in common, where the same files change, to be the same change."""


class MineCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A change of code and tests."""

    commit: str
    subject: str
    committed_at_seconds: int
    kind: TaskKind
    path: str
    """The directory in which most of the code changes."""
    size: SizeClass
    lines: int
    """Of code, added and removed; tests are not counted."""
    left_out: LeftOutCause | None = None
    """Why it is not tried; None if it may be."""

    @property
    def month(self) -> str:
        """Of the commit, as `2026-08`."""
        return f"{dt.datetime.fromtimestamp(self.committed_at_seconds, dt.UTC):%Y-%m}"

    @property
    def stratum(self) -> tuple[str, str, str, str]:
        """What candidates are spread over."""
        return (self.path, self.kind, self.size, self.month)


def find_candidates(commits: Sequence[CommitSummary], tests: KnownTestPaths) -> list[MineCandidate]:
    """Changes of code and tests, newest first; each that is not to be tried says why."""
    reverted = {found for commit in commits for found in _REVERTED.findall(commit.message)}
    kept: list[tuple[frozenset[str], frozenset[str]]] = []
    candidates = []
    for commit in commits:
        code = [file for file in commit.files if _is_code(file.path, tests)]
        if not commit.parents or not code or not any(_is_test(file, tests) for file in commit.files):
            continue
        candidate = _build(commit, code)
        left_out = _find_reason(commit, candidate, reverted)
        words = frozenset(re.findall(r"\w+", candidate.subject.lower()))
        paths = frozenset(file.path for file in commit.files)
        if left_out is None and any(paths == other and _alike(words, said) for other, said in kept):
            left_out = "near-duplicate"
        kept.append((paths, words))
        candidates.append(msgspec.structs.replace(candidate, left_out=left_out))
    return candidates


def _is_code(path: str, tests: KnownTestPaths) -> bool:
    return path not in tests and _CODE.search(path) is not None and _BESIDE.match(path) is None


def _is_test(file: FileCount, tests: KnownTestPaths) -> bool:
    return file.path in tests and file.added > 0


def _build(commit: CommitSummary, code: Sequence[FileCount]) -> MineCandidate:
    lines = sum(file.added + file.removed for file in code)
    most = max(code, key=lambda file: (file.added + file.removed, file.path))
    return MineCandidate(
        commit=commit.commit,
        subject=next((line.strip() for line in commit.message.splitlines() if line.strip()), ""),
        committed_at_seconds=commit.committed_at_seconds,
        kind=guess_kind(commit.message)[0],
        path=most.path.rpartition("/")[0] or ".",
        size="small" if lines <= _SMALL else "medium" if lines <= _MEDIUM else "large",
        lines=lines,
    )


def _find_reason(
    commit: CommitSummary, candidate: MineCandidate, reverted: Iterable[str]
) -> LeftOutCause | None:
    if _REVERT.match(candidate.subject) or _REVERTED.search(commit.message):
        return "revert"
    if any(commit.commit.startswith(found) for found in reverted):
        return "reverted"
    if len(commit.files) > _MOST_FILES or candidate.lines > _MOST_LINES:
        return "too-large"
    return None


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _ALIKE * len(one | other)


def order_candidates(candidates: Iterable[MineCandidate]) -> list[MineCandidate]:
    """Turn by turn, one of each stratum: any first part is spread over paths, kinds, sizes and months.

    First over sizes, which differ least in number where most changes are small; then over paths and kinds;
    then over months.
    """
    groups: dict[tuple[str, str, str], list[MineCandidate]] = defaultdict(list)
    for candidate in candidates:
        groups[candidate.size, candidate.path, candidate.kind].append(candidate)
    queues = {key: _spread(found) for key, found in sorted(groups.items())}
    ordered: list[MineCandidate] = []
    while any(queues.values()):
        for size in ("large", "medium", "small"):
            of_size = [key for key, queue in queues.items() if key[0] == size and queue]
            if of_size:
                rarest = min(of_size, key=lambda key: (_count(ordered, key), key))
                ordered.append(queues[rarest].pop(0))
    return ordered


def _count(ordered: Iterable[MineCandidate], key: tuple[str, str, str]) -> int:
    return sum((each.size, each.path, each.kind) == key for each in ordered)


def _spread(candidates: Sequence[MineCandidate]) -> list[MineCandidate]:
    """One of each month in turn, newest months first."""
    months: dict[str, list[MineCandidate]] = defaultdict(list)
    for candidate in candidates:
        months[candidate.month].append(candidate)
    ordered: list[MineCandidate] = []
    while any(months.values()):
        ordered += [months[month].pop(0) for month in sorted(months, reverse=True) if months[month]]
    return ordered
