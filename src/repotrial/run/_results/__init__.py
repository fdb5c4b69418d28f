"""Structured test results of every format in one form. Pure: bytes in, results out."""

from repotrial.run._results._inventory import InventoryVerdict, as_reported, hold_against_inventory
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
from repotrial.run._results._recorded import RecordedTests, list_recorded_tests, read_recorded_tests
from repotrial.run._results._summary import ResultsSummary, merge_results

__all__ = [
    "MAX_ID_BYTES",
    "MAX_RESULTS",
    "MAX_RESULTS_BYTES",
    "InventoryVerdict",
    "RecordedTests",
    "ResultsSummary",
    "ResultsUnreadableError",
    "TestOutcome",
    "TestResult",
    "as_reported",
    "clean_id",
    "hold_against_inventory",
    "list_recorded_tests",
    "merge_results",
    "parse_results",
    "read_recorded_tests",
]
