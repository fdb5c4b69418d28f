"""Which isolation level a contract gets: the strongest that this machine reaches, if it is enough."""

from __future__ import annotations

from collections.abc import Sequence

from repotrial.contract import Contract
from repotrial.sandbox._machine._needs import UnmetNeed, check_requirements
from repotrial.sandbox._machine._probe import Finding, Missing, probe_machine
from repotrial.sandbox._model import Capabilities, Level
from repotrial.sandbox._open import LevelMissingError

__all__ = ["choose_level"]


def choose_level(contract: Contract, level: Level | None) -> Capabilities:
    """What sandboxes of this contract can do.

    Args:
        contract: What is needed.
        level: The one that is wanted; the strongest unless told.

    Raises:
        LevelMissingError: the machine does not reach it, or it is not enough.
    """
    findings = [finding for finding in probe_machine() if level in {None, finding.level}]
    reached = [finding for finding in findings if isinstance(finding, Capabilities)]
    if not reached:
        raise _build_missing(findings, level)
    # Strongest first: if that is not enough, nothing is.
    needs = check_requirements(reached[0], contract.environment, contract.policy, contract.limits)
    if needs:
        raise _build_unmet(needs)
    return reached[0]


def _build_missing(findings: Sequence[Finding], level: Level | None) -> LevelMissingError:
    missing = [finding for finding in findings if isinstance(finding, Missing)]
    wanted = "a sandbox" if level is None else level.value
    if not missing:
        return LevelMissingError(f"{wanted}: this machine opens no sandboxes of that level")
    reasons = "; ".join(f"{finding.level.value}: {finding.reason}" for finding in missing)
    return LevelMissingError(
        f"expected {wanted}, found {reasons}", hint="; ".join(dict.fromkeys(item.remedy for item in missing))
    )


def _build_unmet(needs: Sequence[UnmetNeed]) -> LevelMissingError:
    return LevelMissingError(
        "; ".join(f"{need.field}: {need.reason}" for need in needs),
        hint="; ".join(dict.fromkeys(need.remedy for need in needs)),
    )
