"""A candidate that weighs which of two expectations is the right one, by all that it can read.

It knows the repository, the file with the other tests, and how twins are made; it has no idea of the task.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from repotrial.judging import Twin, build_python_twins

CONTRACT: Final = Path(__file__).parents[2] / "examples" / "contracts" / "tillbook-state"
SUITE: Final = CONTRACT / "checks" / "unit" / "test_books.py"
DRAWS: Final = 30


@dataclass(frozen=True)
class Reader:
    """What stands elsewhere makes an expectation likely."""

    text: str

    def weigh(self, literal: object) -> float:
        if not isinstance(literal, str):
            return math.log(1 + len(re.findall(rf"\b{literal}\b", self.text)))
        words = re.findall(r"[^\W\d_]+|\d+", literal)
        known = sum(math.log(0.01 + len(re.findall(rf"\b{word}\b", self.text))) for word in words)
        return known + 8 * (literal in self.text)


def list_tokens(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+|[^\w\s]", text))


def list_literals(text: str) -> Counter[object]:
    constants = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return Counter(constants)


def count_sorted(text: str) -> int:
    """Lists in order: who writes a test likes them so."""
    lists = [node.elts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.List | ast.Tuple)]
    texts = [[ast.unparse(item) for item in items] for items in lists if len(items) > 1]
    return sum(items == sorted(items) for items in texts)


def is_wrong(one: str, other: str, reader: Reader) -> bool:
    """Whether the first of two tests looks like the wrong copy."""
    more, less = list_tokens(one) - list_tokens(other), list_tokens(other) - list_tokens(one)
    for mine, yours, answer in ((more, less, True), (less, more, False)):
        if any(token.startswith("as_") for token in mine) and not yours:
            return answer
        if mine and not yours:  # something where nothing was
            return answer
    if not more and not less:
        return count_sorted(one) < count_sorted(other)
    first, second = list_literals(one), list_literals(other)
    return sum(map(reader.weigh, (first - second).elements())) < sum(
        map(reader.weigh, (second - first).elements())
    )


def read_tests(source: str) -> dict[str, str]:
    """The tests of a file; all of them have the same name."""
    lines = source.splitlines(keepends=True)
    return {
        node.name: "".join(lines[node.lineno - 1 : node.end_lineno]).replace(node.name, "test", 1)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }


def is_found(tests: dict[str, str], twin: Twin, outside: str) -> bool:
    others = "".join(text for name, text in tests.items() if name not in (twin.name, twin.true_name))
    return is_wrong(tests[twin.name], tests[twin.true_name], Reader(outside + others))


def test_a_reader_of_all_that_is_there_is_seldom_right_about_every_twin() -> None:
    places = [*sorted((CONTRACT / "repo").rglob("*.py")), CONTRACT / "statement.md"]
    outside = "".join(path.read_text(encoding="utf-8") for path in places)
    caught = 0
    for seed in range(DRAWS):
        twinned = build_python_twins(SUITE.read_bytes(), path="acceptance/test_books.py", seed=seed)
        tests = read_tests(twinned.source.decode())
        caught += all(is_found(tests, twin, outside) for twin in twinned.twins)
    assert caught <= DRAWS / 5
