"""Ground truth: which files, lines and symbols matter for a task, and who says so (R5, R6)."""

from __future__ import annotations

from repotrial.retrieval._truth._chain import CHAIN, find_truth
from repotrial.retrieval._truth._contracts import RetrievalTruth, find_contract_truth
from repotrial.retrieval._truth._model import Attempt, Claim, Truth
from repotrial.retrieval._truth._patches import list_patched_files

__all__ = [
    "CHAIN",
    "Attempt",
    "Claim",
    "RetrievalTruth",
    "Truth",
    "find_contract_truth",
    "find_truth",
    "list_patched_files",
]
