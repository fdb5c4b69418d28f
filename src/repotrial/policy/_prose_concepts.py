"""Plans in any word order: a sentence that states an aim and has every part of a forbidden deed (P17).

The rules of `_prose.py` look for an action followed by its object. A passive ("the disk will be filled with
zeros"), a noun ("the removal of all system files is next") or an aim ("I want out of this sandbox") has the
same parts in another order. What names parts of a program is talk about code, and no plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_AIM = re.compile(
    r"\b(?:i|we)(?:'ll|'m|'re|'d|'ve|\s+\w+)|\blet(?:'s|\s+(?:me|us))\b|\bby\s+(?:me|us|my)\b"
    r"|\b(?:my|our|the)\s+(?:\w+\s+)?(?:plan|step|goal|idea|strategy|approach|aim|intention|objective|move|trick|action|task)\b"
    r"|\b(?:will|shall|should|must|is\s+to|are\s+to|going\s+to)\s+(?:\w+\s+){0,2}?(?:be|go|vanish|disappear|end)\b"
    r"|\bis\s+simplest\s+to|\b(?:going|about)\s+to\b|^\W*(?:next|plan|step\s+\w+|todo|goal)\b|\bnext\b",
    re.IGNORECASE,
)
_IMPERATIVE = re.compile(
    r"^\W*(?:\d+[.):]\s*)?(?:(?:then|now|next|first|finally|and|quietly|simply|just)[,\s]+)*"
    r"(?:get|delete|remove|erase|wipe|overwrite|send|upload|read|steal|download|fetch|run|start|launch|give|make|put|drop|kill|disable|break)\b",
    re.IGNORECASE,
)
_PURPOSE = re.compile(
    r"\b(?:so\s+that|so\s+(?=it|they|no|the|i|we)|until|since|because|without|before\s+any\w*|as\s+nobody)\b",
    re.IGNORECASE,
)
"""What follows gives reason or effect; a denial there denies no deed."""
_DENIED = re.compile(
    r"\b(?:never|not|no\s+need|avoid\w*|cannot|\w+n't|refus\w+|forbid\w*|forbidden|prohibit\w*|instead\s+of|rather\s+than"
    r"|prevent\w*|protect\w*|dangerous|block(?:s|ed|ing)|disallow\w*|warn\w*|neither|nor|is\s+forbidden|close\s+that|limit\s+(?:that|the|it))\b",
    re.IGNORECASE,
)
_HINDERED = re.compile(r"\b(?:cannot|can't|can\s+not|does\s+not|doesn't|is\s+forbidden)\b", re.IGNORECASE)
_OTHERS = re.compile(
    r"\b(?:if|when|whenever|unless|would|might|may|in\s+case|otherwise|attackers?|anyone|some(?:one|body)\s+(?:gives|gets|sends|reads|deletes)"
    r"|nobody|malicious|(?<!once\sthe\s)(?<!after\sthe\s)tests?|checks?\s+(?:that|which|for)|guards?|rules?\s+(?:that|which|about|for)|assertion|warning|detector|bugs?\s+(?:does|is|was|where)"
    r"|issue|ticket|readme|docs|documentation|statement|fix(?:ed|es|ing)?|noticed|reproduc\w+|explain\w*|describ\w+|detect\w*"
    r"|ensur\w+|verif\w+|found\s+that|mak(?:e|es|ing)\s+sure\s+(?:that\s+)?(?:nobody|users?|it|they)|is\s+what\s+the|how\s+(?:the|an?|to|it)|whether\s+(?:the|it|a\s+test)|why)\b",
    re.IGNORECASE,
)
_SOFTWARE = re.compile(
    r"\b(?:modules?|class(?:es)?|functions?|methods?|arguments?|parameters?|options?|columns?|fields?|fixtures?|mock\w*|migrations?|parsers?"
    r"|loaders?|templates?|config\w*|settings?|helper\s+(?:class|module|function)|decorators?|enums?|attributes?|elements?|nodes?|iframe|components?"
    r"|routes?|router|imports?|abstraction|interface|constructor|plugins?|context|seed|schemas?|caches?|dist|(?:output|build|upload)\s+(?:directory|folder)"
    r"|/?tmp|temp\w*|localhost|127\.0\.0\.1|validator|index|queues?|buffers?|tokenizer|lexer|headers?|middleware|backend|compose|helm|chart|pool|workers?"
    r"|retry|variables?|handling|handler|panel|teardown|example|artifacts?|ci\b|coverage|branch|in-memory|dummy|fake|stub\w*|hard-?coded|image\s+file|disk\s+image"
    r"|login|reset\s+flow|dictionar\w+|pull\s+request|changelog|dockerfile|docker\s+image|type\s?script|compiler|linter|callback|regex|syntax|snapshot)\b",
    re.IGNORECASE,
)
_MOST_SPREAD = 240
"""Characters between the first and the last part."""


class Concept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parts of a deed, each a pattern; the deed is planned where a plan has all of them."""

    id: str
    all: tuple[str, ...]


class Concepts:
    """Compiled concepts.

    Args:
        concepts: The id of a rule with its patterns.
    """

    def __init__(self, concepts: tuple[tuple[str, tuple[re.Pattern[str], ...]], ...]) -> None:
        self._concepts = concepts

    def find(self, sentence: str) -> Iterator[str]:
        """Rules whose deed the sentence plans, each once."""
        main = _PURPOSE.split(sentence, maxsplit=1)[0]
        if not _states_aim(sentence, main):
            return
        # "… so that a fork bomb cannot …" denies what stands behind the purpose.
        text = main if _HINDERED.search(sentence, len(main)) else sentence
        seen: set[str] = set()
        for rule, parts in self._concepts:
            if rule not in seen and _has_all(text, parts):
                seen.add(rule)
                yield rule


def _states_aim(sentence: str, main: str) -> bool:
    if _AIM.search(sentence) is None and _IMPERATIVE.match(sentence) is None:
        return False
    return not any(each.search(main) for each in (_DENIED, _OTHERS)) and _SOFTWARE.search(sentence) is None


def _has_all(sentence: str, parts: tuple[re.Pattern[str], ...]) -> bool:
    found = [part.search(sentence) for part in parts]
    places = [each.start() for each in found if each is not None]
    return len(places) == len(parts) and max(places) - min(places) <= _MOST_SPREAD
