"""How far a verdict is protected against the code that it judges: a level, from the record alone."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.score._card import ScoreCard
from repotrial.score._evidence import Evidence
from repotrial.score._gates import Invalid
from repotrial.score._outcomes import CheckResult

AssuranceLevel: TypeAlias = Literal["outside", "twins", "bare"]
"""`outside`: the contract declares that the judge starts the product as another process. `twins`: candidate
code ran inside the judge, beside tests with wrong expectations. `bare`: the same, without them."""

_WEAKEST_FIRST: Final[tuple[AssuranceLevel, ...]] = ("bare", "twins", "outside")


class Assurance(msgspec.Struct, frozen=True, kw_only=True):
    """The level of the weakest check that the verdict rests on."""

    level: AssuranceLevel
    twins: int
    """Tests with wrong expectations in that check: the fewest in any of its executions; 0 at `bare`."""

    @property
    def words(self) -> str:
        return f"twins ({self.twins})" if self.level == "twins" else self.level


def find_assurance(evidence: Evidence, card: ScoreCard) -> Assurance | NotComputable:
    """The level of a verdict: a forger looks for the weakest of the acceptance checks that success needs."""
    if isinstance(card.status, Invalid):
        return NotComputable("an invalid run has no verdict")
    found = [
        _find_of_check(evidence, result)
        for result in card.checks
        if result.gate == "acceptance" and result.is_mandatory and result.attempts
    ]
    if not found:
        return NotComputable("no mandatory acceptance check was executed on the change")
    return min(found, key=lambda each: (_WEAKEST_FIRST.index(each.level), each.twins))


def _find_of_check(evidence: Evidence, result: CheckResult) -> Assurance:
    executions = list(evidence.iter_executions(result.check, variant="twins"))
    # An execution that counted none, because it did not come to an end, had none that we know of.
    twins = min((0 if e.twins is None else e.twins.mixed_in for e in executions), default=0)
    if result.judge == "out-of-process":
        return Assurance(level="outside", twins=twins)
    return Assurance(level="twins" if twins else "bare", twins=twins)
