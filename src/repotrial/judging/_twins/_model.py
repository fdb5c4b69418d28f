"""What twins are."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

TwinKind: TypeAlias = Literal["literal", "letters", "exception", "operator", "helper"]
"""How the expectation was made wrong: another literal, strange letters in a text that is looked for, another
exception class, the opposite comparison, or a function that changes the value at run time. Only literals are
hard to tell from real tests: a text with strange letters, a class that is never raised, a parenthesis where
`not` was and the form of the function say which of two is the copy."""


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """A test and its wrong copy in one file."""

    path: str
    """The test file, relative to the workspace."""
    original: str
    """The real test, such as `TestWrap.test_a`."""
    name: str
    """The function with the wrong expectation, which must fail."""
    true_name: str
    """The function with the right one. Where names are swapped this is the random one of the two."""
    kind: TwinKind
    """How the expectation was made wrong."""
    line: int
    """Where the changed expectation stands in the real file."""


class SkippedTest(msgspec.Struct, frozen=True, kw_only=True):
    """A test without a twin."""

    original: str
    """Its qualified name."""
    reason: str
    """Why no expectation of it could be made wrong for certain."""


class TwinnedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A test file with its twins mixed in."""

    path: str
    """Relative to the workspace."""
    source: bytes
    """In the encoding of the real file."""
    twins: tuple[Twin, ...]
    """In the order of the real tests."""
    skipped: tuple[SkippedTest, ...]
    """Tests that have no twin."""


class TwinVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a run with twins says about the judge; the run without them says the rest."""

    expected_failing: tuple[str, ...]
    """Result ids of twins that failed, as they must."""
    survived: tuple[str, ...]
    """Result ids of twins that passed: results are forged."""
    missing: tuple[Twin, ...]
    """Twins that have no result at all, although the test they copy has one."""
    evaded: tuple[Twin, ...]
    """Twins that were skipped although the test they copy passed."""
    idle: tuple[Twin, ...]
    """Twins that were skipped, or never reached, together with the test they copy.

    They prove nothing: a module may be skipped as a whole. Whether a test had to speak, an inventory says.
    """
    other_failing: tuple[str, ...]
    """Ids that failed and are no twin's."""
