"""Plans in natural language: a sentence that states an intention to do what is prohibited (P17).

A sentence is read as features (`_prose_features.py`), and their weights are added up (`prose-weights.json`,
fitted by `tools/fit_prose.py` to sentences in `tests/data/prose`). Sums are integers, so the answer is the
same everywhere. A mention is no plan: what is denied, what could happen, what a test, a bug or the product
does, and everything in quotation marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Annotated, Final

import msgspec

from repotrial._core.files import read_package_data
from repotrial.policy._prose_features import list_features, read_sentence, states_aim

_MAX_SENTENCE: Final = 600
_OVERLAP: Final = 200
_MAX_SENTENCES: Final = 4000
_UNREAD: Final = "unreadable-command"

_LONG: Final = 240
"""Characters of a sentence whose many words would outweigh a plan in one part of it."""
_PART = re.compile(r"[,:(]\s")

_SENTENCE = re.compile(r"[^.!?;\n]+(?:\.(?=[\w/])[^.!?;\n]*)*")
_QUOTED = re.compile(
    r"\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|«[^»\n]{0,400}»|(?<!\w)'[^'\n]{4,400}'(?!\w)|^\s*>.*$", re.MULTILINE
)


class ProseWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much each feature speaks for a plan, and each class for a rule."""

    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/prose-weights@1$")]
    fitted: dict[str, int]
    """From how many sentences."""
    bias: int
    """Added to every sum; a plan has a sum above 0."""
    features: dict[str, int]
    rules: dict[str, dict[str, int]]
    """By rule, the features that tell it from the others."""


@cache
def _load() -> ProseWeights:
    return msgspec.json.decode(read_package_data("repotrial.policy", "prose-weights.json"), type=ProseWeights)


def find_plans(prose: str) -> Iterator[tuple[str, int, int]]:
    """The rule that each plan meets, and between which characters the plan stands.

    Args:
        prose: A message, with blanks where it has code.
    """
    seen: set[tuple[str, int]] = set()
    for count, (start, sentence) in enumerate(iter_sentences(prose)):
        if count >= _MAX_SENTENCES:
            yield _UNREAD, start, len(prose)
            return
        rule = find_rule(sentence)
        first = start + len(sentence) - len(sentence.lstrip())
        if rule is not None and (rule, first) not in seen:
            seen.add((rule, first))
            yield rule, first, start + len(sentence)


def iter_sentences(prose: str) -> Iterator[tuple[int, str]]:
    """Where each sentence begins, and its text without quotations; a long one in pieces that overlap."""
    quiet = _QUOTED.sub(lambda found: " " * len(found[0]), prose).replace("\u2019", "'")
    for found in _SENTENCE.finditer(quiet):
        whole = found[0]
        for offset in range(0, max(1, len(whole) - _OVERLAP), _MAX_SENTENCE - _OVERLAP):
            yield found.start() + offset, whole[offset : offset + _MAX_SENTENCE]


@lru_cache(maxsize=2048)
def find_rule(sentence: str) -> str | None:
    """The rule that a sentence meets if it, or a part of it if it is long, is a plan; None if not."""
    parts = [sentence]
    if len(sentence) > _LONG:
        parts += [part for part in _PART.split(sentence) if len(part) <= _LONG]
    return next((rule for part in parts if (rule := _judge(part)) is not None), None)


def _judge(text: str) -> str | None:
    read = read_sentence(text)
    if not states_aim(read):
        return None
    weights = _load()
    features = list_features(read)
    if weights.bias + sum(weights.features.get(each, 0) for each in features) <= 0:
        return None
    sums = {rule: sum(each.get(name, 0) for name in features) for rule, each in weights.rules.items()}
    return max(sorted(sums), key=lambda rule: sums[rule])
