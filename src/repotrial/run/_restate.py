"""Patches of others, in the one form that judges read."""

from __future__ import annotations

from repotrial._core.errors import AgentError
from repotrial.change import read_change
from repotrial.run._accept._candidate import apply_patch_inside, is_applied
from repotrial.run._context import BoundRun
from repotrial.workspace import build_change


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
