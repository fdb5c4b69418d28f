"""Contracts from a whole history, and what keeps them usable: approvals, unknowable demands, new packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.mining._front import Mine
    from repotrial.mining._mine import MinePlan, MineSettings, mine_history, plan_mine
    from repotrial.mining._origin import MinedOrigin
    from repotrial.mining._prove import ProvedContract, prove_draft
    from repotrial.mining._refresh import refresh_contract
    from repotrial.mining._review import ReviewOutcome
    from repotrial.mining._rows import MineRow
    from repotrial.mining._statements import Issues
    from repotrial.mining._unknowable import check_unknowable
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "Issues",
    "Mine",
    "MinePlan",
    "MineRow",
    "MineSettings",
    "MinedOrigin",
    "ProvedContract",
    "ReviewOutcome",
    "check_unknowable",
    "mine_history",
    "plan_mine",
    "prove_draft",
    "refresh_contract",
]
