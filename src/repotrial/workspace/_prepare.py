"""Making a base: snapshot, times, one commit, Setup; checked before anyone can see it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from repotrial import __version__
from repotrial._core.canonical import dump_checked
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.files import write_atomic
from repotrial._core.remove_tree import remove_tree
from repotrial.isolation import Account
from repotrial.source import (
    SEALED_AT_SECONDS,
    SourceOptions,
    compute_tree_digest,
    materialize_snapshot,
    seal_history,
)
from repotrial.workspace._base import (
    UNBOUNDED,
    BaseLabel,
    BaseRequest,
    Setup,
    SetupPlace,
    build_fingerprint,
    check_sealed_tree,
    render_paths,
    summarize_tree,
)
from repotrial.workspace._copy import copy_tree, give_tree
from repotrial.workspace._reader import TreeReader
from repotrial.workspace._setup_record import build_product_digest, write_setup_record

BASE_MISMATCH = ErrorCode(
    "base-mismatch",
    ContractError,
    "The repository is not the one that the contract was locked with.",
    hint="restore the source, or run `repotrial contract lock` if the new one is what you want",
)
BASE_NOT_SEALED = ErrorCode(
    "base-not-sealed",
    ContractError,
    "A prepared tree would show the agent more history than the one commit.",
    hint="remove nested repositories that Setup leaves in the tree; outputs may hold them",
)
MTIME_ORDER_MISSING = ErrorCode(
    "mtime-order-missing",
    ContractError,
    "`repository.mtime_order` names something that is no file of the repository.",
    hint="list files of the snapshot only, oldest first",
)


def make_entry(
    entry: Path,
    request: BaseRequest,
    *,
    setup: Setup | None,
    owner: Account | None,
    options: SourceOptions,
    previous_product: Digest | None = None,
) -> BaseLabel:
    """Fill an empty directory that no other process looks at."""
    tree, outputs = entry / "tree", entry / "outputs"
    snapshot = materialize_snapshot(request.repository, base=request.directory, into=tree, options=options)
    if snapshot.tree_digest != request.tree_digest:
        raise BASE_MISMATCH.error(f"expected the tree {request.tree_digest}, found {snapshot.tree_digest}")
    tracked = _set_times(tree, request.repository.mtime_order)
    outputs.mkdir()
    give_tree(tree, owner)
    give_tree(outputs, owner)
    commit = seal_history(tree, describe=request.repository.describe, options=options).commit
    give_tree(tree / ".git", owner)
    # Read back: what counts is what lies on the disk.
    found = compute_tree_digest(tree, history_ignored=True, options=options)
    if found != request.tree_digest:
        raise BASE_MISMATCH.error(f"expected to have written {request.tree_digest}, found {found}")
    if setup is not None:
        _execute_setup(entry, setup, owner, previous_product)
    _verify_sealed(tree)
    return _write_label(entry, request, tracked=tracked, commit=commit, setup=setup, owner=owner)


def _set_times(tree: Path, order: tuple[str, ...]) -> list[bytes]:
    """One time for all files, later ones in the given order; builds that compare times see nothing stale."""
    with TreeReader(tree, limits=UNBOUNDED) as reader:
        found = sorted(reader.walk())
    ranks = {os.fsencode(path): rank for rank, path in enumerate(order, start=1)}
    if missing := [path for path in ranks if path not in {path for path, node in found if node.is_file}]:
        raise MTIME_ORDER_MISSING.error(
            f"expected files of the snapshot, found no {missing[0].decode(errors='replace')}"
        )
    root = os.fsencode(tree)
    for path, _ in reversed(found):
        seconds = SEALED_AT_SECONDS + ranks.get(path, 0)
        os.utime(root + b"/" + path, (seconds, seconds), follow_symlinks=False)
    return [path for path, node in found if not node.is_directory]


def _execute_setup(entry: Path, setup: Setup, owner: Account | None, previous: Digest | None) -> None:
    """Run Setup on a history that it may do anything to, and put the sealed one back."""
    tree, sealed = entry / "tree", entry / "sealed"
    history = tree / ".git"
    copy_tree(history, sealed, owner=owner)
    place = SetupPlace(
        tree=tree,
        outputs=entry / "outputs",
        recordings=entry / "recordings",
        executions=entry / "executions",
    )
    attempts = setup.execute(place)
    # Setup ran code of the repository: its `.git` is never opened by git outside of a sandbox.
    if history.is_symlink() or history.is_file():
        history.unlink()
    remove_tree(history)
    sealed.rename(history)
    for kept in (tree, entry / "outputs"):
        for path in summarize_tree(kept, limits=UNBOUNDED, contents_read=False).special_files:
            (kept / os.fsdecode(path)).unlink()
    if attempts is not None:
        # C12: who fetched must be able to say what came of it. The history holds times, and is none of it.
        product = build_product_digest(
            summarize_tree(tree, limits=UNBOUNDED, history_included=False).digest,
            summarize_tree(entry / "outputs", limits=UNBOUNDED).digest,
        )
        write_setup_record(entry / "network", attempts, product=product, previous=previous)


def _verify_sealed(tree: Path) -> None:
    if problems := check_sealed_tree(tree):
        raise BASE_NOT_SEALED.error("; ".join(problem.message for problem in problems[:5]))


def _write_label(
    entry: Path,
    request: BaseRequest,
    *,
    tracked: list[bytes],
    commit: str,
    setup: Setup | None,
    owner: Account | None,
) -> BaseLabel:
    setup_digest = None if setup is None else setup.digest
    tree = summarize_tree(entry / "tree", limits=UNBOUNDED)
    others = [path for path in (entry / "outputs", entry / "recordings") if path.is_dir()]
    others_bytes = sum(
        summarize_tree(path, limits=UNBOUNDED, contents_read=False).size_bytes for path in others
    )
    label = BaseLabel(
        key=request.build_key(setup_digest=setup_digest, owner=owner),
        tree_digest=request.tree_digest,
        environment_id=request.environment_id,
        setup_digest=setup_digest,
        commit=commit,
        prepared_digest=tree.digest,
        size_bytes=tree.size_bytes + others_bytes,
        file_count=tree.file_count,
        made_by=f"repotrial {__version__}",
        made_at_us=SystemClock().now_us(),
    )
    (entry / "tracked").write_bytes(render_paths(tracked))
    (entry / "ignores").write_bytes(render_paths(tree.ignore_files))
    (entry / "used").touch()
    (entry / "fingerprint").write_text(build_fingerprint(entry / "tree", limits=UNBOUNDED))
    write_atomic(entry / "label", dump_checked(msgspec.to_builtins(label)) + b"\n")
    return label
