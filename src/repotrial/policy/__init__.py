"""Rules as pure functions of the change: what it touches, what it brings, what needs a person."""

from repotrial.policy._change import (
    GITLINK,
    SYMLINK,
    AddedLine,
    ChangedFile,
    ChangeKind,
    ChangeView,
    Location,
    PatchUnreadableError,
)
from repotrial.policy._cursor import PatchLimits
from repotrial.policy._dependencies import (
    KnownNames,
    NewDependency,
    check_dependencies,
    find_new_dependencies,
)
from repotrial.policy._flag import REASONS as REVIEW_REASONS
from repotrial.policy._flag import Confidence, ReviewFlag
from repotrial.policy._flags import find_review_flags
from repotrial.policy._globs import PathRules, PolicyGlobError
from repotrial.policy._manifests import Ecosystem
from repotrial.policy._markers import find_conflict_markers
from repotrial.policy._read import read_change
from repotrial.policy._rules import RuleName, Violation, check_change
from repotrial.policy._split import SplitChange, split_change

__all__ = [
    "GITLINK",
    "REVIEW_REASONS",
    "SYMLINK",
    "AddedLine",
    "ChangeKind",
    "ChangeView",
    "ChangedFile",
    "Confidence",
    "Ecosystem",
    "KnownNames",
    "Location",
    "NewDependency",
    "PatchLimits",
    "PatchUnreadableError",
    "PathRules",
    "PolicyGlobError",
    "ReviewFlag",
    "RuleName",
    "SplitChange",
    "Violation",
    "check_change",
    "check_dependencies",
    "find_conflict_markers",
    "find_new_dependencies",
    "find_review_flags",
    "read_change",
    "split_change",
]
