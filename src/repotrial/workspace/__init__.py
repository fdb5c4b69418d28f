"""Prepared trees, overlays over them, and the log of what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.workspace._base import CONTRACT_UNLOCKED, Base, BaseRequest, SetupPlace, check_sealed
    from repotrial.workspace._cache import BaseCache
    from repotrial.workspace._change import build_change
    from repotrial.workspace._copy import CopyWorkspace, copy_tree
    from repotrial.workspace._delta import Restoration
    from repotrial.workspace._mark import Mark
    from repotrial.workspace._node import Omission, ReadLimits
    from repotrial.workspace._overlay import OverlayWorkspace, hide_base, take_whiteout
    from repotrial.workspace._place import WorkspacePlace, reap_workspaces
    from repotrial.workspace._reader import Contents, TreeReader
    from repotrial.workspace._setup_record import SetupAttempt, SetupAttempts, SetupNetworkRecord
    from repotrial.workspace._workspace import Workspace
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "CONTRACT_UNLOCKED",
    "Base",
    "BaseCache",
    "BaseRequest",
    "Contents",
    "CopyWorkspace",
    "Mark",
    "Omission",
    "OverlayWorkspace",
    "ReadLimits",
    "Restoration",
    "SetupAttempt",
    "SetupAttempts",
    "SetupNetworkRecord",
    "SetupPlace",
    "TreeReader",
    "Workspace",
    "WorkspacePlace",
    "build_change",
    "check_sealed",
    "copy_tree",
    "hide_base",
    "reap_workspaces",
    "take_whiteout",
]
