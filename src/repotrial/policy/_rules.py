"""Rules on the change (C7, C10): what it may touch, and how large it may be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.escaping import escape_bytes
from repotrial.change import (
    DEFAULT_LIMITS,
    GITLINK,
    SYMLINK,
    ChangedFile,
    ChangeView,
    Location,
    PatchLimits,
    PatchSection,
    PathRules,
    fold,
    read_sections,
)
from repotrial.contract import Policy, RuleSeverity

_MARK = re.compile(r"(<{7}|\|{7}|={7}|>{7})(?: .*)?\r?", re.DOTALL)


def find_conflict_markers(view: ChangeView) -> tuple[Location, ...]:
    """Lines of groups that a merge leaves: an opening mark, what is between, a closing mark.

    A row of equal signs alone is a heading's underline.
    """
    return tuple(place for file in view.iter_present() for place in _iter_groups(file))


def _iter_groups(file: ChangedFile) -> Iterator[Location]:
    group: list[int] = []
    for line in file.added_lines:
        mark = _MARK.fullmatch(line.text) if line.text[:1] in {"<", "|", "=", ">"} else None
        if mark is None or (mark[1][0] != "<" and not group):
            continue
        if mark[1][0] == "<":
            group = []
        group.append(line.number)
        if mark[1][0] == ">":
            yield from (Location(path=file.path, line=number) for number in group)
            group = []


RuleName: TypeAlias = Literal[
    "protected", "writable", "change_size", "generated", "dependencies", "tools", "network", "limits"
]

_NOT_WRITABLE = "expected a path that the contract lets change, found another"
_GENERATED = "expected no generated file in the change, found one"


class PolicyViolation(msgspec.Struct, frozen=True, kw_only=True):
    """One broken rule of the policy."""

    rule: RuleName
    """Its key in `policy.violations`."""
    severity: RuleSeverity
    """What the contract says that it weighs."""
    path: str | None = None
    """The file, as the trace writes names; None where the rule is about the whole change."""
    message: str
    """What was expected and what was found."""


def check_change(view: ChangeView, policy: Policy) -> tuple[PolicyViolation, ...]:
    """Every rule that the change breaks, rule by rule, in the order of the patch.

    Raises:
        POLICY_GLOB: a glob of the policy means nothing.
    """
    protected, writable, generated = (
        PathRules(globs) for globs in (policy.protected, policy.writable, policy.generated)
    )
    weights = policy.violations
    return (
        *(
            PolicyViolation(rule="protected", severity=weights.protected, path=path, message=message)
            for path, message in dict.fromkeys(
                fault for file in view.files for fault in _iter_file_faults(file, protected)
            )
        ),
        *(
            PolicyViolation(rule="writable", severity=weights.writable, path=path, message=_NOT_WRITABLE)
            for path in _iter_paths(view)
            # What is taken back stays taken back under another spelling.
            if not (writable.covers(path) and writable.covers_folded(path))
        ),
        *(
            PolicyViolation(rule="change_size", severity=weights.change_size, message=message)
            for message in _iter_sizes(view, policy)
        ),
        *(
            PolicyViolation(rule="generated", severity=weights.generated, path=path, message=_GENERATED)
            for path in _iter_paths(view)
            if generated.covers(path)
        ),
    )


def is_protected(file: ChangedFile, rules: PathRules) -> bool:
    """Whether any of it touches what the rules cover, or leads around them."""
    return any(True for _ in _iter_file_faults(file, rules))


def _iter_paths(view: ChangeView) -> Iterator[str]:
    yield from dict.fromkeys(path for file in view.files for path in file.touched_paths)


def _iter_file_faults(file: ChangedFile, rules: PathRules) -> Iterator[tuple[str, str]]:
    for path in file.touched_paths:
        if rules.covers(path):
            yield path, "expected protected files untouched, found a change"
        elif rules.covers_folded(path):
            yield path, "expected no other spelling of a protected path, found one"
    if file.mode in {SYMLINK, GITLINK} and rules.may_reach_through(file.path, file.link_target):
        yield file.path, "expected no way around protected paths, found a link above them"


def _iter_sizes(view: ChangeView, policy: Policy) -> Iterator[str]:
    for limit, found, unit in (
        (policy.max_files_changed, view.file_count, "files changed"),
        (policy.max_lines_changed, view.line_count, "lines added and removed"),
        (policy.max_binary_bytes, view.binary_bytes, "bytes of binary content"),
    ):
        if limit is not None and found > limit:
            yield f"expected at most {limit} {unit}, found {found}"


class SplitChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change in two parts."""

    kept: bytes
    """A patch that applies wherever the whole one does."""
    stripped: tuple[str, ...]
    """Paths that it does not touch any more, sorted."""


def split_change(
    patch: bytes, policy: Policy, oracle_targets: Sequence[str], *, limits: PatchLimits = DEFAULT_LIMITS
) -> SplitChange:
    """Take protected files out of a patch, and files that collide with the oracle's.

    What cannot be applied without them goes too: a new file in the place of one that stays.

    Args:
        patch: As git writes it.
        policy: Says what is protected.
        oracle_targets: Where the oracle lays files; of a directory, all that is below it.
        limits: Bounds for the patch.

    Raises:
        PATCH_UNREADABLE: the patch cannot be read.
        POLICY_GLOB: a glob of the policy means nothing.
    """
    sections = read_sections(patch, limits=limits)
    rules = PathRules(policy.protected)
    targets = _Places(fold(escape_bytes(target.strip("/").encode())) for target in oracle_targets)
    stripped = [
        section
        for section in sections
        if is_protected(section.file, rules)
        or any(targets.has_collision(fold(path)) for path in section.file.touched_paths)
    ]
    stripped = _close(sections, stripped)
    gone = {section.start for section in stripped}
    return SplitChange(
        kept=b"".join(patch[each.start : each.end] for each in sections if each.start not in gone),
        stripped=tuple(sorted({path for each in stripped for path in each.file.touched_paths})),
    )


class _Places:
    """Paths, and whether another one is the same, above or below."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._paths: set[str] = set()
        self._above: set[str] = set()
        self.add(paths)

    def add(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._paths.add(path)
            self._above.update(_list_parents(path))

    def has_collision(self, path: str) -> bool:
        return path in self._above or any(each in self._paths for each in (path, *_list_parents(path)))


def _list_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _close(sections: Sequence[PatchSection], stripped: Sequence[PatchSection]) -> list[PatchSection]:
    """Add entries that need the place of a file which stays now, and so on."""
    chosen = {section.start for section in stripped}
    staying = _Places(path for section in stripped for path in _list_removed(section.file))
    waiting = [section for section in sections if section.start not in chosen]
    while True:
        blocked = [each for each in waiting if any(staying.has_collision(p) for p in _list_made(each.file))]
        if not blocked:
            return [section for section in sections if section.start in chosen]
        chosen |= {section.start for section in blocked}
        waiting = [section for section in waiting if section.start not in chosen]
        staying.add(path for section in blocked for path in _list_removed(section.file))


def _list_removed(file: ChangedFile) -> tuple[str, ...]:
    match file.kind:
        case "deleted":
            return (file.path,)
        case "renamed":
            assert file.old_path is not None
            return (file.old_path,)
        case "added" | "modified" | "mode-changed":
            return ()


def _list_made(file: ChangedFile) -> tuple[str, ...]:
    return (file.path,) if file.kind in {"added", "renamed"} else ()
