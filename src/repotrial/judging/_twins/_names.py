"""Names for twins that could be names of real tests of the same file."""

from __future__ import annotations

import ast
import random
import re

# fmt: off
_WORDS = (
    "empty", "single", "several", "first", "last", "short", "long", "nested", "plain", "mixed", "large",
    "small", "order", "input", "output", "value", "text", "line", "name", "path", "item", "list", "key",
    "default", "option", "result", "error", "limit", "start", "end", "before", "after", "with",
    "without", "keeps", "returns", "accepts", "rejects", "handles", "reads", "writes", "case", "form",
    "state", "count", "size", "again", "never", "always", "other", "same", "own",
)
# fmt: on
_ENOUGH_WORDS = 24
_MIN_WORDS = 3


class NameMaker:
    """Makes names from the words of the file's own tests."""

    def __init__(self, tree: ast.Module, tests: list[str], rng: random.Random) -> None:
        self._rng = rng
        self._taken = _identifiers(tree)
        own = sorted({word for test in tests for word in _split(test)})
        self._words = own if len(own) >= _ENOUGH_WORDS else sorted({*own, *_WORDS})
        self._lengths = [max(_MIN_WORDS, len(_split(test))) for test in tests] or [_MIN_WORDS]

    def make_test_name(self, like: str) -> str:
        """A name in the style of `like` (`test_a_b` or `testAB`) that the file does not use."""
        while True:
            words = self._pick(self._rng.choice(self._lengths))
            if like.startswith("test_") or not like[4:5].isupper():
                name = "test_" + "_".join(words)
            else:
                name = "test" + "".join(word.capitalize() for word in words)
            if self._take(name):
                return name

    def make_helper_name(self) -> str:
        """A name for a function that is no test."""
        while True:
            name = "_".join(["as", *self._pick(2)])
            if self._take(name):
                return name

    def _pick(self, count: int) -> list[str]:
        return [self._rng.choice(self._words) for _ in range(count)]

    def _take(self, name: str) -> bool:
        is_free = name not in self._taken and name.isidentifier()
        self._taken.add(name)
        return is_free


def _split(test: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", test.removeprefix("test"))
    return [word.lower() for word in spaced.split("_") if word]


def _identifiers(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        for field in ("id", "name", "attr", "arg", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                found.add(value)
    return found
