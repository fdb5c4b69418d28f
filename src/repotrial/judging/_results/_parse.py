"""From bytes of a declared format to results; anything doubtful is unreadable, never a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.contract import ResultFormat
from repotrial.judging._results._automake import parse_automake
from repotrial.judging._results._ctrf import parse_ctrf
from repotrial.judging._results._go import parse_go
from repotrial.judging._results._junit import parse_junit
from repotrial.judging._results._libtest import parse_libtest
from repotrial.judging._results._model import (
    MAX_RESULTS_BYTES,
    RESULTS_UNREADABLE,
    TestResult,
    clean_id,
    verify_id,
)
from repotrial.judging._results._node import parse_node
from repotrial.judging._results._tap import parse_tap

_Parser: TypeAlias = Callable[[bytes], list[TestResult]]

_PARSERS: dict[ResultFormat, _Parser] = {
    "junit": parse_junit,
    "tap": parse_tap,
    "go-test-json": parse_go,
    "libtest": parse_libtest,
    "node-test": parse_node,
    "ctrf": parse_ctrf,
}


def parse_results(
    data: bytes,
    *,
    format: ResultFormat,  # noqa: A002 - the contract's own word for it
    prefix: str = "",
    name: str = "",
) -> tuple[TestResult, ...]:
    """The results in `data`, ids with `prefix`, in the order of the document.

    Args:
        data: A whole results file, or standard output.
        format: What it is declared to be; `exit-code` has no results.
        prefix: Put before every id.
        name: The file's stem: the id of formats that name no test themselves (`automake-trs`).

    Raises:
        RESULTS_UNREADABLE: The bytes are not a complete, consistent document of this format.
    """
    if format == "exit-code":
        return ()
    if len(data) > MAX_RESULTS_BYTES:
        raise RESULTS_UNREADABLE.error(
            f"expected at most {MAX_RESULTS_BYTES} bytes of {format} results, found {len(data)}"
        )
    if not data.strip():
        raise RESULTS_UNREADABLE.error(f"expected {format} results, found an empty document")
    try:
        results = parse_automake(data, name=name) if format == "automake-trs" else _PARSERS[format](data)
        return tuple(_with_prefix(result, clean_id(prefix)) for result in results)
    except EvidenceError as error:
        where = f"{format} results" + (f" of {name!r}" if name else "")
        raise RESULTS_UNREADABLE.error(f"{where}: {error.message}") from error


def _with_prefix(result: TestResult, prefix: str) -> TestResult:
    # A prefix counts toward the bound.
    return msgspec.structs.replace(result, id=verify_id(prefix + result.id)) if prefix else result
