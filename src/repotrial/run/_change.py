"""The agent's change, taken from its workspace; what it could not hold is evidence, not silence."""

from __future__ import annotations

from collections import Counter

from repotrial._core.errors import AgentError
from repotrial.change import read_change
from repotrial.run._accept._candidate import apply_patch_inside, is_applied
from repotrial.run._context import BoundRun
from repotrial.trace import MonitorAlert, Signal
from repotrial.workspace import Omission, Workspace, build_change

_NAMED = 50


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


def take_change(run: BoundRun, workspace: Workspace) -> bytes:
    """The change as a patch; an alert names what is in the workspace but cannot be in it."""
    change = build_change(workspace, generated=run.plan.loaded.contract.policy.generated)
    if change.omissions:
        _report(run, change.omissions)
    return change.patch


def _report(run: BoundRun, omissions: tuple[Omission, ...]) -> None:
    counts = Counter(omission.reason for omission in omissions)
    named = "\n".join(f"{omission.reason}: {omission.path}" for omission in omissions[:_NAMED])
    signals = tuple(Signal(name=reason, value=count) for reason, count in sorted(counts.items()))
    alert = MonitorAlert(
        monitor="workspace", rule="left-out", severity="warning", phase="act", signals=signals
    )
    run.writer.alert(alert, named)
