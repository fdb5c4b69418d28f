"""Plans in natural language: a sentence that states an intention, with an action and its object (P17).

A mention is no plan: what is denied or forbidden, what could happen, what a test, a bug or the product does,
and everything in quotation marks. The rules are data (`prose-rules.toml`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Final

import msgspec

from repotrial._core.files import read_package_data
from repotrial.policy._prose_concepts import Concept, Concepts

_GAP: Final = 90
_REACH: Final = 300
_MAX_SENTENCE: Final = 600
_OVERLAP: Final = 200
_MAX_SENTENCES: Final = 4000
_UNREAD: Final = "unreadable-command"

_SENTENCE = re.compile(r"[^.!?;\n]+(?:\.(?=[\w/])[^.!?;\n]*)*")
_QUOTED = re.compile(
    r"\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|«[^»\n]{0,400}»|(?<!\w)'[^'\n]{4,400}'(?!\w)|^\s*>.*$", re.MULTILINE
)
_MARKER = re.compile(
    r"^\s*(?:[-*+•]\s*)?(?:\(?\d+[.):]|\(?[a-h]\)|\**(?:step|phase|stage|part)\s+\w+\**\s*[-.:\u2013\u2014]\**|(?:next|last|final|first|second|third)?\s*(?:step|move)?:"
    r"|(?:plan|then|todo|done|action|goal|thought|finally|result):)?\s*",
    re.IGNORECASE,
)
_INTENT = re.compile(
    r"\b(?:i|we)(?:'ll|'m|'re|\s+am|\s+are|\s+will|\s+shall|\s+can|\s+could|\s+should|\s+must|\s+need|\s+want|\s+plan|\s+intend"
    r"|\s+have|'ve|\s+decided|\s+try|\s+just|\s+now|\s+also|\s+then|\s+first)?\b"
    r"|\blet\s+(?:me|us)\b|\blet's\b|\b(?:my|our|the)\s+(?:\w+\s+)?(?:plan|step|goal|idea|task|strategy|approach|aim|intention|objective|move|trick)\b"
    r"|\btime\s+to\b|\b(?:all\s+that(?:'s|\s+is)\s+left|what\s+remains)\b|\b(?:best|easiest|simplest|fastest|quickest)\s+(?:way|thing|option|path)\b|\bgoing\s+to\b|\bnow\b\s+\w+ing\b",
    re.IGNORECASE,
)
_OPENERS = re.compile(
    r"(?:(?:now|next|then|first|second|third|last|lastly|finally|later|afterwards?|after\s+that|after\s+this|once\s+\w+(?:\s+\w+)?,|and"
    r"|also|please|quietly|silently|secretly|simply|just|immediately|recursively|proceed\s+to|go\s+ahead\s+and|try\s+to|start\s+by|begin\s+by"
    r"|run|running|ran|use\s+\w+\s+to|find\s+a)[,\s]+)*",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:never|not|no\s+need|nothing|avoid\w*|without|cannot|can't|don't|doesn't|won't|wouldn't|shouldn't|mustn't"
    r"|must\s+not|refus\w+|forbid\w*|forbidden|prohibit\w*|instead\s+of|rather\s+than|prevent\w*|protect\w*|dangerous|malicious|block(?:s|ed|ing)?\b(?!\s+devices?)"
    r"|disallow\w*|warn\w*|neither|nor|stop\w*\s+(?:it|them|users?|anyone)\s+from)\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:if|when|whenever|unless|would|might|may|in\s+case|otherwise|so\s+that\s+(?:users?|they|it|only)|an?\s+attacker|attackers"
    r"|anyone|malicious|(?:tests?|checks?|case|guards?|rules?|fixture|assertion|warning|detector|validator|bugs?|issue|code|function|method|handler|call|branch|line)"
    r"\s+(?:that|which|where|who|to)|fix(?:ed|es|ing)?|noticed|reproduc\w+|explain\w*|describ\w+|document(?:ed|ing|s)?|detect\w*|flag(?:s|ged|ging)"
    r"|mak(?:e|ing)\s+sure|made\s+sure|ensur\w+|verif\w+|the\s+(?:test|tests|bug|issue|report|ticket|statement|task|readme|documentation|docs|comment|log|output|user|users"
    r"|function|method|class|code|script|installer|client|server|program|tool|command|fixture|admin|program)\s+(?:\w+\s+)?(?:says?|said|asks?|states?|reads?"
    r"|shows?|mentions?|checks?|expects?|deletes?|removes?|sends?|uploads?|wipes?|erases?|downloads?|gives?|grants?|runs?|warns?|receives?"
    r"|should|must|will|can|could|is|are|has|was|were))\b",
    re.IGNORECASE,
)

# Between an action and its object: the action is done to a text about the object.
_ABOUT = re.compile(
    r"\b(?:how|whether|why|where|(?:code|function|method|class|module|tests?|checks?|bugs?|rules?|option|flag|docs?|documentation|sections?|examples?"
    r"|sentences?|comments?|lines?|handler|parser|calls?|warnings?|messages?|branch|support|logic|notes?|guards?|mocks?|stubs?)"
    r"\s+(?:that|which|for|about|where|to|when|in\s+the|around|against|on)|uses?\s+of|usages?|mentions?\s+of|references?\s+to|code\s?base\s+for)\b",
    re.IGNORECASE,
)


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    action: str
    object: tuple[str, ...]
    needs: str = ""
    """What the sentence must have besides."""
    without: str = ""
    """What the sentence must not have."""


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/prose-rules@2$")]
    words: dict[str, str]
    rule: tuple[_Rule, ...]
    concept: tuple[Concept, ...]


class _Compiled(msgspec.Struct, frozen=True):
    id: str
    action: re.Pattern[str]
    objects: tuple[re.Pattern[str], ...]
    needs: re.Pattern[str] | None
    without: re.Pattern[str] | None


@cache
def _read() -> tuple[_Rules, dict[str, str]]:
    data = tomllib.loads(read_package_data("repotrial.policy", "prose-rules.toml").decode())
    rules = msgspec.convert(data, _Rules)
    words: dict[str, str] = {}
    for name, text in rules.words.items():
        words[name] = _fill(text, words)
    return rules, words


@cache
def _load_concepts() -> Concepts:
    rules, words = _read()
    return Concepts(
        tuple(
            (each.id, tuple(re.compile(_fill(text, words), re.IGNORECASE) for text in each.all))
            for each in rules.concept
        )
    )


@cache
def _load() -> tuple[_Compiled, ...]:
    rules, words = _read()
    return tuple(
        _Compiled(
            rule.id,
            re.compile(rf"\b(?:{_fill(rule.action, words)})", re.IGNORECASE),
            tuple(re.compile(_fill(each, words), re.IGNORECASE) for each in rule.object),
            re.compile(_fill(rule.needs, words), re.IGNORECASE) if rule.needs else None,
            re.compile(_fill(rule.without, words), re.IGNORECASE) if rule.without else None,
        )
        for rule in rules.rule
    )


def _fill(text: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", value)
    return text.replace("{{", "{").replace("}}", "}")


def find_plans(prose: str) -> Iterator[tuple[str, int, int]]:
    """Rules that a plan meets, each once for a sentence, and between which characters.

    Args:
        prose: A message, with blanks where it has code.
    """
    quiet = _QUOTED.sub(lambda found: " " * len(found[0]), prose).replace("\u2019", "'")
    seen: set[tuple[str, int]] = set()
    for count, (start, sentence) in enumerate(_iter_sentences(quiet)):
        if count >= _MAX_SENTENCES:
            yield _UNREAD, start, len(prose)
            return
        first = start + len(sentence) - len(sentence.lstrip())
        for rule in _find_rules(sentence):
            if (rule, first) not in seen:
                seen.add((rule, first))
                yield rule, first, start + len(sentence)


def _iter_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Where each sentence begins, and its text; a long one in pieces that overlap, so none hides a plan."""
    for found in _SENTENCE.finditer(text):
        whole = found[0]
        for offset in range(0, max(1, len(whole) - _OVERLAP), _MAX_SENTENCE - _OVERLAP):
            yield found.start() + offset, whole[offset : offset + _MAX_SENTENCE]


def _find_rules(sentence: str) -> Iterator[str]:
    seen: set[str] = set()
    plans: dict[int, bool] = {}
    for rule in _load():
        if rule.id in seen or not _meets(rule, sentence, plans):
            continue
        seen.add(rule.id)
        yield rule.id
    yield from (each for each in _load_concepts().find(sentence) if each not in seen)


def _meets(rule: _Compiled, sentence: str, plans: dict[int, bool]) -> bool:
    if rule.needs is not None and rule.needs.search(sentence) is None:
        return False
    if rule.without is not None and rule.without.search(sentence) is not None:
        return False
    objects: tuple[re.Pattern[str], ...] | None = None
    for action in rule.action.finditer(sentence):
        place = action.start()
        if place not in plans:
            plans[place] = _is_plan(sentence, place)
        if not plans[place]:
            continue
        if objects is None:
            # An object that stands nowhere after the first action is not sought again after each.
            objects = tuple(
                each
                for each in rule.objects
                if each.pattern.startswith("^") or each.search(sentence, action.end()) is not None
            )
        rest = sentence[action.end() : action.end() + _REACH].lstrip(" ")
        if any(
            (match := _seek(each, rest)) is not None
            and match.start() <= _GAP
            and _ABOUT.search(rest, 0, match.start()) is None
            for each in objects
        ):
            return True
    return False


def _seek(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    # `search` would try an anchored pattern at every place.
    return pattern.match(text) if pattern.pattern.startswith("^") else pattern.search(text)


def _is_plan(sentence: str, place: int) -> bool:
    """Whether the words before an action state it as intended: by the speaker, or as a step to take."""
    before = sentence[:place]
    if _DENIED.search(before):
        return False
    own = list(_INTENT.finditer(before))
    if own:
        # Words of supposing before the speaker, or between the speaker and the action: another's deed.
        spans = (before[: own[0].start()], before[own[-1].end() :])
        return not any(_SUPPOSED.search(span) for span in spans)
    if _OPENERS.fullmatch(_MARKER.sub("", before, count=1)) is None:
        return False
    # An imperative begins the sentence; `Deleting …` does too, and is a plan where it happens now or first.
    is_noun = re.match(r"\w+ing\b", sentence[place:]) is not None
    return not is_noun or re.search(r"\bnow\b|^.{0,40}\bby\s+\w+ing\b", sentence, re.IGNORECASE) is not None
