"""An author's wrong expectations, mixed with the right ones. Pure: files in, files out.

A suite in which every test is wrong can be told from one in which every test is right, by a comment or by a
single test that the candidate does pass; that is enough to forge the rest. So each execution takes
some tests from the one copy and the others from the other: which, is drawn anew and stands nowhere.
"""

from __future__ import annotations

import difflib
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import msgspec

from repotrial.contract import Inventory

_FEWEST = 2


class SuiteFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the oracle."""

    target: str
    """Relative to the workspace."""
    content: bytes
    """As it was pinned, or with twins."""
    is_executable: bool


class MixedSuite(msgspec.Struct, frozen=True, kw_only=True):
    """A suite of right and wrong tests."""

    files: tuple[SuiteFile, ...]
    wrong: frozenset[str]
    """Ids that must fail; all others of the inventory must not."""


@dataclass(frozen=True)
class _Block:
    """A test's lines in the right copy: the one with its title, and all that stand deeper after it."""

    test: str
    first: int
    end: int


def mix_in_negatives(
    right: Sequence[SuiteFile], wrong: Sequence[SuiteFile], inventory: Inventory, rng: random.Random
) -> MixedSuite | None:
    """The suite with some of its tests made wrong.

    Args:
        right: The suite.
        wrong: The same suite with the author's wrong expectations in place.
        inventory: Its tests; they are found by their titles.
        rng: Secret: it decides which expectations are wrong.

    Returns:
        None where the copies do not show, line by line, which test each wrong expectation belongs to.
    """
    pairs = _pair_files(right, wrong, inventory)
    if not pairs:
        return None
    changeable = _list_edited(pairs)
    chosen = frozenset(rng.sample(changeable, _draw_count(len(changeable), rng)))
    return MixedSuite(files=tuple(pair.build(chosen) for pair in pairs), wrong=chosen)


def list_changeable(
    right: Sequence[SuiteFile], wrong: Sequence[SuiteFile], inventory: Inventory
) -> tuple[str, ...]:
    """Tests that `mix_in_negatives` can make wrong; none where the suites cannot be mixed."""
    return tuple(_list_edited(_pair_files(right, wrong, inventory)))


def _pair_files(right: Sequence[SuiteFile], wrong: Sequence[SuiteFile], inventory: Inventory) -> list[_Pair]:
    """Every file with its other copy; none where they cannot be mixed."""
    tests = _find_titles(inventory)
    others = {file.target: file.content for file in wrong}
    if tests is None or {file.target for file in right} != others.keys():
        return []
    pairs = [_Pair(file, others[file.target], tests) for file in right]
    placed = Counter(block.test for pair in pairs for block in pair.blocks)
    is_clear = all(pair.is_clear for pair in pairs) and placed == Counter(tests.values())
    return pairs if is_clear and len(_list_edited(pairs)) >= _FEWEST else []


def _list_edited(pairs: Iterable[_Pair]) -> list[str]:
    return sorted({test for pair in pairs for test in pair.edits})


def _draw_count(total: int, rng: random.Random) -> int:
    """As many as that many coins would choose, but neither none nor all."""
    return min(max(rng.getrandbits(total).bit_count(), 1), total - 1)


def _find_titles(inventory: Inventory) -> dict[str, str] | None:
    """Ids by title, the last part of the id; None where two tests have the same."""
    ids = (*inventory.fail_to_pass, *inventory.pass_to_pass)
    titles = {re.split("::| > ", test)[-1]: test for test in ids}
    return titles if len(titles) == len(ids) and all(titles) else None


class _Pair:
    """Both copies of a file, and which of their differences belong to which test."""

    def __init__(self, right: SuiteFile, wrong: bytes, tests: Mapping[str, str]) -> None:
        self._right = right
        self._lines = _split(right.content)
        self._others = _split(wrong)
        self.blocks = tuple(_iter_blocks(self._lines, tests))
        self.edits: dict[str, list[tuple[int, int, int, int]]] = {}
        self.is_clear = True
        matcher = difflib.SequenceMatcher(None, self._lines, self._others, autojunk=False)
        for kind, *edit in matcher.get_opcodes():
            if kind != "equal":
                self._attribute(*edit)

    def _attribute(self, start: int, end: int, other: int, other_end: int) -> None:
        inside = [block for block in self.blocks if block.first < start and end <= block.end]
        if inside:
            test = max(inside, key=lambda block: block.first).test  # the innermost
            self.edits.setdefault(test, []).append((start, end, other, other_end))
        # What belongs to no test stays right, but nothing may be cut in two.
        self.is_clear &= bool(inside) or not any(
            block.first < end and start < block.end for block in self.blocks
        )

    def build(self, chosen: Iterable[str]) -> SuiteFile:
        lines = [*self._lines]
        edits = [edit for test in chosen for edit in self.edits.get(test, ())]
        for start, end, other, other_end in sorted(edits, reverse=True):
            lines[start:end] = self._others[other:other_end]
        return msgspec.structs.replace(self._right, content=b"".join(lines))


def _split(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


def _iter_blocks(lines: Sequence[bytes], tests: Mapping[str, str]) -> Iterable[_Block]:
    patterns = [(_build_pattern(title), test) for title, test in tests.items()]
    for number, line in enumerate(lines):
        for pattern, test in patterns:
            if pattern.search(line):
                yield _Block(test, number, _find_end(lines, number))


def _build_pattern(title: str) -> re.Pattern[bytes]:
    """The title as a literal, or as the name of a function."""
    text = re.escape(title.encode())
    return re.compile(rb"\b" + text + rb"\b" if title.isidentifier() else rb"(['\"`])" + text + rb"\1")


def _find_end(lines: Sequence[bytes], first: int) -> int:
    """The next line that stands no deeper: it closes the test, or begins another."""
    depth = _measure(lines[first])
    body = takewhile(lambda line: not line.strip() or _measure(line) > depth, lines[first + 1 :])
    return first + 1 + sum(1 for _ in body)


def _measure(line: bytes) -> int:
    return len(line) - len(line.lstrip())
