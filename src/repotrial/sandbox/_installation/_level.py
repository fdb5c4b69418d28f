"""Which isolation level a contract gets: the strongest that this machine reaches, if it is enough."""

from __future__ import annotations

from collections.abc import Sequence

from repotrial._core.words import Level
from repotrial.contract import Contract
from repotrial.sandbox._installation._needs import UnmetNeed, check_requirements
from repotrial.sandbox._levels._back_end import LevelMissingError, Missing
from repotrial.sandbox._model import Capabilities
from repotrial.sandbox._open import find_back_end, probe_machine


def choose_level(contract: Contract, level: Level | None) -> Capabilities:
    """What sandboxes of this contract can do.

    Args:
        contract: What is needed.
        level: The one that is wanted; the strongest unless told.

    Raises:
        LevelRetiredError: the level is not offered any more.
        LevelMissingError: the machine does not reach it, or it is not enough.
    """
    findings = probe_machine() if level is None else (find_back_end(level).probe(),)
    reached = [finding for finding in findings if isinstance(finding, Capabilities)]
    if not reached:
        missing = [finding for finding in findings if isinstance(finding, Missing)]
        raise _build_missing(missing, level)
    # Strongest first: if that is not enough, nothing is.
    needs = check_requirements(reached[0], contract.environment, contract.policy, contract.limits)
    if needs:
        raise _build_unmet(needs)
    return reached[0]


def _build_missing(missing: Sequence[Missing], level: Level | None) -> LevelMissingError:
    reasons = "; ".join(f"{finding.level}: {finding.reason}" for finding in missing)
    return LevelMissingError(
        f"expected {level or 'a sandbox'}, found {reasons}",
        hint="; ".join(dict.fromkeys(item.remedy for item in missing)),
    )


def _build_unmet(needs: Sequence[UnmetNeed]) -> LevelMissingError:
    return LevelMissingError(
        "; ".join(f"{need.field}: {need.reason}" for need in needs),
        hint="; ".join(dict.fromkeys(need.remedy for need in needs)),
    )
