"""Everything that is kept for the next run, in one list: prepared workspaces and environments."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.digest import Digest
from repotrial.environment import BrokenEntry, Store, StoreKind, StoreRecord, list_store, prune_store
from repotrial.workspace import BaseCache

KeptKind: TypeAlias = Literal["workspace", "image", "installer", "python", "node", "artifact", "agent"]

_KINDS: Final[dict[StoreKind, KeptKind]] = {
    StoreKind.IMAGE: "image",
    StoreKind.INSTALLER: "installer",
    StoreKind.PYTHON: "python",
    StoreKind.NODE: "node",
    StoreKind.ARTIFACT: "artifact",
    StoreKind.AGENT: "agent",
}
_SECOND_US: Final = 1_000_000


class KeptItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing as `cache list` shows it."""

    kind: KeptKind
    key: Digest
    """Digest of everything that it was made from."""
    tree_digest: Digest | None
    """Of what is in it; None if its record is broken."""
    size_bytes: int | None
    """None if its record is broken."""
    used_at_us: int
    """When it was last asked for."""
    is_in_use: bool
    """Whether a process holds it now; then nothing removes it."""
    problem: str = ""
    """What is wrong with its record."""
    content: str = ""
    """What is in it, where that can be said in a word: the package of an agent."""


def list_kept(cache: Path) -> list[KeptItem]:
    """What is kept in a cache directory, the longest unused first."""
    return sorted([*_list_bases(cache), *_list_environments(cache)], key=lambda item: item.used_at_us)


def prune_kept(cache: Path, *, unused_seconds: int = 0, max_bytes: int | None = None) -> list[KeptItem]:
    """Remove what no process uses, the longest unused first.

    Args:
        cache: The cache directory.
        unused_seconds: Leave alone what was used within this time.
        max_bytes: Stop as soon as what is left takes no more room; None: go on to the end.

    Returns:
        What was removed.
    """
    items = list_kept(cache)
    doomed = _choose(items, unused_seconds=unused_seconds, max_bytes=max_bytes)
    if (cache / "store").is_dir():
        keys = frozenset(item.key for item in doomed if item.kind != "workspace")
        prune_store(Store(cache / "store"), unused_seconds=unused_seconds, keys=keys)
    if (cache / "bases").is_dir():
        kept = [item for item in items if item.kind == "workspace" and item not in doomed]
        room = None if max_bytes is None else _measure(kept)
        BaseCache(cache / "bases").prune(unused_seconds=unused_seconds, max_bytes=room)
    left = {(item.kind, item.key) for item in list_kept(cache)}
    return [item for item in items if (item.kind, item.key) not in left]


def _choose(items: list[KeptItem], *, unused_seconds: int, max_bytes: int | None) -> list[KeptItem]:
    oldest_us = time.time_ns() // 1000 - unused_seconds * _SECOND_US
    left_bytes = _measure(items)
    chosen = []
    for item in items:
        if max_bytes is not None and left_bytes <= max_bytes:
            break
        if not item.is_in_use and item.used_at_us <= oldest_us:
            chosen.append(item)
            left_bytes -= item.size_bytes or 0
    return chosen


def _measure(items: list[KeptItem]) -> int:
    return sum(item.size_bytes or 0 for item in items)


def _list_bases(cache: Path) -> list[KeptItem]:
    if not (cache / "bases").is_dir():
        return []
    return [
        KeptItem(
            kind="workspace",
            key=entry.label.key,
            tree_digest=entry.label.tree_digest,
            size_bytes=entry.label.size_bytes,
            used_at_us=entry.used_at_us,
            is_in_use=entry.is_in_use,
            content="" if entry.recordings is None else f"recordings in {entry.recordings}",
        )
        for entry in BaseCache(cache / "bases").list_entries()
    ]


def _list_environments(cache: Path) -> list[KeptItem]:
    if not (cache / "store").is_dir():
        return []
    store = Store(cache / "store")
    return [_describe(store, entry) for entry in list_store(store)]


def _describe(store: Store, entry: StoreRecord | BrokenEntry) -> KeptItem:
    use = store.describe_use(entry.kind, entry.key)
    return KeptItem(
        kind=_KINDS[entry.kind],
        key=entry.key,
        tree_digest=None if isinstance(entry, BrokenEntry) else entry.tree_digest,
        size_bytes=None if isinstance(entry, BrokenEntry) else entry.size_bytes,
        used_at_us=use.used_at_us,
        is_in_use=use.is_in_use,
        problem=entry.problem if isinstance(entry, BrokenEntry) else "",
        content="" if isinstance(entry, BrokenEntry) else _name_content(entry),
    )


def _name_content(record: StoreRecord) -> str:
    named = record.facts.get("packages") or record.facts.get("requirements") or ()
    return named[0] if isinstance(named, tuple) and named else ""
