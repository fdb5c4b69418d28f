"""Structured test results of every format in one form. Pure: bytes in, results out."""

from repotrial.run._results._inventory import InventoryVerdict, hold_against_inventory
from repotrial.run._results._model import (
    MAX_ID_BYTES,
    MAX_RESULTS,
    MAX_RESULTS_BYTES,
    ResultsUnreadableError,
    TestOutcome,
    TestResult,
    clean_id,
)
from repotrial.run._results._parse import parse_results
from repotrial.run._results._summary import ResultsSummary, merge_results

__all__ = [
    "MAX_ID_BYTES",
    "MAX_RESULTS",
    "MAX_RESULTS_BYTES",
    "InventoryVerdict",
    "ResultsSummary",
    "ResultsUnreadableError",
    "TestOutcome",
    "TestResult",
    "clean_id",
    "hold_against_inventory",
    "merge_results",
    "parse_results",
]
