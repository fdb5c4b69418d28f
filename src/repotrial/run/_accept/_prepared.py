"""What one execution of a check works with: a tree, a place for results, and a sandbox around both."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.escaping import escape_bytes
from repotrial.contract import Check, Environment
from repotrial.environment import Installation, SandboxRequest, build_resource_limits
from repotrial.isolation import Account, Bind, CommandResult, CommandSpec, Sandbox, find_identity
from repotrial.run._accept._candidate import (
    PATCH_NAME,
    RESULTS_PLACE,
    apply_patch,
    is_applied,
    open_plain_sandbox,
)
from repotrial.run._context import BoundRun
from repotrial.run._monitors import watch_check
from repotrial.run._network import plan_check_network
from repotrial.trace import Exited
from repotrial.witness import SyscallMonitor
from repotrial.workspace import (
    Contents,
    OverlayWorkspace,
    ReadLimits,
    TreeReader,
    Workspace,
    copy_tree,
    hide_base,
    take_whiteout,
)

_LEFTOVER_LIMITS: Final = ReadLimits(entries=10_000, total_bytes=256 * 2**20, file_bytes=64 * 2**20, depth=20)


_OUTPUT_LIMITS: Final = ReadLimits(entries=400_000)
_SECONDS: Final = 300
_LIMITS: Final = ReadLimits(file_bytes=2**30, total_bytes=2**30)
TREE_NOT_PREPARED = ErrorCode(
    "tree-not-prepared",
    MachineError,
    "The tree that a check was to judge could not be made.",
    hint="the machine is too slow or unreliable: look at its load, disk and memory, then try again",
)


JUDGE_VARIABLES: Final = {
    # No packages of a home directory, no compiled leftovers beside sources, no plugins that a tree brings.
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
"""Set for every check unless the contract sets them."""
_STEERING: Final = re.compile("GIT_|LD_")
"""Variables by which git, or any program, does something else."""


def read_leftovers(directory: Path) -> dict[str, bytes]:
    """Every regular file that lies there now, by its name; links, pipes and giants are passed over."""
    found = {}
    with TreeReader(directory, limits=_LEFTOVER_LIMITS) as reader:
        for path, node in sorted(reader.walk()):
            reading = reader.read_file(path, kept_bytes=_LEFTOVER_LIMITS.file_bytes) if node.is_file else None
            if isinstance(reading, Contents) and reading.data is not None:
                found[escape_bytes(path)] = reading.data
    return found


def remove_inside(installation: Installation, workspace: Workspace, paths: Sequence[str]) -> None:
    """Take paths away before oracle files are laid down.

    Raises:
        TREE_NOT_PREPARED: that did not come to its end; what a check said of the tree would mean nothing.
    """
    if not paths:
        return
    with open_plain_sandbox(installation, workspace) as sandbox:
        done = sandbox.run(CommandSpec(argv=("rm", "-rf", "--", *paths), timeout_seconds=_SECONDS))
    # Where it ended and some are left, the change is such that they cannot be removed: its own loss.
    if not isinstance(done.exit, Exited):
        raise TREE_NOT_PREPARED.error(f"expected to remove what the oracle deletes, found: {done.cause}")


def are_outputs_bounded(workspace: Workspace, paths: Sequence[str], *, size_mb: int) -> bool:
    """Whether what a check was declared to leave can be copied: as large as it says, however little it takes.

    A file with holes takes no space until it is copied; a tree without an end is never copied.
    """
    root = _find_upper(workspace)
    left = size_mb * 2**20
    for path in paths:
        if not _stays_below(root, path) or not (root / path).exists():
            continue
        place, name = (
            (root / path, None) if (root / path).is_dir() else ((root / path).parent, Path(path).name)
        )
        with TreeReader(place, limits=_OUTPUT_LIMITS, history_included=True) as reader:
            if name is not None:
                node = reader.look(os.fsencode(name))
                left -= node.size_bytes if node is not None and node.is_file else 0
                continue
            for _, node in reader.walk():
                left -= node.size_bytes if node.is_file else 0
                if left < 0:
                    return False
            if reader.omissions:
                return False
    return left >= 0


def take_outputs(workspace: Workspace, paths: Sequence[str], into: Path) -> None:
    """Copy what a check was declared to leave; links are copied as links, nothing is followed."""
    root = _find_upper(workspace)
    for path in paths:
        if not _stays_below(root, path):
            continue
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (root / path).is_symlink():
            continue
        if (root / path).is_dir():
            copy_tree(root / path, target, owner=None)
        elif (root / path).is_file():
            _copy_file(root, path, target)


def carry_outputs(kept: Path, paths: Sequence[str], workspace: Workspace) -> None:
    """Put outputs of an earlier check into a fresh workspace; what the candidate has there stays.

    What it has deleted is not there: a build may well make again what a change takes away.
    """
    root = _find_upper(workspace)
    account = find_identity()
    owner = None if account.uid == os.geteuid() else account
    for path in paths:
        target = root / path
        if not os.path.lexists(kept / path) or not _stays_below(root, path):
            continue
        if not _make_parents(root, path, owner):
            continue
        was_deleted = take_whiteout(target)
        if os.path.lexists(target):
            continue
        if (kept / path).is_dir():
            copy_tree(kept / path, target, owner=owner)
            if was_deleted:
                hide_base(target)
        else:
            shutil.copy2(kept / path, target)
            _give(target, owner)


def _copy_file(root: Path, path: str, target: Path) -> None:
    with TreeReader(root, limits=_LIMITS) as reader:
        reading = reader.read_file(os.fsencode(path), kept_bytes=_LIMITS.file_bytes)
    if isinstance(reading, Contents) and reading.data is not None:
        target.write_bytes(reading.data)
        target.chmod(reading.node.permissions & 0o777)


def _make_parents(root: Path, path: str, owner: Account | None) -> bool:
    """Make the way to a path; false where something else is on it."""
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        place = root / parent
        was_deleted = take_whiteout(place)
        if place.is_dir():
            continue
        if os.path.lexists(place):
            return False
        place.mkdir(mode=0o755)
        _give(place, owner)
        if was_deleted:
            hide_base(place)
    return True


def _give(path: Path, owner: Account | None) -> None:
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)


def _find_upper(workspace: Workspace) -> Path:
    return workspace.upper if isinstance(workspace, OverlayWorkspace) else workspace.path


def _stays_below(root: Path, path: str) -> bool:
    """Whether no part of the way is a link: the tree is a candidate's."""
    parts = PurePosixPath(path).parts
    return not any((root / PurePosixPath(*parts[:count])).is_symlink() for count in range(1, len(parts)))


class Prepared:
    """A fresh tree and a place for results; both are gone when this is left."""

    def __init__(self, installation: Installation) -> None:
        self._sandbox: Sandbox | None = None
        self._check_id: str | None = None
        self._around_sandbox = ExitStack()
        with ExitStack() as stack:
            self.workspace = stack.enter_context(installation.open_workspace())
            self.results = stack.enter_context(installation.open_scratch())
            self._stack = stack.pop_all()

    def open_sandbox(self, run: BoundRun, check: Check, files: tuple[Bind, ...]) -> Sandbox:
        """The sandbox of a check on this tree; the one that is open, where there is one.

        Args:
            run: It ends where the run is stopped.
            check: The check.
            files: Oracle files.
        """
        if self._sandbox is not None:
            assert not files, "only a check without oracle files can have its sandbox early"
            return self._sandbox
        writer, contract = run.writer, run.plan.loaded.contract
        monitor = SyscallMonitor(writer, phase="accept", since=writer.last_seq)
        judge = {
            name: value
            for name, value in JUDGE_VARIABLES.items()
            if name not in contract.environment.variables
        }
        network = plan_check_network(check, run, self._around_sandbox)
        results = Bind(source=self.results.path, target=RESULTS_PLACE, is_writable=True)
        sandbox = run.installation.open_sandbox(
            self.workspace,
            SandboxRequest(
                phase="accept",
                binds=(*files, results, *network.binds),
                variables={
                    **judge,
                    **run.manifest.seeds.test_variables,
                    **network.variables,
                    **check.variables,
                    "REPOTRIAL_RESULTS": RESULTS_PLACE,
                },
                limits=build_resource_limits(contract.limits, phase="accept"),
            ),
            sink=monitor,
        )
        self._around_sandbox.callback(watch_check(run, check.id).end)
        self._around_sandbox.callback(monitor.close)
        self._around_sandbox.enter_context(sandbox)
        self._around_sandbox.enter_context(monitor.watch(sandbox))
        self._around_sandbox.enter_context(run.settings.stopper.watch(sandbox))
        self._around_sandbox.enter_context(run.books.watch(lambda _: sandbox.close()))
        self._around_sandbox.enter_context(network.serve(run, sandbox, run.settings.network))
        self._sandbox, self._check_id = sandbox, check.id
        return sandbox

    def fits(self, check: Check, *, has_files: bool) -> bool:
        """Whether a check can be executed here: one that has its sandbox early is for its own check alone."""
        return self._sandbox is None or (check.id == self._check_id and not has_files)

    def close_sandbox(self) -> None:
        """End everything that runs on this tree.

        Raises:
            RUN_STOPPED: the run was stopped meanwhile: what the sandbox reported means nothing.
        """
        self._around_sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            self._around_sandbox.__exit__(kind, error, trace)


def apply_early(run: BoundRun, check: Check, patch: bytes) -> tuple[Prepared, CommandResult] | None:
    """The change, applied in the first check's own sandbox before anything of it runs.

    A sandbox costs more than git does. But that tree must be the same as if git had worked alone: so nothing
    else may come into it, and if git refuses, the caller tries again in a sandbox of its own.

    Returns:
        None where it is not possible, or git objects.
    """
    if not patch or not leaves_git_alone(run.plan.loaded.contract.environment, check):
        return None
    with ExitStack() as stack:
        prepared = stack.enter_context(Prepared(run.installation))
        sandbox = prepared.open_sandbox(run, check, ())
        file = prepared.results.write(PATCH_NAME, patch)
        result = apply_patch(sandbox)
        file.unlink()
        if is_applied(result):
            stack.pop_all()
            return prepared, result
    return None


def leaves_git_alone(environment: Environment, check: Check) -> bool:
    """Whether git is the host's own, nothing steers it, and nothing but the base is in its tree."""
    has_others = bool(environment.services or environment.mounts or check.files or check.needs)
    has_others = has_others or check.network != "none"
    names = (*environment.variables, *check.variables, *(secret.name for secret in environment.secrets))
    return environment.image == "host" and not has_others and not any(map(_STEERING.match, names))
