"""Packages that a JavaScript change was tested with: its own lock, or one that npm makes as of that day."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.authoring._base import CommitTree
from repotrial.authoring._proof._locks import choose_cutoff
from repotrial.authoring._template import ContractDraft, Guess
from repotrial.contract import CONTRACT_FILE, Problem
from repotrial.environment import lock_node_packages

LOCK_FILE: Final = "package-lock.json"
_MANIFEST: Final = "package.json"
_FIELD: Final = "environment.node"
_KINDS: Final = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")

NodeLocker: TypeAlias = Callable[[Mapping[str, bytes], dt.date | None], bytes]
"""Makes a lock from a manifest as of a day, or from a manifest and the lock of another tool."""


def build_npm_locker(variables: Mapping[str, str], home: Path) -> NodeLocker:
    """npm, with what the operator has configured for it."""
    return lambda files, cutoff: lock_node_packages(files, variables=variables, home=home, cutoff=cutoff)


def apply_node(
    draft: ContractDraft, head: CommitTree, staging: Path, *, committed_at: dt.datetime, locker: NodeLocker
) -> tuple[ContractDraft, list[Problem]]:
    """The draft with the packages of that time beside it, and why there are none.

    Args:
        draft: Of a project with a `package.json` at its top.
        head: The tree with the change: what it begins to need must be there.
        staging: The contract's directory.
        committed_at: When the change was made.
        locker: Asked where the tree has no `package-lock.json`.
    """
    manifest = head.read_text(_MANIFEST) or ""
    if not _list_packages(manifest):
        return draft, []
    try:
        lock, reason = _find_lock(head, manifest, committed_at, locker)
    except RepoTrialError as error:
        return draft, [_describe(error.message)]
    (staging / _MANIFEST).write_text(manifest, encoding="utf-8", newline="\n")
    (staging / LOCK_FILE).write_bytes(lock)
    guess = Guess(field=_FIELD, value=LOCK_FILE, reason=reason)
    return msgspec.structs.replace(draft, has_node_lock=True, guesses=(*draft.guesses, guess)), []


def _list_packages(manifest: str) -> list[str]:
    try:
        document = json.loads(manifest)
    except ValueError:
        return []
    tables = [document.get(kind) for kind in _KINDS] if isinstance(document, dict) else []
    return [name for table in tables if isinstance(table, dict) for name in table]


def _find_lock(
    head: CommitTree, manifest: str, committed_at: dt.datetime, locker: NodeLocker
) -> tuple[bytes, str]:
    committed = head.read_text(LOCK_FILE)
    if committed is not None:
        return committed.encode(), "the project's own lock, as the change left it"
    cutoff, _ = choose_cutoff(committed_at, is_for_python=False)
    files = {_MANIFEST: manifest.encode()}
    yarn = head.read_text("yarn.lock")
    if yarn is not None and "# yarn lockfile v1" in yarn:
        files["yarn.lock"] = yarn.encode()
        return locker(files, None), "the versions of yarn.lock, as npm reads it"
    other = "npm reads no pnpm-lock.yaml: " if head.read_text("pnpm-lock.yaml") is not None else ""
    return locker(files, cutoff), f"{other}packages as the registry had them on {cutoff}"


def _describe(found: str) -> Problem:
    return Problem(
        code="draft-packages-unlocked",
        severity="warning",
        file=CONTRACT_FILE,
        field=_FIELD,
        message=f"expected the packages of that time, found none: {found}",
        hint="put a package-lock.json and the package.json beside contract.toml, name them in "
        "`environment.node`, then `repotrial contract prove DIR`",
    )
