"""Circuit breakers as pure functions of past events (P19, B3, B6, B15, P24)."""

from repotrial.policy._breakers._facts import BodyReader, read_inline
from repotrial.policy._breakers._fold import BreakerState, decide
from repotrial.policy._breakers._guards import POLICY
from repotrial.policy._breakers._model import BREAKERS, ActionKind, BreakerEnding, Decision
from repotrial.policy._breakers._recompute import Recomputed, RecomputedStatus, recompute_decisions
from repotrial.policy._breakers._thresholds import (
    BreakerRulesUnknownError,
    BreakerSettings,
    Caps,
    ThresholdChange,
    Thresholds,
    ThresholdsInvalidError,
    build_settings,
    load_thresholds,
    parse_thresholds,
    read_thresholds,
)

__all__ = [
    "BREAKERS",
    "POLICY",
    "ActionKind",
    "BodyReader",
    "BreakerEnding",
    "BreakerRulesUnknownError",
    "BreakerSettings",
    "BreakerState",
    "Caps",
    "Decision",
    "Recomputed",
    "RecomputedStatus",
    "ThresholdChange",
    "Thresholds",
    "ThresholdsInvalidError",
    "build_settings",
    "decide",
    "load_thresholds",
    "parse_thresholds",
    "read_inline",
    "read_thresholds",
    "recompute_decisions",
]
