"""One test's result, whichever runner wrote it, and the bounds that results must keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, EvidenceError

MAX_RESULTS_BYTES = 64 * 2**20
"""Of one file of results."""
MAX_RESULTS = 1_000_000
"""Tests in one file of results."""
MAX_ID_BYTES = 4096
"""Of one test's id, in UTF-8."""
TestOutcome: TypeAlias = Literal["pass", "fail", "error", "skip"]
WORSE: dict[TestOutcome, int] = {"pass": 0, "skip": 1, "fail": 2, "error": 3}
"""Of two reports of one test the worse one counts."""
RESULTS_UNREADABLE = ErrorCode(
    "results-unreadable",
    EvidenceError,
    "Results of a check are malformed, cut off, contradictory, too large or of another format.",
    hint="run the check by hand, look at the file it leaves, and compare the contract's `results`",
)

# The picture of ESC: printable, and hardly in any real id.
_MARK = "\u241b"
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u241b]")


def iter_lines(data: bytes) -> Iterator[str]:
    """Lines as runners end them; a carriage return inside a line starts no new one, and any byte is kept."""
    for line in data.split(b"\n"):
        yield line.removesuffix(b"\r").decode(errors="surrogateescape")


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one test said."""

    __test__ = False  # not a test, whatever its name suggests to pytest

    id: str
    """As the format gives it, with the result file's prefix; control characters are escaped."""
    outcome: TestOutcome
    """`skip` also stands for expected failures and to-do tests: none of them is a pass."""


def clean_id(raw: str) -> str:
    """The id without control characters and lone surrogates; different ids stay different.

    Each such character becomes `␛`, its code point in hexadecimal and `;`, and so does `␛` itself. A
    backslash would be the usual mark, but ids have backslashes of their own, which stay as they are.
    """
    return _UNSAFE.sub(lambda match: f"{_MARK}{ord(match[0]):x};", raw)


def is_clean_id(text: str) -> bool:
    """Whether no character is left that `clean_id` would have replaced, its own mark apart."""
    return all(found == _MARK for found in _UNSAFE.findall(text))


def verify_id(cleaned: str) -> str:
    """The id itself; raises where it is empty or too long, since a cut id could be taken for another."""
    size = len(cleaned.encode())
    if not 0 < size <= MAX_ID_BYTES:
        raise RESULTS_UNREADABLE.error(f"expected a test id of 1 to {MAX_ID_BYTES} bytes, found {size} bytes")
    return cleaned


def build_result(raw_id: str, outcome: TestOutcome) -> TestResult:
    """A result whose id is clean and within bounds.

    Raises:
        RESULTS_UNREADABLE: The id is empty or too long.
    """
    return TestResult(id=verify_id(clean_id(raw_id)), outcome=outcome)
