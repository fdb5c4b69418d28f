"""What version 2 of the format demands and version 1 only warns about (S2, C7; ADR 0043).

A key that nothing enforces is a promise that is not kept: version 2 refuses it, with the line to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from repotrial._core.words import OFFERED_LEVELS, RETIRED_LEVELS
from repotrial.contract._environment import Environment
from repotrial.contract._oracle import Check
from repotrial.contract._policy import Policy, Scoring
from repotrial.contract._problems import DocumentFinding, FieldPlace

BUILD_GATE_UNSAID: Final = "build-gate-unsaid"
KEY_NOT_ENFORCED: Final = "key-not-enforced"


def iter_build_gate(checks: Iterable[Check], scoring: Scoring) -> Iterator[DocumentFinding]:
    """A second gate that cannot fail says so in words, and only such a gate (S2)."""
    has_build = any(check.gate == "build" and check.is_mandatory for check in checks)
    if not has_build and scoring.build_gate is None:
        yield DocumentFinding(
            code=BUILD_GATE_UNSAID,
            place=("checks",),
            message="expected a mandatory check with gate = 'build', or why there is none, found neither",
            hint='add a check with gate = "build", or the line build_gate = "none: why" below [scoring]',
        )
    elif has_build and scoring.build_gate is not None:
        yield DocumentFinding(
            code=BUILD_GATE_UNSAID,
            place=("scoring", "build_gate"),
            message=f"expected no such line beside checks of the build gate, found {scoring.build_gate!r}",
            hint="remove the line",
        )


def iter_unenforced(environment: Environment, policy: Policy) -> Iterator[DocumentFinding]:
    """Keys that nothing enforces beside the others of the same contract (C7)."""
    if policy.test_tools and policy.stages == "single":
        yield _unenforced(
            ("policy", "test_tools"), 'stages = "single" masks nothing', 'set stages = "automatic"'
        )
    dependencies = policy.dependencies
    if dependencies.manifests and dependencies.rule == "free":
        yield _unenforced(
            ("policy", "dependencies", "manifests"), 'rule = "free" reads no manifest', "remove the line"
        )
    if environment.isolation in RETIRED_LEVELS:
        yield _unenforced(
            ("environment", "isolation"),
            f"{environment.isolation} is not offered any more",
            f"leave it out, or write one of {', '.join(OFFERED_LEVELS)}",
        )
    for position, service in enumerate(environment.services):
        if service.image not in {None, environment.image}:
            yield _unenforced(
                ("environment", "services", position, "image"),
                "services run in the environment's image",
                "remove the line",
            )


def _unenforced(place: FieldPlace, reason: str, hint: str) -> DocumentFinding:
    message = f"expected a key that something enforces, found one without effect: {reason}"
    return DocumentFinding(code=KEY_NOT_ENFORCED, place=place, message=message, hint=hint)
