"""Rules as pure functions of the change, of what is said and of past events."""

from __future__ import annotations

from repotrial.policy._breaker_facts import BodyReader, CallFacts, Decision, read_call
from repotrial.policy._breaker_guards import POLICY
from repotrial.policy._breakers import BreakerState, Recomputed, decide, recompute_decisions
from repotrial.policy._ceilings import COMMANDS, recompute_ceilings
from repotrial.policy._deeds import check_deed, find_outside_writes
from repotrial.policy._dependencies import (
    KnownNames,
    NewDependency,
    check_dependencies,
    find_dependency_files,
    find_new_dependencies,
)
from repotrial.policy._flags import find_review_flags
from repotrial.policy._joined_calls import JoinedCall, join_calls
from repotrial.policy._places import list_declared_places
from repotrial.policy._program_rules import (
    find_foreign_registries,
    is_denied,
    is_resolution,
    list_program_names,
)
from repotrial.policy._program_tree import Program, ProgramTree
from repotrial.policy._rules import check_change, find_conflict_markers, split_change
from repotrial.policy._stages import decide_stage
from repotrial.policy._text import check_text
from repotrial.policy._text_model import TextFinding, TextPlace
from repotrial.policy._thresholds import (
    BREAKER_RULES_UNKNOWN,
    THRESHOLDS_INVALID,
    Thresholds,
    build_settings,
    parse_thresholds,
    read_thresholds,
)
from repotrial.policy._tools import load_tool_table, read_tool_use

__all__ = [
    "BREAKER_RULES_UNKNOWN",
    "COMMANDS",
    "POLICY",
    "THRESHOLDS_INVALID",
    "BodyReader",
    "BreakerState",
    "CallFacts",
    "Decision",
    "JoinedCall",
    "KnownNames",
    "NewDependency",
    "Program",
    "ProgramTree",
    "Recomputed",
    "TextFinding",
    "TextPlace",
    "Thresholds",
    "build_settings",
    "check_change",
    "check_deed",
    "check_dependencies",
    "check_text",
    "decide",
    "decide_stage",
    "find_conflict_markers",
    "find_dependency_files",
    "find_foreign_registries",
    "find_new_dependencies",
    "find_outside_writes",
    "find_review_flags",
    "is_denied",
    "is_resolution",
    "join_calls",
    "list_declared_places",
    "list_program_names",
    "load_tool_table",
    "parse_thresholds",
    "read_call",
    "read_thresholds",
    "read_tool_use",
    "recompute_ceilings",
    "recompute_decisions",
    "split_change",
]
