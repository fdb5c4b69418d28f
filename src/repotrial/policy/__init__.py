"""Rules as pure functions of the change, of what is said and of past events."""

from repotrial.policy._accesses import AccessKind, FileAccess, find_file_accesses
from repotrial.policy._breakers import (
    BREAKERS,
    POLICY,
    ActionKind,
    BodyReader,
    BreakerEnding,
    BreakerRulesUnknownError,
    BreakerSettings,
    BreakerState,
    Caps,
    Decision,
    Recomputed,
    RecomputedStatus,
    ThresholdChange,
    Thresholds,
    ThresholdsInvalidError,
    build_settings,
    decide,
    load_thresholds,
    parse_thresholds,
    read_inline,
    read_thresholds,
    recompute_decisions,
)
from repotrial.policy._commands import classify_command, classify_script, find_classes, is_test_command
from repotrial.policy._dependencies import (
    KnownNames,
    NewDependency,
    check_dependencies,
    find_new_dependencies,
)
from repotrial.policy._flag import REASONS as REVIEW_REASONS
from repotrial.policy._flag import Confidence, ReviewFlag
from repotrial.policy._flags import find_review_flags
from repotrial.policy._manifests import Ecosystem
from repotrial.policy._markers import find_conflict_markers
from repotrial.policy._outcomes import CheckResult, find_result
from repotrial.policy._programs import COMMAND_CLASSES, CommandClass
from repotrial.policy._rules import RuleName, Violation, check_change
from repotrial.policy._shell import parse_shell
from repotrial.policy._shell_model import (
    Assignment,
    Redirection,
    ShellCommand,
    ShellFault,
    ShellScript,
    Word,
)
from repotrial.policy._split import SplitChange, split_change
from repotrial.policy._stages import ProposedCall, StageDecision, decide_stage, find_stage
from repotrial.policy._text import check_text
from repotrial.policy._text_model import (
    FindingClass,
    TextFinding,
    TextFormat,
    TextPlace,
    TextRule,
    load_text_rules,
)
from repotrial.policy._tools import (
    ToolFamily,
    ToolTable,
    ToolTableInvalidError,
    ToolUse,
    load_tool_table,
    read_tool_use,
)

__all__ = [
    "BREAKERS",
    "COMMAND_CLASSES",
    "POLICY",
    "REVIEW_REASONS",
    "AccessKind",
    "ActionKind",
    "Assignment",
    "BodyReader",
    "BreakerEnding",
    "BreakerRulesUnknownError",
    "BreakerSettings",
    "BreakerState",
    "Caps",
    "CheckResult",
    "CommandClass",
    "Confidence",
    "Decision",
    "Ecosystem",
    "FileAccess",
    "FindingClass",
    "KnownNames",
    "NewDependency",
    "ProposedCall",
    "Recomputed",
    "RecomputedStatus",
    "Redirection",
    "ReviewFlag",
    "RuleName",
    "ShellCommand",
    "ShellFault",
    "ShellScript",
    "SplitChange",
    "StageDecision",
    "TextFinding",
    "TextFormat",
    "TextPlace",
    "TextRule",
    "ThresholdChange",
    "Thresholds",
    "ThresholdsInvalidError",
    "ToolFamily",
    "ToolTable",
    "ToolTableInvalidError",
    "ToolUse",
    "Violation",
    "Word",
    "build_settings",
    "check_change",
    "check_dependencies",
    "check_text",
    "classify_command",
    "classify_script",
    "decide",
    "decide_stage",
    "find_classes",
    "find_conflict_markers",
    "find_file_accesses",
    "find_new_dependencies",
    "find_result",
    "find_review_flags",
    "find_stage",
    "is_test_command",
    "load_text_rules",
    "load_thresholds",
    "load_tool_table",
    "parse_shell",
    "parse_thresholds",
    "read_inline",
    "read_thresholds",
    "read_tool_use",
    "recompute_decisions",
    "split_change",
]
