"""Breakers held against their record: every decision can be derived again (P19)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.contract import parse_record, parse_run_spec
from repotrial.policy import (
    BREAKER_RULES_UNKNOWN,
    THRESHOLDS_INVALID,
    Recomputed,
    Thresholds,
    build_settings,
    parse_thresholds,
    recompute_ceilings,
    recompute_decisions,
)
from repotrial.run import Answer, build_body_reader, put_answer
from repotrial.score import build_run_paths, load_evidence, verify_record
from repotrial.trace import RunPaths, iter_events, load_manifest

_OTHER_RELEASE: Final = "use a release that has the rules of this run: at least the one that conducted it"


DECISION_INVALID = ErrorCode(
    "decision-invalid",
    UsageError,
    "A decision was given with a reason that is none, or without words.",
    hint="give --reason as a kebab-case word or several, and --why as a sentence",
)


class RecomputedRun(msgspec.Struct, frozen=True, kw_only=True):
    """What `run recompute` found in one directory."""

    directory: str
    holds: bool
    """Whether the record has exactly what the rules decide."""
    thresholds_digest: str | None
    """Of the thresholds that were in force; None if no breaker watched, because no model was asked."""
    rules: int | None
    """Version of the rules that the run was watched by; None if no breaker watched."""
    decisions: tuple[Recomputed, ...]
    """Every decision of the rules, and what the record has beyond them."""


def recompute_run(directory: Path) -> RecomputedRun:
    """Derive every decision of the breakers, and every command that its ceiling ended, from the trace alone.

    Raises:
        RECORD_BROKEN: the record is not whole, so that decisions may be missing from it.
        BREAKER_RULES_UNKNOWN: this release does not have the rules that the run was watched by.
        THRESHOLDS_INVALID: this release does not know one of its breakers.
    """
    paths = build_run_paths(directory)
    verify_record(load_evidence(paths.root), paths.root, action="be checked")
    caps = parse_run_spec(paths.spec.read_bytes()).configuration.caps
    limits = caps.apply_to(parse_record(paths.contract.read_bytes()).contract.limits)
    thresholds = _find_thresholds(paths)
    found: tuple[Recomputed, ...] = ()
    if thresholds is not None:
        found = recompute_decisions(
            iter_events(paths.trace),
            build_settings(limits, thresholds),
            read=build_body_reader(paths.blobs),
        )
    found += recompute_ceilings(iter_events(paths.trace), limits.command_seconds * 10**6)
    return RecomputedRun(
        directory=str(directory),
        holds=all(item.is_agreed for item in found),
        thresholds_digest=None if thresholds is None else thresholds.digest,
        rules=None if thresholds is None else thresholds.rules,
        decisions=found,
    )


def _find_thresholds(paths: RunPaths) -> Thresholds | None:
    models = load_manifest(paths.manifest).configuration.models
    if models is None:
        return None
    try:
        return parse_thresholds(models.thresholds.encode())
    except UsageError as error:
        if error.code not in {BREAKER_RULES_UNKNOWN, THRESHOLDS_INVALID}:
            raise
        raise UsageError(error.code, f"{paths.manifest}: {error.message}", hint=_OTHER_RELEASE) from error


def decide_run(directory: Path, *, is_allowed: bool, operator: str, reason: str, text: str) -> Path:
    """Drop an operator's decision for a run that waits for one; its harness makes an event of it (P20).

    Raises:
        NOBODY_ASKS: the run does not wait.
        DECISION_INVALID: the reason is not a stable code, or there are no words beside it.
    """
    answer = Answer(is_allowed=is_allowed, operator=operator, reason=reason, text=text)
    try:
        checked = msgspec.convert(msgspec.to_builtins(answer), Answer)
    except msgspec.ValidationError as error:
        raise DECISION_INVALID.error(f"expected a decision with its reason, found: {error}") from error
    return put_answer(directory, checked)
