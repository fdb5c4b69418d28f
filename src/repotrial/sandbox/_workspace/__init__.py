"""Workspaces: prepared bases in a cache, a run's changes over one of them, and the change as a patch."""

from __future__ import annotations

from repotrial.sandbox._resources._remove_tree import remove_tree
from repotrial.sandbox._workspace._base import (
    Base,
    BaseLabel,
    BaseRequest,
    BaseTamperedError,
    ContractUnlockedError,
    Setup,
    SetupPlace,
    check_sealed,
)
from repotrial.sandbox._workspace._beneath import open_beneath
from repotrial.sandbox._workspace._cache import (
    BaseCache,
    CacheEntry,
    CacheForeignError,
    CacheUnusableError,
)
from repotrial.sandbox._workspace._change import Change, ChangedPath, ChangeLimits, build_change
from repotrial.sandbox._workspace._contents import WorkspaceUnusableError
from repotrial.sandbox._workspace._copy import CopyWorkspace
from repotrial.sandbox._workspace._copying import CopyFailedError, copy_tree
from repotrial.sandbox._workspace._delta import ContentSink
from repotrial.sandbox._workspace._ignore import TOOL_LEFTOVERS, IgnoreRules
from repotrial.sandbox._workspace._mark import Mark
from repotrial.sandbox._workspace._mount import (
    OverlayMount,
    build_overlay_argv,
    execute_in_overlay,
    probe_overlay,
)
from repotrial.sandbox._workspace._node import Omission, ReadLimits
from repotrial.sandbox._workspace._overlay import OverlayWorkspace, hide_base, take_whiteout
from repotrial.sandbox._workspace._place import WorkspacePlace, reap_workspaces
from repotrial.sandbox._workspace._prepare import BaseMismatchError, BaseNotSealedError, FileOrderError
from repotrial.sandbox._workspace._reader import Contents, TreeReader, WorkspaceUnreadableError
from repotrial.sandbox._workspace._restore import Restoration
from repotrial.sandbox._workspace._setup_record import (
    SetupAttempt,
    SetupAttempts,
    SetupNetworkRecord,
    SetupRecordUnreadableError,
)
from repotrial.sandbox._workspace._workspace import Workspace

__all__ = [
    "TOOL_LEFTOVERS",
    "Base",
    "BaseCache",
    "BaseLabel",
    "BaseMismatchError",
    "BaseNotSealedError",
    "BaseRequest",
    "BaseTamperedError",
    "CacheEntry",
    "CacheForeignError",
    "CacheUnusableError",
    "Change",
    "ChangeLimits",
    "ChangedPath",
    "ContentSink",
    "Contents",
    "ContractUnlockedError",
    "CopyFailedError",
    "CopyWorkspace",
    "FileOrderError",
    "IgnoreRules",
    "Mark",
    "Omission",
    "OverlayMount",
    "OverlayWorkspace",
    "ReadLimits",
    "Restoration",
    "Setup",
    "SetupAttempt",
    "SetupAttempts",
    "SetupNetworkRecord",
    "SetupPlace",
    "SetupRecordUnreadableError",
    "TreeReader",
    "Workspace",
    "WorkspacePlace",
    "WorkspaceUnreadableError",
    "WorkspaceUnusableError",
    "build_change",
    "build_overlay_argv",
    "check_sealed",
    "copy_tree",
    "execute_in_overlay",
    "hide_base",
    "open_beneath",
    "probe_overlay",
    "reap_workspaces",
    "remove_tree",
    "take_whiteout",
]
