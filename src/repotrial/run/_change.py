"""The agent's change: taken from its workspace, or restated from a patch that was handed in."""

from __future__ import annotations

from collections import Counter

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import AgentError
from repotrial._core.escaping import escape_bytes
from repotrial.change import read_change
from repotrial.run._accept._candidate import apply_patch_inside, is_applied
from repotrial.run._context import BoundRun
from repotrial.trace import ChangedEntry, ChangeTaken, MonitorAlert, Signal, TestIds
from repotrial.workspace import Omission, Workspace, build_change

_NAMED = 50
_MOST_ENTRIES = 10_000


def restate_patch(run: BoundRun, patch: bytes) -> bytes:
    """The change that a patch makes, as git writes it; the patch as it came where git cannot apply it.

    Patches of models often lack what only git writes (modes, digests, `diff --git`), and git applies them all
    the same. Judges read no guesses, so git does it once, and what it made of the tree is the change.
    """
    try:
        read_change(patch)
    except AgentError:  # `patch-unreadable`
        with run.installation.open_workspace() as workspace:
            if not is_applied(apply_patch_inside(run.installation, workspace, patch)):
                return patch
            return build_change(workspace, generated=run.plan.loaded.contract.policy.generated).patch
    return patch


def tell_handed_in(
    run: BoundRun, patch: bytes, *, event: int | None, restated_from: bytes | None = None
) -> bytes:
    """Put on record that this is the change, as it was handed in; None: as nothing was.

    Args:
        run: The run.
        patch: The change.
        event: The event with which it was handed in.
        restated_from: What was handed in, where git wrote it anew.
    """
    run.writer.append(
        ChangeTaken(
            patch_digest=digest_bytes(patch),
            patch_bytes=len(patch),
            handed_in=event,
            restated_from=None if restated_from is None else digest_bytes(restated_from),
            left_out=TestIds.build([]),
        ),
        actor="harness",
    )
    return patch


def take_change(run: BoundRun, workspace: Workspace) -> bytes:
    """The change as a patch; an alert names what is in the workspace but cannot be in it."""
    change = build_change(workspace, generated=run.plan.loaded.contract.policy.generated)
    if change.omissions:
        _report(run, change.omissions)
    differing = {escape_bytes(path) for path in workspace.snapshot().entries}
    entries = [
        ChangedEntry(path=path.path, before=path.old_digest, after=path.new_digest) for path in change.paths
    ]
    run.writer.append(
        ChangeTaken(
            patch_digest=change.patch_digest,
            patch_bytes=len(change.patch),
            entries=tuple(entries[:_MOST_ENTRIES]),
            entry_count=len(entries),
            left_out=TestIds.build(differing - {path.path for path in change.paths}),
        ),
        actor="harness",
    )
    return change.patch


def _report(run: BoundRun, omissions: tuple[Omission, ...]) -> None:
    counts = Counter(omission.reason for omission in omissions)
    named = "\n".join(f"{omission.reason}: {omission.path}" for omission in omissions[:_NAMED])
    signals = tuple(Signal(name=reason, value=count) for reason, count in sorted(counts.items()))
    alert = MonitorAlert(
        monitor="workspace", rule="left-out", severity="warning", phase="act", signals=signals
    )
    run.writer.alert(alert, named)
