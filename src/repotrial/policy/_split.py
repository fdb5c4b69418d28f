"""The part of a change that acceptance may see: without protected files and what the oracle lays itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from repotrial._core.escaping import escape_bytes
from repotrial.change import (
    DEFAULT_LIMITS,
    ChangedFile,
    PatchLimits,
    PatchSection,
    PathRules,
    fold,
    read_sections,
)
from repotrial.contract import Policy
from repotrial.policy._rules import is_protected


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
